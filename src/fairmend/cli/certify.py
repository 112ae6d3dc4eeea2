"""`fairmend certify`: decide for each person whether they are treated equally, with a proof or a counterfactual."""

from __future__ import annotations

from typing import Any

import click

from fairmend.cli.group import Command
from fairmend.cli.options import (
    FILE,
    POSITIVE,
    data_options,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    resume_option,
    seed_option,
    worker_options,
)

ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2


@click.command("certify", cls=Command)
@model_options
@data_options("People to certify, {formats}", required=True)
@click.option(
    "--engine",
    type=click.Choice(["auto", "enumerate", "branch", "milp"]),
    default="auto",
    show_default=True,
    help="enumerate tries every counterfactual, branch uses branch and bound, milp a mixed-integer solver.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Certify only this many rows, drawn at random.")
@click.option("--time-limit", type=POSITIVE, help="Seconds for all inputs; undecided inputs are reported as UNKNOWN.")
@reading_options
@outputs_option
@worker_options("certify people. The result is the same.")
@resume_option
@seed_option
@click.option("--certificate", type=FILE, help="Write a certificate for the FAIR inputs to this file.")
@output_options
def command(ctx: click.Context, /, json_output: bool, **options: Any) -> None:
    """Prove for each person whether they are treated equally.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime on every counterfactual. The verdict on each
    person in the data is FAIR (proven, or run), UNFAIR (with a similar person who gets a different prediction, or two
    whose scores differ by more than delta if the spec claims scores) or UNKNOWN. Exits with 0 if all are FAIR, 1 if any
    is UNFAIR, else 2.
    """
    from fairmend.cli.console import run_and_show
    from fairmend.cli.results import show_certify
    from fairmend.workflows import certify_files

    counts = run_and_show(ctx, certify_files, show_certify, json_output, **options).document.counts
    ctx.exit(SOME_UNFAIR if counts.unfair else UNDECIDED if counts.unknown else ALL_FAIR)
