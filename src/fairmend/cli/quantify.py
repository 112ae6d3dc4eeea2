"""`fairmend quantify`: prove which share of all people is treated equally, and which unequally."""

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
    model_options,
    output_options,
    reading_options,
    refuse_together,
    seed_option,
    worker_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.evaluate.document import CertificateSummary, QuantifyDocument
    from fairmend.workflows import QuantifiedFiles


ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_SECONDS = (
    "Stop after this many seconds, of which the rows of the data take at most half. The map and the random people come "
    "after that."
)


@click.command("quantify", cls=Command)
@model_options
@data_options("People to count as well, {formats}")
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help=_SECONDS)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, max_open=True),
    help="Stop as soon as at most this share of all people is undecided, such as 0.05.",
)
@click.option(
    "--boxes",
    type=click.IntRange(min=0, max=100),
    default=10,
    show_default=True,
    help="How many of the largest boxes of people who are treated unequally to show, also in the report.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=20_000,
    show_default=True,
    help="How many random people to compare, for an estimate beside the proof.",
)
@click.option(
    "--report",
    type=FILE,
    default=Path("fairmend-quantify"),
    show_default=True,
    help="Folder for the HTML report; other files in it are kept.",
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@worker_options("decide boxes of people.")
@click.option("--certificate", type=FILE, help="Write a certificate of the shares, for fairmend check, to this file.")
@seed_option
@reading_options
@about_option
@output_options
def command(
    ctx: click.Context,
    /,
    model: Path,
    spec_file: Path,
    report: Path,
    no_report: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Prove which share of all people is treated equally.

    MODEL is a file: {formats}. All people are those that the spec allows, each combination of values with the same
    weight; of the protected features, only those that links depend on count. The shares hold whenever the command
    stops. Exits with 0 if no one is proven to be treated unequally and no one is undecided (or at most --share is), 1
    if someone is proven to be treated unequally, 2 otherwise.
    """
    from fairmend.cli.console import (
        console,
        progress_bars,
        show_doubts,
        show_json,
        show_other_warnings,
        show_out_of_range,
        show_report,
        warn_before,
    )
    from fairmend.workflows import quantify_files

    refuse_together(ctx, "jobs", "cluster")
    refuse_together(ctx, "report", "no_report")
    refuse_together(ctx, "about", "no_report")
    screen, data = console(), options["data"]
    with progress_bars(quiet=json_output) as progress:

        def show_shares(quantified: QuantifiedFiles) -> None:
            progress.pause()
            show_doubts(screen, quantified.document)
            _show(screen, quantified.document, None if data is None else data.name)

        quantified = quantify_files(
            model,
            spec_file,
            report=None if no_report else report,
            command=typed_command(ctx),
            progress=progress,
            on_result=None if json_output else show_shares,
            on_outlook=None if json_output else warn_before,
            **options,
        )
    files = quantified.files
    if json_output:
        show_json(quantified.document.printed())
    else:
        if files["certificate"] is not None and quantified.document.certificate is not None:
            _show_certificate(screen, files["certificate"], quantified.document.certificate)
        show_out_of_range(screen, quantified.document.out_of_range, files["widened_spec"])
        show_other_warnings(screen, quantified.document)
        if files["report"] is not None:
            show_report(screen, files["report"])
    ctx.exit(_exit_code(quantified.document, options["share"]))


def _show_certificate(screen: Console, path: Path, certified: CertificateSummary) -> None:
    from rich.text import Text

    from fairmend.base.text import at_least_percent

    assert certified.fair is not None
    assert certified.unfair is not None
    shares = f"{at_least_percent(certified.fair)} equally, {at_least_percent(certified.unfair)} unequally"
    screen.print(Text.assemble(f"Certificate for {shares}: ", (str(path), "bold")), soft_wrap=True)


def _exit_code(found: QuantifyDocument, share: float | None) -> int:
    if found.unfair > 0 or (found.rows is not None and found.rows.unfair > 0):
        return SOME_UNFAIR
    return ALL_FAIR if found.undecided <= (share or 0.0) else UNDECIDED


def _show(screen: Console, found: QuantifyDocument, data: str | None) -> None:
    from rich.text import Text

    from fairmend.base.text import at_least_percent, at_most_percent
    from fairmend.cli.console import figures_table, show_condition

    columns = ["", "Of all people"] + ([] if found.rows is None else [f"Rows of {data}"])
    table = figures_table(found.title, *columns, right=columns[1:])
    rows = found.rows
    for label, name, colour, percent in (
        ("Proven to be treated equally", "fair", "green", at_least_percent),
        ("Proven to be treated unequally", "unfair", "red", at_least_percent),
        ("Undecided", "undecided", "yellow", at_most_percent),
    ):
        figures = [Text(percent(getattr(found, name)), f"bold {colour}" if getattr(found, name) else "")]
        figures += [] if rows is None else [Text(f"{getattr(rows, name):,}")]
        table.add_row(label, *figures)
    screen.print(table)
    if found.sampled is not None:
        estimate = f"{found.sampled:.2%}".replace("%", " %")
        screen.print(Text(f"Of {found.samples:,} random people, {estimate} were found to be treated unequally."))
    divided = f"{found.leaves:,} {'box' if found.leaves == 1 else 'boxes'} in {found.seconds:.1f} s."
    screen.print(Text(f"{divided} The proof holds for the network's own arithmetic."))
    show_condition(screen, found.condition)
    if found.boxes:
        screen.print()
        _show_map(screen, found)


def _show_map(screen: Console, found: QuantifyDocument) -> None:
    from fairmend.base.text import at_least_percent
    from fairmend.cli.console import figures_table

    columns = ["Of all people", "Of the box"] + ([] if found.rows is None else ["Rows in it"])
    table = figures_table(
        "Where people are treated unequally, the largest shares first", *columns, "Box", right=columns
    )
    for box in found.boxes:
        rows = [] if box.rows is None else [f"{box.rows:,}"]
        table.add_row(at_least_percent(box.share), at_least_percent(box.of_box), *rows, box.text)
    screen.print(table)
