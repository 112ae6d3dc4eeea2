"""`fairmend search`: run a fairness tester that searches for unequal treatment beyond the people in the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.paths import DataSource
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    FILE,
    data_options,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    refuse_together,
    resume_option,
    seed_option,
    worker_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.evaluate.document import SearchDocument


NONE_FOUND, SOME_FOUND = 0, 1


@click.command("search", cls=Command)
@model_options
@data_options("People to start from, {formats}", required=True)
@click.option(
    "--method",
    type=click.Choice(["adf", "eidig", "neuronfair", "grft"]),
    default="adf",
    show_default=True,
    help="adf follows gradients of the loss, eidig of the output, neuronfair of biased neurons; grft uses a genetic "
    "algorithm, and takes any model.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of people to start from."
)
@click.option(
    "--local-steps",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Steps of the local phase around each result of the global phase.",
)
@worker_options("search from batches of 1,000 seeds, or fewer if the network is wide. The result is the same.")
@resume_option
@seed_option
@click.option(
    "--out", type=FILE, help="CSV file for everyone found to be treated unequally, each with a counterfactual."
)
@reading_options
@outputs_option
@output_options
def command(
    ctx: click.Context, /, model: Path, spec_file: Path, data: DataSource, json_output: bool, **options: Any
) -> None:
    """Search the input space for unequal treatment.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime, with the method grft. A fairness tester
    starts from people in the data and searches for inputs that are treated unequally. Exits with 0 if it finds none, 1
    if it finds some.
    """
    from rich.text import Text

    from fairmend.cli.console import (
        console,
        progress_bars,
        show_doubts,
        show_json,
        show_other_warnings,
        show_out_of_range,
        show_runtime,
    )
    from fairmend.workflows import search_files

    refuse_together(ctx, "jobs", "cluster")
    with progress_bars(quiet=json_output) as progress:
        searched = search_files(model, spec_file, data, command=typed_command(ctx), progress=progress, **options)
    if json_output:
        show_json(searched.document.printed())
    else:
        screen, document = console(), searched.document
        show_runtime(screen, searched.network)
        show_doubts(screen, document)
        _show(screen, document)
        show_out_of_range(screen, document.out_of_range, searched.files["widened_spec"])
        show_other_warnings(screen, document)
        out = searched.files["out"]
        if out is not None:
            screen.print()
            screen.print(Text.assemble("Everyone found to be treated unequally: ", (str(out), "bold")), soft_wrap=True)
    ctx.exit(SOME_FOUND if searched.document.count else NONE_FOUND)


def _show(screen: Console, document: SearchDocument) -> None:
    from rich.text import Text

    from fairmend.cli.console import figures_table, show_pairs

    table = figures_table(document.title, "", " ", right=(" ",))
    table.add_row("Tester", document.method)
    table.add_row(
        "Found to be treated unequally", Text(f"{document.count:,}", "bold red" if document.count else "bold green")
    )
    table.add_row("Seeds with a result", f"{document.starts:,} of {document.seeds:,}")
    table.add_row("Model calls", f"{document.calls:,}")
    table.add_row("Seconds", f"{document.seconds:.2f}")
    screen.print(table)
    if not document.count:
        screen.print(
            Text("The tester found no unequal treatment. This is not a proof: run fairmend certify.", style="yellow")
        )
        return
    screen.print("\nExamples:")
    show_pairs(screen, document, document.pairs, "result")
