"""The results of audit, certify, quantify and search in the terminal: each shows what the document says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend.auditing.figures import UNEQUAL, UNEQUAL_SHARE
from fairmend.auditing.plan import AuditPlan
from fairmend.base.text import at_least_percent, capitalized, percent
from fairmend.cli.console import Rows, figures_table, stderr_console
from fairmend.cli.figures import (
    ROW_NUMBERS,
    add_disparity,
    describe_worst,
    group_figures,
    group_heading,
    kept_figures,
    show_condition,
    show_curve,
    show_doubts,
    show_effects,
    show_means,
    show_other_warnings,
    show_out_of_range,
    show_pairs,
    show_proxies,
    show_report,
    show_runtime,
    show_unit,
)
from fairmend.evaluate.document import AuditDocument, CertifyDocument, Document, QuantifyDocument, SearchDocument
from fairmend.prove.result import decided_by
from fairmend.quantifying.result import describe_estimate, share_rows
from fairmend.searching.result import FOUND, search_rows

if TYPE_CHECKING:  # a command loads the parts that it needs
    from fairmend.auditing.result import AuditResult
    from fairmend.prove.result import CertifyResult
    from fairmend.quantifying.result import QuantifyResult
    from fairmend.searching.result import SearchResult
    from fairmend.workflows.outputs import FilesResult

_LONG = 5.0  # seconds that an audit may take without announcing it
_SHOWN = 5
_SHARE_COLOURS = {"fair": "green", "unfair": "red", "undecided": "yellow"}
_REAL_ONLY = (
    "It is about exact arithmetic only: every margin is below the rounding errors of inference, which may change a "
    "prediction of the deployed model. Check it with fairmend check --real."
)


def show_begin(screen: Console, done: FilesResult[Any, Document]) -> None:
    """Print what runs the model, if fairmend only runs it, what makes all figures doubtful, and the unit of scores."""
    show_runtime(screen, done.network)
    show_doubts(screen, done.document)
    show_unit(screen, done.document)


def show_end(screen: Console, done: FilesResult[Any, Document], everyone: str = "") -> None:
    """Print what was done about the data, and where the files are; `everyone` says who is in the file of pairs."""
    document, files = done.document, done.files
    show_out_of_range(screen, document.out_of_range, files["widened_spec"])
    show_other_warnings(screen, document)
    out, report = files.get("out"), files.get("report")
    if out is not None:
        screen.print()
        screen.print(Text.assemble(f"{everyone}: ", (str(out), "bold")), soft_wrap=True)
    if report is not None:
        show_report(screen, report)


# Audit


def show_audit(screen: Console, audited: FilesResult[AuditResult, AuditDocument]) -> None:
    """Print the figures, the pairs, what was done about the data, and where the files are."""
    document = audited.document
    show_begin(screen, audited)
    _show_audited(screen, document)
    _show_disparity(screen, document)
    show_means(screen, document.mean_outputs)
    show_effects(screen, document, document.effects)
    show_proxies(screen, document.proxies)
    _show_pairs(screen, document)
    show_condition(screen, document.condition)
    show_end(screen, audited, "Everyone who is treated unequally")


def announce(plan: AuditPlan) -> None:
    """Print how long the audit may take, if that is long."""
    if plan.seconds < _LONG:
        return
    line = f"{capitalized(plan.describe())}."
    if plan.method != "sample":
        line += " --method sample gives a lower bound sooner."
    stderr_console().print(line)


def _show_audited(screen: Console, document: AuditDocument) -> None:
    table = figures_table(document.title, "", " ", right=(" ",))
    style = "bold red" if document.count else "bold green"
    for name, value in document.rows(document.scores, document.disparity):
        table.add_row(name, Text(value, style=style if name in (UNEQUAL, UNEQUAL_SHARE) else ""))
        if name.startswith("Scores compared") and document.scores is not None:
            table.add_section()
    _add_utility(table, document)
    add_disparity(table, document.disparity)
    screen.print(table)
    if not document.exact:
        screen.print(Text(document.why_more(), style="yellow"))


def _add_utility(table: Table, document: AuditDocument) -> None:
    utility = document.utility
    if utility is None:
        return
    table.add_section()
    for name, figure in kept_figures(utility):
        if name == "AUC" and utility.average_precision is not None:
            name, figure = "AUC / average precision", f"{figure} / {utility.average_precision:.3f}"
        table.add_row(f"{name} *", figure)
    for group in document.groups:
        table.add_row(f"{group_heading(group)} *", group_figures(group))
    table.caption = f"* on the {document.labelled_rows:,} rows with a label"


def _show_pairs(screen: Console, document: AuditDocument) -> None:
    if not document.pairs:
        return
    if document.scores is not None:
        screen.print("\nThe largest differences:")
    else:
        screen.print("\nThe worst pairs:" if len(document.pairs) < document.count else "\nTreated unequally:")
    show_pairs(screen, document, document.pairs, "sample" if document.sampled else "row")


def _show_disparity(screen: Console, document: AuditDocument) -> None:
    """Print the two similar people whose scores differ most, and who would be treated unequally at other thresholds."""
    disparity = document.disparity
    if disparity.worst is not None and disparity.on == "probability" and document.claim.on != "probability":
        screen.print()
        line = describe_worst(document, disparity.worst, "sample" if document.sampled else "row")
        screen.print(Text(f"Largest score disparity, {line}"))
    if disparity.threshold is not None:
        show_curve(screen, disparity, disparity.threshold)
    if not disparity.exact:
        also = ", and so are the shares at other thresholds" if disparity.curve else ""
        note = f"Not every similar person was computed: score disparities are at least these (≥){also}."
        screen.print(Text(note, style="yellow"))


# Certify


def show_certify(screen: Console, certified: FilesResult[CertifyResult, CertifyDocument]) -> None:
    """Print the verdicts, what was done about the data, and what a certificate covers."""
    document = certified.document
    show_begin(screen, certified)
    _show_verdicts(screen, document)
    show_condition(screen, document.condition)
    show_end(screen, certified)
    if document.certificate is None:
        return
    covered, fair = document.certificate.inputs, document.counts.fair
    inputs = f"{covered:,} of the {fair:,} FAIR inputs"
    if covered == fair:
        inputs = "the FAIR input" if fair == 1 else f"all {fair:,} FAIR inputs"
    screen.print()
    where = (str(certified.files["certificate"]), "bold")
    screen.print(Text.assemble(f"Certificate for {inputs}: ", where), soft_wrap=True)
    if document.certificate.arithmetic == "real":
        screen.print(Text(_REAL_ONLY, style="yellow"))


def _show_verdicts(screen: Console, document: CertifyDocument) -> None:
    table = figures_table(document.title, "verdict", "people", "share", "meaning", right=("people", "share"))
    words, how = document.claim.words(), "run" if document.runtime else "proven"
    for verdict, style, meaning in (
        ("fair", "green", f"{how}: {words.equal}"),
        ("unfair", "red", words.unequal),
        ("unknown", "yellow", "undecided: neither proven nor refuted"),
    ):
        count = getattr(document.counts, verdict)
        name = Text(verdict.upper(), style=style if count else "dim")
        table.add_row(name, f"{count:,}", percent(count / document.inputs), meaning)
    by = decided_by(document.engine, document.runtime)
    table.caption = f"{document.inputs:,} people, {by}, {document.seconds:.2f} s"
    screen.print(table)
    pairs = [pair for pair in document.witnesses if pair is not None]
    if pairs:
        some = "" if len(pairs) <= _SHOWN else f" ({_SHOWN} of {len(pairs):,})"
        screen.print(f"\nTreated unequally{some}:")
        lines = Rows.grid(padding=(0, 1))
        for pair in pairs[:_SHOWN]:
            lines.add_row(Text(f"  {pair.name}:"), Text(pair.describe_witness()))
        screen.print(lines)
        screen.print(Text(f"  {ROW_NUMBERS}", style="dim"))
    for reason in dict.fromkeys(reason for reason in document.reasons if reason):
        screen.print(Text(f"UNKNOWN for {document.reasons.count(reason):,}: {reason}", style="yellow"))


# Quantify


def show_quantify(screen: Console, quantified: FilesResult[QuantifyResult, QuantifyDocument]) -> None:
    """Print what follows the shares: the certificate, what was done about the data, and where the files are."""
    certified = quantified.document.certificate
    if certified is not None and certified.fair is not None and certified.unfair is not None:
        shares = f"{at_least_percent(certified.fair)} equally, {at_least_percent(certified.unfair)} unequally"
        path = (str(quantified.files["certificate"]), "bold")
        screen.print(Text.assemble(f"Certificate for {shares}: ", path), soft_wrap=True)
    show_end(screen, quantified)


def show_shares(screen: Console, found: QuantifyDocument, data: str | None) -> None:
    """Print the shares of all people and of the rows of the data, and the map."""
    show_doubts(screen, found)
    columns = ["", "Of all people"] + ([] if found.rows is None else [f"Rows of {data}"])
    table = figures_table(found.title, *columns, right=columns[1:])
    rows = found.rows
    for (label, share), name in zip(
        share_rows(found.fair, found.unfair, found.undecided), ("fair", "unfair", "undecided"), strict=True
    ):
        style = f"bold {_SHARE_COLOURS[name]}" if getattr(found, name) else ""
        table.add_row(label, Text(share, style), *([] if rows is None else [f"{getattr(rows, name):,}"]))
    screen.print(table)
    if found.sampled is not None:
        screen.print(Text(describe_estimate(found.sampled, found.samples)))
    divided = f"{found.leaves:,} {'box' if found.leaves == 1 else 'boxes'} in {found.seconds:.1f} s."
    screen.print(Text(f"{divided} The proof holds in {found.precision} arithmetic, rounding included."))
    show_condition(screen, found.condition)
    if found.boxes:
        screen.print()
        _show_map(screen, found)


def _show_map(screen: Console, found: QuantifyDocument) -> None:
    columns = ["Of all people", "Of the box"] + ([] if found.rows is None else ["Rows in it"])
    table = figures_table(
        "Where people are treated unequally, the largest shares first", *columns, "Box", right=columns
    )
    for box in found.boxes:
        rows = [] if box.rows is None else [f"{box.rows:,}"]
        table.add_row(at_least_percent(box.share), at_least_percent(box.of_box), *rows, box.text)
    screen.print(table)


# Search


def show_search(screen: Console, searched: FilesResult[SearchResult, SearchDocument]) -> None:
    """Print what the tester found, what was done about the data, and where the files are."""
    show_begin(screen, searched)
    _show_found(screen, searched.document)
    show_end(screen, searched, "Everyone found to be treated unequally")


def _show_found(screen: Console, document: SearchDocument) -> None:
    table = figures_table(document.title, "", " ", right=(" ",))
    for name, value in search_rows(
        document.method, document.count, document.starts, document.seeds, document.calls, document.seconds
    ):
        style = "bold red" if document.count else "bold green"
        table.add_row(name, Text(value, style if name == FOUND else ""))
    screen.print(table)
    if not document.count:
        screen.print(
            Text("The tester found no unequal treatment. This is not a proof: run fairmend certify.", style="yellow")
        )
        return
    screen.print("\nExamples:")
    show_pairs(screen, document, document.pairs, "result")
