"""`fairmend search`: run a fairness tester that searches for unequal treatment beyond the people in the data."""

from __future__ import annotations

from typing import Any

import click

from fairmend.cli.group import Command
from fairmend.cli.options import (
    FILE,
    data_options,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    resume_option,
    seed_option,
    worker_options,
)

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
def command(ctx: click.Context, /, json_output: bool, **options: Any) -> None:
    """Search the input space for unequal treatment.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime, with the method grft. A fairness tester
    starts from people in the data and searches for inputs that are treated unequally. Exits with 0 if it finds none, 1
    if it finds some.
    """
    from fairmend.cli.console import run_and_show
    from fairmend.cli.results import show_search
    from fairmend.workflows import search_files

    searched = run_and_show(ctx, search_files, show_search, json_output, **options)
    ctx.exit(SOME_FOUND if searched.document.count else NONE_FOUND)
