"""`fairmend audit`: how many people a network treats unequally, of a file or of samples, and the worst pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend._version import __version__
from fairmend.arrays import FloatArray
from fairmend.atomic import check_folder, staged_folder
from fairmend.audit.result import AuditResult
from fairmend.audit.run import audit
from fairmend.cli.console import bars, console, group_figures, group_heading, show_json, show_pairs, show_warnings
from fairmend.cli.inputs import load_model
from fairmend.cli.report import REPORT_FILES, show_report, write_report
from fairmend.errors import FairmendError
from fairmend.evaluate.audit_document import LabelledFigures, audit_document, audit_warnings
from fairmend.evaluate.labelled import LabelledRows
from fairmend.evaluate.pairs_file import PairsFile
from fairmend.evaluate.provenance import describe_origin
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.tables import TableStream, stream_table
from fairmend.text import percent

NOBODY_UNEQUAL, SOMEBODY_UNEQUAL = 0, 1


def run_audit(
    model: Path,
    spec_file: Path,
    *,
    data: Path | None = None,
    samples: int = 100_000,
    seed: int = 0,
    pairs: int = 10,
    out: Path | None = None,
    report: Path | None = None,
    command: str | None = None,
    activation: str = "relu",
    json_output: bool = False,
) -> int:
    """Audit the people in the file, or samples, and show what came of it; return the exit code."""
    spec, net = load_model(model, spec_file, activation)
    inputs = [path for path in (model, spec_file, data) if path is not None]
    if report is not None:
        check_folder(report, list(REPORT_FILES), inputs, "--report, or --no-report")
    table = None if data is None else stream_table(data)
    labelled = LabelledRows(spec, net)
    first: list[pd.DataFrame] = []
    with PairsFile(out, spec, net, inputs) as file, bars(quiet=json_output) as progress:
        result = audit(
            net,
            spec,
            None if table is None else _encoded(spec, net, table, labelled, first),
            samples,
            seed,
            pairs=pairs,
            progress=lambda _, done, total: progress("audit", done, total if table is None else table.total),
            witnesses=None if out is None else file.write,
        )
    figures = LabelledFigures(labelled.rows, labelled.utility, labelled.groups)
    warnings = audit_warnings(net, result, figures)
    if report is not None:
        sources = {"model": model, "spec": spec_file} | ({} if data is None else {"data": data})
        described = audit_document(
            net,
            spec,
            result,
            describe_origin(sources, command=command, seed=seed),
            title=_title(model, data),
            labelled=figures,
            frame=first[0] if first else None,
            warnings=warnings,
        )
        with staged_folder(report) as stage:
            write_report(stage, described)
    page = None if report is None else report / "report.html"
    if json_output:
        show_json({**_document(model, data, seed, out, result, labelled), "report": page, "warnings": warnings})
    else:
        _show(console(), _title(model, data), result, labelled)
        _show_pairs(console(), spec, net.outputs, result)
        show_warnings(console(), warnings)
        if out is not None:
            console().print(Text.assemble("\nEverybody treated unequally is in ", (str(out), "bold")))
        if page is not None:
            show_report(console(), page)
    return SOMEBODY_UNEQUAL if result.count else NOBODY_UNEQUAL


def _title(model: Path, data: Path | None) -> str:
    return f"{model.name} on {data.name if data else 'samples of the input space'}"


def _encoded(
    spec: Spec, net: Network, table: TableStream, labelled: LabelledRows, first: list[pd.DataFrame]
) -> Iterator[FloatArray]:
    """Yield the pieces of the file as the network reads them; gather those that have a label, and the first."""
    done = 0
    for frame in table:
        try:
            X = spec.as_inputs(frame, net.dtype, first_row=done)
        except FairmendError as error:
            raise FairmendError(f"{table.path}: {error}") from error
        labelled.add(frame, X)
        if not first:
            first.append(frame)
        done += len(frame)
        yield X


def _document(
    model: Path, data: Path | None, seed: int, out: Path | None, result: AuditResult, labelled: LabelledRows
) -> dict[str, object]:
    utility = labelled.utility
    return {
        "fairmend": __version__,
        "model": model.name,
        "data": None if data is None else data.name,
        "seed": seed,
        **result.as_dict(),
        "labelled_rows": labelled.rows,
        "utility": None
        if utility is None
        else {name: value for name, value in asdict(utility).items() if name != "changed"},
        "groups": [asdict(group) for group in labelled.groups],
        "out": out,
    }


def _show(screen: Console, title: str, result: AuditResult, labelled: LabelledRows) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    table.add_column("")
    table.add_column("", justify="right")
    least = "" if result.exact else "at least "
    style = "bold red" if result.count else "bold green"
    table.add_row("Samples of the input space" if result.sampled else "People in the file", f"{result.total:,}")
    figure = "IDI-S" if result.sampled else "IDI-D"
    table.add_row(f"Treated unequally ({figure})", Text(f"{least}{result.count:,}", style=style))
    table.add_row("Their share", Text(f"{least}{percent(result.idi_rate, 2)}", style=style))
    if result.interval:
        low, high = result.interval
        table.add_row("95 % interval", f"{percent(low, 2)} to {percent(high, 2)}")
    table.add_row("Scores computed", f"{result.evaluations:,}")
    table.add_row("Seconds", f"{result.seconds:.2f}")
    _add_utility(table, labelled)
    screen.print(table)
    if not result.exact:
        screen.print(
            Text(
                "Not every neighbour could be looked at, only random ones: whoever was not found may still be "
                "treated unequally.",
                style="yellow",
            )
        )


def _add_utility(table: Table, labelled: LabelledRows) -> None:
    utility = labelled.utility
    if utility is None:
        return
    table.add_section()
    table.add_row("Accuracy *", percent(utility.accuracy))
    table.add_row("Balanced accuracy *", percent(utility.balanced_accuracy))
    if utility.positive_rate is not None:
        table.add_row("Positive rate *", percent(utility.positive_rate))
    if utility.auc is not None and utility.average_precision is not None:
        table.add_row("AUC / average precision *", f"{utility.auc:.3f} / {utility.average_precision:.3f}")
    for group in labelled.groups:
        table.add_row(f"{group_heading(group)} *", group_figures(group))
    which = "the first " if labelled.cut_off else "the "
    table.caption = f"* on {which}{labelled.rows:,} rows with a label"
    table.caption_justify = "left"


def _show_pairs(screen: Console, spec: Spec, outputs: int, result: AuditResult) -> None:
    if not result.pairs:
        return
    shown, count = len(result.pairs), result.count
    screen.print(Text("\nThe worst:" if shown < count else "\nTreated unequally:"))
    show_pairs(screen, spec, outputs, result.pairs, "sample" if result.sampled else "row")
