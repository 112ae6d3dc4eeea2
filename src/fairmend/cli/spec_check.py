"""`fairmend spec check`: explain a spec, and check that data and model fit it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.paths import DataSource
from fairmend.cli.group import Command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    MODEL,
    activation_option,
    common_options,
    encoded_option,
    json_option,
    out_of_range_option,
    outputs_option,
    scores_option,
    table_options,
    threshold_option,
    trust_pickle_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.evaluate.encoding.check import SpecCheck
    from fairmend.workflows import CheckedSpec


FITS, DOES_NOT_FIT = 0, 2

_COLUMNS_NAMED = 10
_DIGITS = 6  # of a scale in the table; --json has all


@click.command("check", cls=Command)
@click.argument("spec_file", metavar="SPEC", type=FILE)
@click.option("--data", type=DATA, help=f"People to check against the spec, {DATA_FORMATS}")
@table_options
@click.option("--model", type=MODEL, help="Model file, to check against the spec.")
@trust_pickle_option
@out_of_range_option
@threshold_option
@scores_option
@encoded_option
@activation_option
@outputs_option
@json_option
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    spec_file: Path,
    data: DataSource | None,
    model: Path | None,
    json_output: bool,
    **options: Any,
) -> None:
    """Explain a spec and check that data and model fit it.

    SPEC is a .toml file. The scores that the model gave, or the matrix that it read, verify the encoding.
    Exits with 0 if everything fits, 2 if something does not.
    """
    from fairmend.cli.console import console, show_json
    from fairmend.cli.figures import show_out_of_range
    from fairmend.evaluate.document_parts import out_of_range_values
    from fairmend.workflows.spec import check_spec_file

    checked = check_spec_file(spec_file, data, model, **options)
    if json_output:
        show_json(checked.document)
    else:
        screen = console()
        _show(screen, checked, model)
        show_out_of_range(screen, out_of_range_values(checked.out_of_range))
    ctx.exit(FITS if checked.check.fits else DOES_NOT_FIT)


def _show(screen: Console, checked: CheckedSpec, model: Path | None) -> None:
    from rich.text import Text

    from fairmend.cli.console import show_warnings
    from fairmend.cli.figures import kept_figures

    check = checked.check
    _show_spec(screen, check, checked.document)
    if checked.data is not None:
        _show_problems(screen, check, checked.data.name)
    if model is not None:
        mismatch = check.width_mismatch
        message = mismatch or f"{model.name} reads {check.inputs} columns, as the spec describes."
        named = message if message.startswith(model.name) else f"{model.name}: {message}"
        screen.print(Text(named, style="bold red" if mismatch else "green"), soft_wrap=True)
    if check.utility is not None:
        known = [figure for figure in kept_figures(check.utility) if figure[0] != "Positive rate"]
        shown = ", ".join(f"{name if name in ('R²', 'AUC') else name.lower()} {figure}" for name, figure in known)
        screen.print(Text(f"With this spec the model has {shown}. Does this match what you know about the model?"))
    show_warnings(screen, check.warnings)
    _show_verification(screen, check)


def _show_verification(screen: Console, check: SpecCheck) -> None:
    """Show as the last line whether the encoding is verified, and what differs."""
    from rich.text import Text

    from fairmend.cli.spec import HOW_TO_VERIFY

    if check.matrix is not None:
        style = "green" if check.matrix.verified else "bold red"
        screen.print(Text(f"Encoding {check.matrix}.", style=style), soft_wrap=True)
        for difference in check.matrix.differing[:_COLUMNS_NAMED]:
            screen.print(Text(f"  - {difference}"), soft_wrap=True)
    if check.scores is not None:
        style = "green" if check.scores.verified else "bold red"
        screen.print(Text(f"Encoding {check.scores}.", style=style), soft_wrap=True)
    if check.hint:
        screen.print(Text(check.hint), soft_wrap=True)
    if check.matrix is None and check.scores is None:
        screen.print(Text(f"The encoding is unverified. {HOW_TO_VERIFY}", style="yellow"), soft_wrap=True)


def _show_spec(screen: Console, check: SpecCheck, document: Mapping[str, Any]) -> None:
    from rich.text import Text

    from fairmend.base.text import listed
    from fairmend.cli.console import figures_table
    from fairmend.network import DEFAULT_THRESHOLD
    from fairmend.spec.describe import describe_encoding

    spec, sizes = check.spec, check.sizes
    title = f"{document['spec']}: {len(spec.features)} features in {spec.width} input columns"
    table = figures_table(title, "column", "feature", "values", "the model reads", "similar people")
    for feature, shown in zip(spec.features, document["features"], strict=True):
        start, stop = shown["columns"]
        columns = f"{start}" if stop == start + 1 else f"{start}-{stop - 1}"
        reads = describe_encoding(feature, _DIGITS)
        cells = (columns, shown["name"], shown["values"], reads, shown["similar_people"])
        table.add_row(*map(Text, cells), style="bold" if feature.protected else "")
    screen.print(table)
    screen.print()
    for sentence in (document["similar"], *document.get("links", ()), document["neighbourhood"]["words"]):
        screen.print(Text(sentence))
    if len(spec.varying) > len(spec.protected):
        screen.print(Text("Classes of people whom chains of similar people connect:"))
        for sentence in document["classes"]:
            screen.print(Text(f"  - {sentence}"), soft_wrap=True)
    if sizes is not None and sizes.least < sizes.most:
        screen.print(
            Text(f"Neighbourhoods in the data: {sizes.least:,} to {sizes.most:,} people, median {sizes.median:,g}.")
        )
    if spec.claim.stated:
        screen.print(Text(f"Claim: {document['claim']}"))
    if spec.label is not None and spec.label.classes:
        classes = listed([f'"{name}"' for name in spec.label.classes], most=None)
        screen.print(Text(f'The classes are {classes}, in column "{spec.label.column}".'))
    elif spec.label is not None and spec.label.is_number:
        screen.print(Text(f'The number to predict is in column "{spec.label.column}".'))
    elif spec.label is not None:
        screen.print(Text(f'The positive outcome is "{spec.label.positive}" in column "{spec.label.column}".'))
        probability = spec.score_range == (0, 1)
        if spec.threshold != DEFAULT_THRESHOLD or not probability:
            unit = "probability" if probability else "score"
            screen.print(Text(f"It is predicted from a {unit} of {spec.threshold_words} on."))
    else:
        screen.print(Text("The spec has no label: audit and certify work without one, repair does not."))
    if spec.label is not None and spec.label.favourable is not None:
        screen.print(Text(f'Good for a person is "{spec.label.favourable}".'))


def _show_problems(screen: Console, check: SpecCheck, name: str) -> None:
    from rich.text import Text

    from fairmend.spec.read_values import RANGE_HINT
    from fairmend.workflows.spec import ROWS_NAMED

    if not check.problems:
        screen.print(Text(f"All {check.rows:,} rows of {name} fit the spec.", style="green"))
        return
    screen.print(Text(f"{name} does not fit the spec:", style="bold red"))
    for problem in check.problems:
        named = ", ".join(str(row) for row in problem.rows[:ROWS_NAMED])
        more = ", …" if problem.rows.size > ROWS_NAMED else ""
        count = f"{problem.rows.size:,} row{'s' if problem.rows.size > 1 else ''} ({named}{more}), the first: "
        message = problem.message.removesuffix(RANGE_HINT).rstrip()
        screen.print(Text(f'  - "{problem.feature}": {count if problem.rows.size else ""}{message}'), soft_wrap=True)
    if any(problem.message.endswith(RANGE_HINT) for problem in check.problems):
        screen.print(Text(RANGE_HINT), soft_wrap=True)
