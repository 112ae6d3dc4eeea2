"""`fairmend spec`: write a spec from data or from a pipeline, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairmend.cli.group import Group
from fairmend.cli.group import common_options as _verbose
from fairmend.cli.options import FILE as _FILE
from fairmend.cli.options import Decorated
from fairmend.cli.options import activation_option as _activation
from fairmend.cli.options import json_option as _json


def _drafting(command: Decorated) -> Decorated:
    """Options of both commands that write a spec."""
    options = [
        click.option("--protected", required=True, help="Columns in which similar people may differ: sex,race"),
        click.option("--label", help="The column with the outcome; repair needs one."),
        click.option("--positive", help="Its positive value; guessed where it has two."),
        click.option("--model", type=_FILE, help="The model; the spec must have as many columns as it reads."),
        click.option("--out", type=_FILE, default=Path("spec.toml"), show_default=True, help="File to write."),
        click.option("--force", is_flag=True, help="Replace the file where it exists."),
        _json,
        _verbose,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=Group)
def spec() -> None:
    """Write or check a spec: who counts as similar."""


@spec.command()
@click.argument("data", type=_FILE)
@click.option("--drop", default="", help="Columns the model does not read: name,date")
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "min-max"]),
    default="none",
    show_default=True,
    help="How the model's numbers were scaled; the figures are taken from the data.",
)
@_drafting
@click.pass_context
def init(ctx: click.Context, /, data: Path, **options: Any) -> None:
    """Guess a spec from DATA, .csv or .parquet.

    Kinds, ranges and categories are guessed, and comments in the file say why and what to look at. Exits with 1 if the
    file was written but does not fit the model.
    """
    from fairmend.cli.spec_draft import run_init

    ctx.exit(run_init(data, **options))


@spec.command("from-sklearn")
@click.argument("pipeline", type=_FILE)
@click.option("--data", type=_FILE, help="Raw rows, .csv or .parquet, for the ranges of numbers.")
@click.option("--trust-pickle", is_flag=True, help="Read .joblib and .pkl files, which can run any code.")
@_drafting
@click.pass_context
def from_sklearn(ctx: click.Context, /, pipeline: Path, **options: Any) -> None:
    """Read the spec of a fitted scikit-learn PIPELINE.

    PIPELINE is a file with a fitted ColumnTransformer, or a Pipeline with one: .skops, or .joblib or .pkl if you trust
    it. Exits with 1 if the file was written but does not fit the model.
    """
    from fairmend.cli.spec_draft import run_from_sklearn

    ctx.exit(run_from_sklearn(pipeline, **options))


@spec.command("check")
@click.argument("spec_file", metavar="SPEC", type=_FILE)
@click.option("--data", type=_FILE, help="People, .csv or .parquet, who must fit the spec.")
@click.option("--model", type=_FILE, help="The model, which must read as many columns.")
@_activation
@_json
@_verbose
@click.pass_context
def check_spec(ctx: click.Context, /, spec_file: Path, **options: Any) -> None:
    """Explain SPEC in words, and check that data and model fit it.

    Exits with 0 if they do, 2 if not.
    """
    from fairmend.cli.spec_check import run_check_spec

    ctx.exit(run_check_spec(spec_file, **options))
