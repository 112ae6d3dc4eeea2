"""`fairmend audit`: count the people who are treated unequally, in a file or in samples, and show the worst pairs."""

from __future__ import annotations

from typing import Any

import click

from fairmend.cli.group import Command
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
    report_options,
    resume_option,
    seed_option,
    what_if_options,
    worker_options,
)

NONE_UNEQUAL, SOME_UNEQUAL = 0, 1
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
@report_options("fairmend-audit", "about", "no_what_if", "what_if_rows")
@reading_options
@outputs_option
@about_option
@what_if_options
@output_options
def command(ctx: click.Context, /, json_output: bool, **options: Any) -> None:
    """Count the people who are treated unequally.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime. A person is treated unequally if changing
    only protected features (and others within a tolerance or band, or by a link) changes the prediction; if the spec
    claims scores, if the scores of similar people differ by more than delta. Exits with 0 if no one is treated
    unequally, 1 if at least one person is.
    """
    from fairmend.cli.console import run_and_show
    from fairmend.cli.results import announce, show_audit
    from fairmend.workflows import audit_files

    refuse_together(ctx, "samples", "data")
    on_plan = None if json_output else announce
    audited = run_and_show(ctx, audit_files, show_audit, json_output, on_plan=on_plan, **options)
    ctx.exit(SOME_UNEQUAL if audited.document.count else NONE_UNEQUAL)
