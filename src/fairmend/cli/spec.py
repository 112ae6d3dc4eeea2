"""`fairmend spec`: write a spec from data or from a scikit-learn pipeline, and check one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.paths import DataSource
from fairmend.cli.group import Command, Group, echo_line
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    MODEL,
    activation_option,
    add_options,
    common_options,
    encoded_option,
    json_option,
    outputs_option,
    scores_option,
    table_options,
    trust_pickle_option,
)

if TYPE_CHECKING:
    from fairmend.workflows.spec import DraftedSpec


FITS, DOES_NOT_FIT = 0, 1

HOW_TO_VERIFY = (
    "Only the model's own outputs can verify it: pass --scores with what the model gave for these rows, or --encoded "
    "with the matrix that it read."
)

_COMMANDS = {
    "init": "Draft a spec from a data file.",
    "from-sklearn": "Derive the spec from a fitted scikit-learn pipeline.",
    "check": "Explain a spec and check that data and model fit it.",
}
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(?:,|\Z)')

_drafting_options = add_options(
    click.option("--protected", required=True, help="Protected features, such as sex,race."),
    click.option("--label", help="Column with the outcome; repair needs it."),
    click.option("--positive", help="Positive value of the label; guessed if there are two values."),
    click.option("--delta", type=float, help="Claim scores: how far those of similar people may differ."),
    click.option(
        "--on",
        type=click.Choice(["probability", "logit", "output"]),
        help="The score of the claim: output for a number to predict, probability (the default) or logit for classes.",
    ),
    click.option(
        "--model",
        type=MODEL,
        help="Model file, to check that the spec describes as many columns as it reads. The names of the inputs of an "
        ".onnx file with an input for each column say which columns it reads.",
    ),
    activation_option,
    outputs_option,
    click.option("--out", type=FILE, default=Path("spec.toml"), show_default=True, help="File for the spec."),
    click.option("--force", is_flag=True, help="Replace the file if it exists."),
    json_option,
    common_options,
)


_data_out_option = click.option(
    "--data-out",
    type=FILE,
    help="File for a copy of the data, .csv, with the columns that a spec cannot describe as the model reads them "
    '(kind = "as-is").',
)


@click.group("spec", cls=Group, modules="fairmend.cli.spec_", summaries=_COMMANDS)
def command() -> None:
    """Write or check a spec.

    A spec describes the features that a model reads, and which people count as similar.
    """


@command.command("init", cls=Command)
@click.argument("data", type=DATA)
@table_options
@click.option("--drop", default="", help="Columns that the model does not read, such as name,date.")
@click.option("--categorical", default="", help="Columns of numbers that are codes of categories.")
@click.option(
    "--integer", default="", help="Columns of whole numbers to describe as integer, however wide their range."
)
@click.option("--order", default="", help="The columns that the model reads, in its order; others are left out.")
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "min-max"]),
    default="none",
    show_default=True,
    help="How the model's numeric inputs are scaled; the parameters are computed from the data.",
)
@click.option(
    "--scaler", type=FILE, help="The scales themselves: a fitted scaler or ColumnTransformer, .skops, or .json."
)
@scores_option
@click.option("--score-column", help="Column of the data with the scores of the model; the spec keeps its name.")
@encoded_option
@_data_out_option
@trust_pickle_option
@_drafting_options
@click.pass_context
def init(ctx: click.Context, /, data: DataSource, protected: str, out: Path, json_output: bool, **options: Any) -> None:
    """Draft a spec from a data file.

    DATA is a .csv, .csv.gz, .parquet or .xlsx file, or several of them, as with --data of other commands. Kinds, ranges
    and categories are guessed; comments in the spec give the reasons and say what to review. With the scores that the
    model gave (--scores), or the matrix that it read (--encoded), the encoding and the order of the columns are
    searched and verified. Columns of the matrix that a spec cannot describe, such as logarithms, need --data-out: they
    are written to a new table, and the spec reads them as they are. Write a column name with a comma in double quotes.
    Exits with 1 if the spec was written but does not fit the model, or if several encodings fit.
    """
    from fairmend.cli.console import progress_bars
    from fairmend.workflows.spec import draft_spec_file

    lists: dict[str, Any] = {
        name: split_names(options.pop(name)) for name in ("drop", "categorical", "integer", "order")
    }
    with progress_bars(quiet=json_output) as progress:
        drafted = draft_spec_file(data, split_names(protected), out, **lists, **options, progress=progress, warn=_warn)
    ctx.exit(_finish(drafted, options["model"], json_output=json_output))


@command.command("from-sklearn", cls=Command)
@click.argument("pipeline", type=FILE)
@click.option("--data", type=DATA, help=f"Raw rows for the ranges of numeric features, {DATA_FORMATS}")
@table_options
@scores_option
@_data_out_option
@click.option("--trust-pickle", is_flag=True, help="Read .joblib and .pkl files, which can run any code.")
@_drafting_options
@click.pass_context
def from_sklearn(
    ctx: click.Context, /, pipeline: Path, protected: str, out: Path, json_output: bool, **options: Any
) -> None:
    """Derive the spec from a fitted scikit-learn pipeline.

    PIPELINE is a file with a fitted ColumnTransformer, or with a Pipeline that contains one: .skops, or .joblib or .pkl
    if you trust it. With --data-out, columns that a spec cannot describe, such as logarithms or target encodings, are
    written to a new table as the pipeline encodes them, and read as they are. With the scores that the model gave for
    the rows of the data (--scores), the spec is verified, or refused if spec and model do not reproduce them. Exits
    with 1 if the spec was written but does not fit the model.
    """
    from fairmend.workflows.spec import draft_pipeline_spec

    drafted = draft_pipeline_spec(pipeline, split_names(protected), out, **options, warn=_warn)
    ctx.exit(_finish(drafted, options["model"], json_output=json_output))


def split_names(text: str) -> list[str]:
    """Return the names in a list such as "sex, race"; a name with a comma is in double quotes."""
    parts = ((quoted.replace('""', '"') or plain).strip() for quoted, plain in _NAME.findall(text))
    return [name for name in parts if name]


def _warn(warning: str) -> None:
    echo_line(f"Warning: {warning}", err=True)


def _finish(drafted: DraftedSpec, model: Path | None, *, json_output: bool) -> int:
    """Show the draft and return the exit code."""
    from fairmend.cli.console import console, show_json, show_warnings

    if json_output:
        show_json(drafted.document)
    else:
        show_warnings(console(), drafted.warnings)
        _show(drafted, model)
    return FITS if drafted.fits and not drafted.draft.several else DOES_NOT_FIT


def _show(drafted: DraftedSpec, model: Path | None) -> None:
    from rich.text import Text

    from fairmend.base.text import listed
    from fairmend.cli.console import console

    draft, spec, screen = drafted.draft, drafted.draft.spec, console()
    size = f" ({len(spec.features)} features in {spec.width} columns)"
    screen.print(Text.assemble("Spec: ", (str(drafted.file), "bold"), size), soft_wrap=True)
    screen.print(Text("Protected: " + ", ".join(f.name for f in spec.protected)))
    if spec.label is None:
        screen.print(Text("Label: none. audit works without a label; repair needs [label] with column and positive."))
    else:
        kind = "a number to predict" if spec.label.is_number else f'positive "{spec.label.positive}"'
        if spec.label.classes:
            kind = f"{len(spec.label.classes)} classes: {listed(spec.label.classes)}"
        screen.print(Text(f"Label: {spec.label.column}, {kind}"))
    if spec.claim.stated:
        screen.print(Text(f"Claim: {spec.claim.words().sentence}"))
    for name, reason in draft.left_out:
        screen.print(Text(f'Left out: "{name}": {reason}'), soft_wrap=True)
    if model is not None and not drafted.fits:
        message = f"The spec does not fit {model.name}, which reads {drafted.inputs} columns: see below."
        message = f"The spec does not fit yet: {drafted.misfit}" if drafted.misfit else message
        screen.print(Text(message, style="bold yellow"), soft_wrap=True)
    if draft.to_review:
        screen.print()
        screen.print(Text("Review these points in the file:", style="bold"))
        for point in draft.to_review:
            screen.print(Text(f"  - {point}"), soft_wrap=True)
    screen.print()
    screen.print(Text("Next:", style="bold"))
    for step in drafted.next_steps:
        screen.print(Text(f"  {step}", style="cyan"), soft_wrap=True)
    screen.print()
    if drafted.match is None:
        screen.print(Text(f"The encoding is unverified. {HOW_TO_VERIFY}", style="yellow"), soft_wrap=True)
    else:
        screen.print(Text(f"Encoding {drafted.match}.", style="green"), soft_wrap=True)
    if draft.several:
        message = "Several encodings fit: see above." if drafted.match is None else "But others fit as well: see above."
        screen.print(Text(message, style="bold yellow"), soft_wrap=True)
