"""`fairmend quantify`: prove which share of all people is treated equally, and which unequally."""

from __future__ import annotations

from typing import Any

import click

from fairmend.cli.group import Command
from fairmend.cli.options import (
    FILE,
    POSITIVE,
    about_option,
    data_options,
    model_options,
    output_options,
    reading_options,
    report_options,
    seed_option,
    worker_options,
)

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
@report_options("fairmend-quantify", "about")
@worker_options("decide boxes of people.")
@click.option("--certificate", type=FILE, help="Write a certificate of the shares, for fairmend check, to this file.")
@seed_option
@reading_options
@about_option
@output_options
def command(ctx: click.Context, /, json_output: bool, **options: Any) -> None:
    """Prove which share of all people is treated equally.

    MODEL is a file: {formats}. All people are those that the spec allows, each combination of values with the same
    weight; of the protected features, only those that links depend on count. The shares hold whenever the command
    stops. Exits with 0 if no one is proven to be treated unequally and no one is undecided (or at most --share is), 1
    if someone is proven to be treated unequally, 2 otherwise.
    """
    from fairmend.cli.console import run_and_show, warn_before
    from fairmend.cli.results import show_quantify, show_shares
    from fairmend.workflows import quantify_files

    data = None if options["data"] is None else options["data"].name
    quantified = run_and_show(
        ctx,
        quantify_files,
        show_quantify,
        json_output,
        on_result=None if json_output else lambda screen, done: show_shares(screen, done.document, data),
        on_outlook=None if json_output else warn_before,
        **options,
    )
    found = quantified.document
    if found.unfair > 0 or (found.rows is not None and found.rows.unfair > 0):
        ctx.exit(SOME_UNFAIR)
    ctx.exit(ALL_FAIR if found.undecided <= (options["share"] or 0.0) else UNDECIDED)
