"""`fairmend audit`: count the people who are treated unequally, in a file or in samples, and show the worst pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    FILE,
    POSITIVE,
    about_option,
    data_options,
    group_option,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    refuse_together,
    resume_option,
    seed_option,
    what_if_options,
    worker_options,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.auditing.figures import ScoreFigures
    from fairmend.auditing.plan import AuditPlan
    from fairmend.evaluate.document import AuditDocument, MeanEffect
    from fairmend.workflows import AuditedFiles


NONE_UNEQUAL, SOME_UNEQUAL = 0, 1
_LONG = 5.0  # seconds that an audit may take without announcing it


_USUAL = [
    "spec_file",
    "data",
    "group",
    "samples",
    "method",
    "time_limit",
    "pairs",
    "out",
    "report",
    "threshold",
    "json_output",
    "help",
    "help_all",
]


@click.command("audit", cls=Command, usual=_USUAL)
@model_options
@data_options("People to audit, {formats} Without it, audit random samples.")
@group_option
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Number of random samples without --data.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "exact", "enumerate", "branch", "sample"]),
    default="auto",
    show_default=True,
    help="How to compare people with their counterfactuals: all of them (enumerate), with bounds over all of them "
    "(branch), or random ones, which gives a lower bound (sample). exact takes the faster of the first two, and auto "
    "samples if that takes more than five minutes.",
)
@click.option("--time-limit", type=POSITIVE, help="Seconds for branch; people who are not decided by then are unknown.")
@worker_options("compare people with their counterfactuals. The result is the same.")
@resume_option
@seed_option
@click.option("--pairs", type=click.IntRange(min=0), default=5, show_default=True, help="Number of pairs to show.")
@click.option("--out", type=FILE, help="CSV file for everyone who is treated unequally, each with a counterfactual.")
@click.option(
    "--report",
    type=FILE,
    default=Path("fairmend-audit"),
    show_default=True,
    help="Folder for the HTML report; other files in it are kept.",
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@reading_options
@outputs_option
@about_option
@what_if_options
@output_options
def command(
    ctx: click.Context,
    /,
    model: Path,
    spec_file: Path,
    report: Path,
    no_report: bool,
    no_what_if: bool,
    what_if_rows: int,
    json_output: bool,
    **options: Any,
) -> None:
    """Count the people who are treated unequally.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime. A person is treated unequally if changing
    only protected features (and others within a tolerance or band, or by a link) changes the prediction; if the spec
    claims scores, if the scores of similar people differ by more than delta. Exits with 0 if no one is treated
    unequally, 1 if at least one person is.
    """
    from fairmend.cli.console import console, progress_bars, show_json
    from fairmend.workflows import audit_files

    refuse_together(ctx, "samples", "data")
    refuse_together(ctx, "jobs", "cluster")
    refuse_together(ctx, "report", "no_report")
    refuse_together(ctx, "about", "no_report")
    refuse_together(ctx, "no_what_if", "no_report")
    refuse_together(ctx, "what_if_rows", "no_report")
    refuse_together(ctx, "what_if_rows", "no_what_if")
    with progress_bars(quiet=json_output) as progress:
        audited = audit_files(
            model,
            spec_file,
            report=None if no_report else report,
            what_if_rows=None if no_what_if else what_if_rows,
            command=typed_command(ctx),
            progress=progress,
            on_plan=None if json_output else _announce,
            **options,
        )
    if json_output:
        show_json(audited.document.printed())
    else:
        _show_all(console(), audited)
    ctx.exit(SOME_UNEQUAL if audited.document.count else NONE_UNEQUAL)


def _show_all(screen: Console, audited: AuditedFiles) -> None:
    """Print the figures, the pairs, what was done about the data, and where the files are."""
    from rich.text import Text

    from fairmend.cli.console import (
        show_condition,
        show_doubts,
        show_other_warnings,
        show_out_of_range,
        show_report,
        show_runtime,
    )
    from fairmend.cli.figures import show_disparity, show_means, show_proxies

    document, files = audited.document, audited.files
    show_runtime(screen, audited.network)
    show_doubts(screen, document)
    _show(screen, document)
    show_disparity(screen, document)
    show_means(screen, document.mean_outputs)
    _show_effects(screen, document)
    show_proxies(screen, document.proxies)
    _show_pairs(screen, document)
    show_condition(screen, document.condition)
    show_out_of_range(screen, document.out_of_range, files["widened_spec"])
    show_other_warnings(screen, document)
    if files["out"] is not None:
        screen.print()
        screen.print(Text.assemble("Everyone who is treated unequally: ", (str(files["out"]), "bold")), soft_wrap=True)
    if files["report"] is not None:
        show_report(screen, files["report"])


def _announce(plan: AuditPlan) -> None:
    """Print how long the audit may take, if that is long."""
    from fairmend.cli.console import stderr_console

    if plan.seconds < _LONG:
        return
    line = f"{plan.describe()[0].upper()}{plan.describe()[1:]}."
    if plan.method != "sample":
        line += " --method sample gives a lower bound sooner."
    stderr_console().print(line)


def _show(screen: Console, document: AuditDocument) -> None:
    from rich.text import Text

    from fairmend.base.text import percent
    from fairmend.cli.console import figures_table
    from fairmend.cli.figures import add_disparity

    table = figures_table(document.title, "", " ", right=(" ",))
    least = "" if document.exact else "at least "
    style = "bold red" if document.count else "bold green"
    table.add_row(
        "Random samples of the input space" if document.sampled else "People in the data", f"{document.total:,}"
    )
    none_found = not document.exact and not document.count
    people = "none found" if none_found else f"{least}{document.count:,}"
    table.add_row("Treated unequally", Text(people, style=style))
    if not none_found:
        table.add_row("Share treated unequally", Text(f"{least}{percent(document.idi_rate, 2)}", style=style))
    if document.unknown and document.method == "branch":
        table.add_row("Undecided", f"{document.unknown:,}")
    if document.interval:
        low, high = document.interval
        table.add_row("95 % confidence interval", f"{percent(low, 2)} to {percent(high, 2)}")
    table.add_row("Scores compared", f"{document.evaluations:,} in {document.seconds:.2f} s")
    if document.scores is not None:
        _add_scores(
            table,
            document.scores,
            "" if document.method == "enumerate" else "at least ",
            same=document.scores.on == document.disparity.on,
        )
    _add_utility(table, document)
    add_disparity(table, document.disparity)
    screen.print(table)
    if not document.exact:
        screen.print(Text(_explain_lower_bound(document), style="yellow"))


def _explain_lower_bound(document: AuditDocument) -> str:
    from fairmend.auditing.plan import describe_seconds

    if document.method == "branch":
        return (
            f"{document.unknown:,} more may be treated unequally: their scores come within rounding error of the "
            "decision, or the time limit was reached."
        )
    line = "Only random counterfactuals were tried: more people may be treated unequally."
    seconds = document.exact_seconds
    if seconds is not None:
        line += f" An exact count would take about {describe_seconds(seconds)} or more: pass --method exact."
    return line


def _add_scores(table: Table, scores: ScoreFigures, least: str, *, same: bool) -> None:
    """Add what the claim allows, and the differences unless the disparity shows the same ones."""
    table.add_section()
    table.add_row(f"Allowed difference of the {scores.on}", f"{scores.delta:.4g}")
    if not same:
        table.add_row("Largest difference within a neighbourhood", f"{least}{scores.largest:.4g}")
        table.add_row("Median difference / 90th percentile", f"{scores.median:.4g} / {scores.p90:.4g}")


def _add_utility(table: Table, document: AuditDocument) -> None:
    from fairmend.cli.console import group_figures, group_heading
    from fairmend.cli.figures import kept_figures

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


def _show_effects(screen: Console, document: AuditDocument) -> None:
    """Print who loses, and by how much: the mean effect of each value of the protected features."""
    from rich.text import Text

    from fairmend.base.text import signed_difference
    from fairmend.cli.console import figures_table

    if not document.effects:
        return
    on = "output" if document.claim.on == "output" else "probability"
    answer = document.effects[0].answer
    columns = ("output",) if answer is None else ("probability", "share")

    def shown(effect: MeanEffect) -> str:
        mean, low, high = (signed_difference(value, on) for value in (effect.mean, effect.low, effect.high))
        return f"{mean} ({low} to {high})"

    table = figures_table("Mean effect of each value", "", " ", *columns, "  ", right=columns)
    for feature in document.effects:
        name = feature.feature if feature.answer == answer else f"{feature.feature} ({feature.answer})"
        for value in feature.values:
            figures = [value.score] if value.decision is None else [value.score, value.decision]
            style = {"loses": "red", "gains": "green"}.get(value.direction, "")
            result = Text("" if value.direction == "neither" else value.direction, style=style)
            table.add_row(name, value.value, *map(shown, figures), result)
            name = ""
        table.add_section()
    what = f'in points, on the probability of "{answer}" and the share who get it'
    what = "on the output" if answer is None else what
    table.caption = f"{what}, with 95 % intervals: the same person with each value"
    screen.print()
    screen.print(table)


def _show_pairs(screen: Console, document: AuditDocument) -> None:
    from fairmend.cli.console import show_pairs

    if not document.pairs:
        return
    if document.scores is not None:
        screen.print("\nThe largest differences:")
    else:
        screen.print("\nThe worst pairs:" if len(document.pairs) < document.count else "\nTreated unequally:")
    show_pairs(screen, document, document.pairs, "sample" if document.sampled else "row")
