"""Search for unequal treatment beyond the people in a file: from the files to what a fairness tester finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairmend.auditing.result import AuditPair, make_pairs
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import search_document
from fairmend.evaluate.document import SearchDocument
from fairmend.evaluate.document_parts import describe_origin
from fairmend.evaluate.pairs import PairsFile
from fairmend.models import RunModel
from fairmend.network import Model, Network
from fairmend.network.model import ScoredRows
from fairmend.searching.result import SearchResult
from fairmend.searching.run import require_tester, search
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, spec_warnings
from fairmend.tables import describe_broken, local_files
from fairmend.workers.engine import open_engine
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    as_path,
    as_source,
    at_threshold,
    load_any_model,
    load_people,
    save_widened_spec,
    widened_spec_file,
)
from fairmend.workflows.outputs import written_files

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class SearchedFiles:
    """A search from the people in a file, and what it wrote.

    Attributes
    ----------
    result : the search
    pairs : a few of the pairs that it found, spread over all of them; `row` is their number, counted from 1
    document : the result as data
    files : what was written, by what it is: "out" and "widened_spec"; None where nothing was
    warnings : signs that the spec is wrong, and files that were left out
    spec, network : as they were used: with wider ranges, and at the threshold
    out_of_range : what was done about values out of range
    """

    result: SearchResult
    pairs: list[AuditPair]
    document: SearchDocument
    files: Mapping[str, Path | None]
    warnings: tuple[str, ...]
    spec: Spec
    network: Network | RunModel
    out_of_range: OutOfRange


@shows_progress
def search_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    *,
    keep_going: bool = False,
    method: str = "adf",
    seeds: int = 1000,
    local_steps: int = 1000,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: PathLike | None = None,
    seed: int = 0,
    out: PathLike | None = None,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    trust_pickle: bool = False,
    outputs: str | None = None,
    command: str | None = None,
    progress: Progress | None = None,
) -> SearchedFiles:
    """Search from the people in the data, as `fairmend search` does.

    `out` is a CSV file for everyone found to be treated unequally. `command` is what the document says was typed. Other
    arguments are the options of the command.
    """
    model, spec_file, table, out = Path(model), Path(spec), as_source(data), as_path(out)
    used, net = load_any_model(
        model, spec_file, activation, ignore_scores, threshold, outputs, trust_pickle=trust_pickle
    )
    require_tester(method, net)  # before the data is read
    with open_engine(cluster, jobs) as engine:
        people = load_people(table, used, net, out_of_range=out_of_range, keep_going=keep_going)
        used, X = people.spec, people.X
        inputs = [model, spec_file, *local_files(table)]
        spec_out = None if out is None else widened_spec_file(out, inputs)
        with PairsFile(out, used, net, inputs) as file:
            result = search(
                net,
                used,
                X,
                method,
                seed,
                seeds=seeds,
                local_steps=local_steps,
                device=device,
                cluster=engine,
                resume=as_path(resume),
                progress=progress,
            )
            if out is not None and result.count:
                file.write(np.arange(1, result.count + 1), result.idis, result.others)
    wider = save_widened_spec(used, people.out_of_range, spec_out)
    warnings = [*describe_broken(people.broken), *spec_warnings(net.predict(X), classes=used.classes)]
    pairs = _some_pairs(net, used, result)
    document = search_document(
        net,
        people,
        result,
        describe_origin({"model": model, "spec": spec_file, "data": table}, command=command, seed=seed, digests=False),
        title=f"{model.name}, searched from {table.name}{at_threshold(used)}",
        local_steps=local_steps,
        pairs=pairs,
        warnings=warnings,
        files=written_files(None, out, wider),
    )
    files = {"out": out, "widened_spec": wider}
    return SearchedFiles(result, pairs, document, files, tuple(warnings), used, net, people.out_of_range)


def _some_pairs(net: Model, spec: Spec, result: SearchResult) -> list[AuditPair]:
    """Return a few pairs, spread over the results; `row` is their number, counted from 1."""
    rows = np.unique(np.linspace(0, result.count - 1, min(_SHOWN, result.count)).astype(np.int64)).tolist()
    numbers = [row + 1 for row in rows]
    return make_pairs(spec, numbers, ScoredRows.of(net, result.idis[rows]), result.others[rows]) if rows else []
