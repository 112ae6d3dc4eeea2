"""`fairmend quantify`: prove which share of all people is treated equally, and which unequally."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    FILE,
    POSITIVE,
    about_option,
    activation_option,
    common_options,
    ignore_scores_option,
    insert_formats,
    json_option,
    model_argument,
    out_of_range_option,
    refuse_together,
    seed_option,
    spec_option,
    threshold_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.quantify.result import QuantifyResult

__all__ = ["command"]

ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2


@click.command("quantify", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=FILE, help="People to count as well, .csv or .parquet.")
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help="Stop after so many seconds.")
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
@seed_option
@out_of_range_option
@threshold_option
@about_option
@activation_option
@ignore_scores_option
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, model: Path, spec_file: Path, report: Path, no_report: bool, **options: Any) -> None:
    """Prove which share of all people is treated equally.

    MODEL is a file: {formats}. All people are those that the spec allows, each combination of values with the same
    weight, protected features aside. The shares hold whenever the command stops. Exits with 0 if no one is proven to be
    treated unequally and no one is undecided (or at most --share is), 1 if someone is treated unequally, 2 otherwise.
    """
    refuse_together(ctx, "report", "no_report")
    refuse_together(ctx, "about", "no_report")
    folder = None if no_report else report
    ctx.exit(run_quantify(model, spec_file, report=folder, typed=typed_command(ctx), **options))


def run_quantify(
    model: Path,
    spec_file: Path,
    *,
    data: Path | None = None,
    seconds: float = 60.0,
    share: float | None = None,
    boxes: int = 10,
    samples: int = 20_000,
    report: Path | None = None,
    typed: str | None = None,
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    about: Path | None = None,
    json_output: bool = False,
) -> int:
    """Quantify, show the shares and the map, and return the exit code."""
    from fairmend.cli.console import at_threshold, console, progress_bars, show_json, show_out_of_range
    from fairmend.cli.inputs import add_about, load_model, load_people
    from fairmend.cli.report_files import REPORT_FILES, show_report, write_report
    from fairmend.evaluate.provenance import describe_origin
    from fairmend.evaluate.quantify_document import quantify_document
    from fairmend.folders import check_folder, staged_folder
    from fairmend.quantify.run import quantify

    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    spec = add_about(spec, about)
    if report is not None:
        inputs = [path for path in (model, spec_file, data, about) if path is not None]
        check_folder(report, [*REPORT_FILES], inputs, "--report, or pass --no-report")
    people = None if data is None else load_people(data, spec, net, out_of_range=out_of_range)
    spec = spec if people is None else people.spec
    with progress_bars(quiet=json_output) as progress:
        found = quantify(
            net,
            spec,
            seconds=seconds,
            share=share,
            seed=seed,
            X=None if people is None else people.X,
            samples=samples,
            progress=progress,
        )
    title = f"{model.name}, everyone that {spec_file.name} allows{at_threshold(spec)}"
    page = None if report is None else report / "report.html"
    if report is not None:
        sources = {"model": model, "spec": spec_file} | ({} if data is None else {"data": data})
        document = quantify_document(
            net,
            spec,
            found,
            describe_origin(sources, command=typed, seed=seed),
            title=title,
            boxes=boxes,
            out_of_range=None if people is None else people.out_of_range,
        )
        with staged_folder(report) as stage:
            write_report(stage, document)
    if json_output:
        names = {
            "fairmend": __version__,
            "model": model.name,
            "data": None if data is None else data.name,
            "seed": seed,
            "threshold": spec.threshold,
            "out_of_range": None if people is None else people.out_of_range.as_dict(),
            "report": page,
        }
        figures = found.as_dict()
        show_json({**names, **figures, "boxes": figures["boxes"][:boxes]})
    else:
        screen = console()
        _show(screen, title, found, boxes, None if data is None else data.name)
        if people is not None:
            show_out_of_range(screen, people.out_of_range, None)
        if page is not None:
            show_report(screen, page)
    return _exit_code(found, share)


def _exit_code(found: QuantifyResult, share: float | None) -> int:
    if found.unfair > 0 or (found.rows is not None and found.rows.unfair > 0):
        return SOME_UNFAIR
    return ALL_FAIR if found.undecided <= (share or 0.0) else UNDECIDED


def _show(screen: Console, title: str, found: QuantifyResult, boxes: int, data: str | None) -> None:
    from rich.text import Text

    from fairmend.cli.console import figures_table
    from fairmend.text import fine_percent

    columns = ["", "Of all people"] + ([] if found.rows is None else [f"Rows of {data}"])
    table = figures_table(title, *columns, right=columns[1:])
    rows = found.rows
    for label, name, colour in (
        ("Proven to be treated equally", "fair", "green"),
        ("Proven to be treated unequally", "unfair", "red"),
        ("Undecided", "undecided", "yellow"),
    ):
        figures = [Text(fine_percent(getattr(found, name)), f"bold {colour}" if getattr(found, name) else "")]
        figures += [] if rows is None else [Text(f"{getattr(rows, name):,}")]
        table.add_row(label, *figures)
    screen.print(table)
    if found.sampled is not None:
        estimate = f"{found.sampled:.2%}".replace("%", " %")
        screen.print(Text(f"Of {found.samples:,} random people, {estimate} were found to be treated unequally."))
    screen.print(
        Text(f"{found.leaves:,} boxes in {found.seconds:.1f} s. The proof holds for the network's own arithmetic.")
    )
    if found.boxes[:boxes]:
        screen.print()
        _show_map(screen, found, boxes)


def _show_map(screen: Console, found: QuantifyResult, boxes: int) -> None:
    from fairmend.cli.console import figures_table
    from fairmend.text import fine_percent

    columns = ["Of all people", "Of the box"] + ([] if found.rows is None else ["Rows in it"])
    table = figures_table(
        "Where people are treated unequally, the largest shares first", *columns, "Box", right=columns
    )
    for box in found.boxes[:boxes]:
        rows = [] if box.rows is None else [f"{box.rows:,}"]
        table.add_row(fine_percent(box.share), fine_percent(box.of_box), *rows, box.text)
    screen.print(table)
