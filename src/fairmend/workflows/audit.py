"""Audit the people in a file, or samples: from the files of model, spec and data to figures, pairs and a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from fairmend.evaluate.document_parts import describe_origin
from fairmend.evaluate.groups import require_group_columns
from fairmend.evaluate.labelled import LabelledFigures, LabelledRows
from fairmend.evaluate.pairs import PairsFile
from fairmend.evaluate.people import RowNumbers, choose_policy, number_pairs
from fairmend.evaluate.people_stream import PeopleStream
from fairmend.evaluate.what_if import add_what_if
from fairmend.models import RunModel
from fairmend.network import Network
from fairmend.report import Report
from fairmend.report.report import PAGE_NAME
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange
from fairmend.tables import TableStream, describe_broken, local_files, stream_table
from fairmend.workers.engine import Engine, open_engine
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    add_about,
    as_path,
    as_source,
    at_threshold,
    load_any_model,
    save_widened_spec,
    silent,
    widened_spec_file,
)
from fairmend.workflows.outputs import REPORT_FILES, WIDENED, write_report, written_files


@dataclass(frozen=True, eq=False)
class AuditedFiles:
    """An audit of files, and what it wrote.

    Attributes
    ----------
    result : the audit
    labelled : figures of the rows that have a label
    document : the result as data, with what only the page of a report needs, if there is one
    files : what was written, by what it is: "out", "report" and "widened_spec"; None where nothing was
    warnings : signs that the spec is wrong, and files that were left out
    spec, network : spec and model as they were used: with wider ranges, and at the threshold
    out_of_range : what was done about values out of range
    title : what was audited
    """

    result: AuditResult
    labelled: LabelledFigures
    document: AuditDocument
    files: Mapping[str, Path | None]
    warnings: tuple[str, ...]
    spec: Spec
    network: Network | RunModel
    out_of_range: OutOfRange
    title: str

    @property
    def report(self) -> Report:
        """The report, drawn from the document."""
        if self.document.page is None:
            raise FairmendError("the audit was made without a report. Pass report, a folder")
        return Report(self.document)

    def _repr_html_(self) -> str:
        """Show the report in a notebook, or without one the figures."""
        return self.result._repr_html_() if self.document.page is None else self.report._repr_html_()


@shows_progress
def audit_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath | None = None,
    *,
    keep_going: bool = False,
    group: Sequence[str] = (),
    samples: int = 100_000,
    method: str = "auto",
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: PathLike | None = None,
    seed: int = 0,
    pairs: int = 5,
    out: PathLike | None = None,
    report: PathLike | None = None,
    what_if_rows: int | None = None,
    about: PathLike | None = None,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    trust_pickle: bool = False,
    outputs: str | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
) -> AuditedFiles:
    """Audit the people in the data, or samples of the input space, as `fairmend audit` does.

    `out` is a CSV file for everyone who is treated unequally, and `report` the folder of a report, in which the part
    "What if?" holds `what_if_rows` rows of the data (None leaves it out). `command` is what the report says was typed.
    Other arguments are the options of the command.
    """
    model, spec_file, table_at = Path(model), Path(spec), None if data is None else as_source(data)
    out, folder, about_file = as_path(out), as_path(report), as_path(about)
    if table_at is None and out_of_range != "refuse":
        raise FairmendError("--out-of-range needs --data: random samples are always in range")
    if table_at is None and keep_going:
        raise FairmendError("--keep-going needs --data: random samples come from no files")
    if table_at is None and group:
        raise FairmendError("--group needs --data: random samples have only the features of the spec")
    progress = progress or silent
    used, net = load_any_model(
        model, spec_file, activation, ignore_scores, threshold, outputs, trust_pickle=trust_pickle
    )
    used = add_about(used, about_file)
    inputs = [path for path in (model, spec_file, *local_files(table_at), about_file) if path is not None]
    if folder is not None:
        check_folder(folder, [*REPORT_FILES, WIDENED], inputs, "--report, or pass --no-report")
    spec_out = None if out is None else widened_spec_file(out, inputs)
    with open_engine(cluster, jobs) as engine:
        table = (
            None if table_at is None else _open_table(table_at, used, engine, progress, group, keep_going=keep_going)
        )
        people = None
        if table is not None:
            policy = choose_policy(out_of_range, used, reads_what_varies(net, used))
            people = PeopleStream(used, net, table, policy, engine=engine, asked=out_of_range, groups=group)
            used = people.spec
        numbers = RowNumbers(first=1) if people is None else people.rows
        with PairsFile(out, used, net, inputs, from_data=people is not None, table=table) as file:
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
                device=device,
                cluster=engine,
                resume=as_path(resume),
                progress=progress,
                on_plan=on_plan,
                witnesses=None if out is None else lambda rows, X, other: file.write_people(numbers, rows, X, other),
            )
    labelled = LabelledRows(used, net) if people is None else people.labelled
    result = number_pairs(result, numbers, used, net.dtype).name_classes(used.label, labelled.distinct_values)
    done = OutOfRange(out_of_range) if people is None else people.out_of_range
    columns = [] if people is None else people.groups.columns()
    figures = labelled.figures(result.rows, columns)
    broken = () if table is None else table.broken
    warnings = [*describe_broken(broken), *labelled.warnings(table_at), *audit_warnings(net, used, result, figures)]
    title = f"{model.name} on {table_at.name if table_at else 'random samples'}{at_threshold(used)}"
    sources: dict[str, DataSource] = {"model": model, "spec": spec_file}
    sources |= {} if table_at is None else {"data": table_at}
    parts = None if table is None else {"data": table.files}
    wider = save_widened_spec(used, done, spec_out)
    wider = folder / WIDENED if folder is not None and done.ranges else wider
    files = {"out": out, "report": None if folder is None else folder / PAGE_NAME, "widened_spec": wider}
    document = audit_document(
        net,
        used,
        result,
        describe_origin(sources, parts=parts, command=command, seed=seed, digests=folder is not None),
        title=title,
        labelled=figures,
        labels=labelled.distinct_values,
        warnings=warnings,
        rows=numbers,
        out_of_range=done,
        broken=broken,
        files=written_files(folder, out, wider),
        columns=columns,
        page=folder is not None,
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
    return AuditedFiles(result, figures, document, files, tuple(warnings), used, net, done, title)


def _open_table(
    data: DataSource, spec: Spec, engine: Engine, progress: Progress, groups: Sequence[str], *, keep_going: bool
) -> TableStream:
    """Return the table with the columns that the spec names, and those with groups."""
    needed, useful = spec.data_columns
    wanted = {*needed, *useful, *groups}
    table = stream_table(data, keep_going=keep_going, spool=wanted, engine=engine, progress=progress)
    require_group_columns(groups, spec, table.names)
    return table.only(needed, {*useful, *groups})
