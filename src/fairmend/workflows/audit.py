"""Audit the people in a file, or samples: from the files of model, spec and data to figures, pairs and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairmend.auditing.comparisons import reads_what_varies
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.result import AuditResult
from fairmend.auditing.run import audit
from fairmend.base.errors import FairmendError
from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.paths import DataSource
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import audit_document, audit_warnings
from fairmend.evaluate.document import AuditDocument
from fairmend.evaluate.document_parts import Context
from fairmend.evaluate.groups import require_group_columns
from fairmend.evaluate.labelled import LabelledRows
from fairmend.evaluate.pairs import PairsFile
from fairmend.evaluate.people import RowNumbers, choose_policy, number_pairs
from fairmend.evaluate.people_stream import PeopleStream
from fairmend.evaluate.what_if import add_what_if
from fairmend.report.report import PAGE_NAME
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange
from fairmend.tables import TableStream, describe_broken, stream_table
from fairmend.workers.engine import Engine
from fairmend.workflows.inputs import (
    DataPath,
    InputOptions,
    Inputs,
    PathLike,
    WorkerOptions,
    as_path,
    at_threshold,
    save_widened_spec,
    silent,
    widened_spec_file,
)
from fairmend.workflows.outputs import REPORT_FILES, WIDENED, FilesResult, write_report, written_files


@shows_progress
def audit_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath | None = None,
    *,
    inputs: InputOptions | None = None,
    workers: WorkerOptions | None = None,
    group: Sequence[str] = (),
    samples: int = 100_000,
    method: str = "auto",
    time_limit: float | None = None,
    resume: PathLike | None = None,
    seed: int = 0,
    pairs: int = 5,
    out: PathLike | None = None,
    report: PathLike | None = None,
    what_if_rows: int | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
) -> FilesResult[AuditResult, AuditDocument]:
    """Audit the people in the data, or samples of the input space, as `fairmend audit` does.

    `out` is a CSV file for everyone who is treated unequally, and `report` the folder of a report, in which the part
    "What if?" holds `what_if_rows` rows of the data (None leaves it out). `command` is what the report says was typed.
    Other arguments are the options of the command. `files` of the result has "out", "report" and "widened_spec".
    """
    read, workers = Inputs(model, spec, data, inputs), workers or WorkerOptions()
    out, folder, asked = as_path(out), as_path(report), read.options.out_of_range
    read.require_data("random samples are always in range", "random samples come from no files")
    if read.data is None and group:
        raise FairmendError("--group needs --data: random samples have only the features of the spec")
    progress = progress or silent
    used, net = read.load()
    if folder is not None:
        check_folder(folder, [*REPORT_FILES, WIDENED], read.paths, "--report, or pass --no-report")
    spec_out = None if out is None else widened_spec_file(out, read.paths)
    people = table = None
    with workers.open() as engine:
        if read.data is not None:
            table = _open_table(read.data, used, engine, progress, group, keep_going=read.options.keep_going)
            policy = choose_policy(asked, used, reads_what_varies(net, used))
            people = PeopleStream(used, net, table, policy, engine=engine, asked=asked, groups=group)
            used = people.spec
        numbers = RowNumbers(first=1) if people is None else people.rows
        with PairsFile(out, used, net, read.paths, from_data=people is not None, table=table) as file:
            if people is not None:
                people.write_pairs(file)
            result = audit(
                net,
                used,
                people,
                samples,
                seed,
                pairs=pairs,
                method=method,
                time_limit=time_limit,
                device=workers.device,
                cluster=engine,
                resume=as_path(resume),
                progress=progress,
                on_plan=on_plan,
                witnesses=None if out is None else lambda rows, *both: file.write(numbers.numbers(rows), *both),
            )
    labelled = LabelledRows(used, net) if people is None else people.labelled
    result = number_pairs(result, numbers, used, net.dtype).name_classes(used.label, labelled.distinct_values)
    done = OutOfRange(asked) if people is None else people.out_of_range
    columns = [] if people is None else people.groups.columns()
    figures = labelled.figures(result.rows, columns)
    broken = () if table is None else table.broken
    wider = save_widened_spec(used, done, spec_out)
    wider = folder / WIDENED if folder is not None and done.ranges else wider
    context = Context(
        read.origin(command, seed, parts=None if table is None else {"data": table.files}, digests=folder is not None),
        f"{read.model.name} on {read.data.name if read.data else 'random samples'}{at_threshold(used)}",
        labelled.distinct_values,
        [*describe_broken(broken), *labelled.warnings(read.data), *audit_warnings(net, used, result, figures)],
        done,
        broken,
        written_files(folder, out, wider),
    )
    document = audit_document(
        net, used, result, context, labelled=figures, rows=numbers, columns=columns, page=folder is not None
    )
    if folder is not None:
        if what_if_rows is not None:
            examined = result.examined
            document = add_what_if(
                document, used, examined.X, net, people=examined.rows, numbers=numbers, rows=what_if_rows, seed=seed
            )
        with staged_folder(folder) as stage:
            write_report(stage, document)
            save_widened_spec(used, done, stage / WIDENED)
    files = {"out": out, "report": None if folder is None else folder / PAGE_NAME, "widened_spec": wider}
    return FilesResult(result, document, files, used, net)


def _open_table(
    data: DataSource, spec: Spec, engine: Engine, progress: Progress, groups: Sequence[str], *, keep_going: bool
) -> TableStream:
    """Return the table with the columns that the spec names, and those with groups."""
    needed, useful = spec.data_columns
    wanted = {*needed, *useful, *groups}
    table = stream_table(data, keep_going=keep_going, spool=wanted, engine=engine, progress=progress)
    require_group_columns(groups, spec, table.names)
    return table.only(needed, {*useful, *groups})
