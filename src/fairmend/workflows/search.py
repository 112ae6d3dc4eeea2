"""Search for unequal treatment beyond the people in a file: from the files to what a fairness tester finds."""

from __future__ import annotations

import numpy as np

from fairmend.auditing.result import AuditPair, make_pairs
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import search_document
from fairmend.evaluate.document import SearchDocument
from fairmend.evaluate.pairs import PairsFile
from fairmend.network import Model
from fairmend.network.model import ScoredRows
from fairmend.searching.result import SearchResult
from fairmend.searching.run import require_tester, search
from fairmend.spec import Spec
from fairmend.workflows.inputs import (
    DataPath,
    InputOptions,
    Inputs,
    PathLike,
    WorkerOptions,
    as_path,
    at_threshold,
    save_widened_spec,
    widened_spec_file,
)
from fairmend.workflows.outputs import FilesResult, people_context, written_files

_SHOWN = 5


@shows_progress
def search_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    *,
    inputs: InputOptions | None = None,
    workers: WorkerOptions | None = None,
    method: str = "adf",
    seeds: int = 1000,
    local_steps: int = 1000,
    resume: PathLike | None = None,
    seed: int = 0,
    out: PathLike | None = None,
    command: str | None = None,
    progress: Progress | None = None,
) -> FilesResult[SearchResult, SearchDocument]:
    """Search from the people in the data, as `fairmend search` does.

    `out` is a CSV file for everyone found to be treated unequally. `command` is what the document says was typed. Other
    arguments are the options of the command. `files` of the result has "out" and "widened_spec".
    """
    read, workers, out = Inputs(model, spec, data, inputs), workers or WorkerOptions(), as_path(out)
    used, net = read.load()
    require_tester(method, net)  # before the data is read
    with workers.open() as cluster:
        people = read.people(used, net)
        used, X = people.spec, people.X
        spec_out = None if out is None else widened_spec_file(out, read.paths)
        with PairsFile(out, used, net, read.paths) as file:
            result = search(
                net,
                used,
                X,
                method,
                seed,
                seeds=seeds,
                local_steps=local_steps,
                device=workers.device,
                cluster=cluster,
                resume=as_path(resume),
                progress=progress,
            )
            if out is not None and result.count:
                file.write(np.arange(1, result.count + 1), result.idis, result.others)
    wider = save_widened_spec(used, people.out_of_range, spec_out)
    assert read.data is not None
    title = f"{read.model.name}, searched from {read.data.name}{at_threshold(used)}"
    context = people_context(people, net, read.origin(command, seed), title, written_files(None, out, wider))
    pairs = _some_pairs(net, used, result)
    document = search_document(net, people, result, context, local_steps=local_steps, pairs=pairs)
    return FilesResult(result, document, {"out": out, "widened_spec": wider}, used, net)


def _some_pairs(net: Model, spec: Spec, result: SearchResult) -> list[AuditPair]:
    """Return a few pairs, spread over the results; `row` is their number, counted from 1."""
    rows = np.unique(np.linspace(0, result.count - 1, min(_SHOWN, result.count)).astype(np.int64)).tolist()
    numbers = [row + 1 for row in rows]
    return make_pairs(spec, numbers, ScoredRows.of(net, result.idis[rows]), result.others[rows]) if rows else []
