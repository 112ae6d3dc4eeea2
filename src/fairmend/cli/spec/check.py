"""`fairmend spec check`: explain a spec, and check that data and model fit it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    activation_option,
    common_options,
    json_option,
    out_of_range_option,
    threshold_option,
)
from fairmend.cli.spec.given import encoded_option, require_with, scores_option

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.base.arrays import Ints
    from fairmend.evaluate.encoding.check import SpecCheck


FITS, DOES_NOT_FIT = 0, 2

_ROWS_NAMED = 5
_COLUMNS_NAMED = 10
_DIGITS = 6  # of a scale in the table; --json has all


@click.command("check", cls=Command)
@click.argument("spec_file", metavar="SPEC", type=FILE)
@click.option("--data", type=DATA, help=f"People to check against the spec, {DATA_FORMATS}")
@click.option("--model", type=FILE, help="Model file, to check against the spec.")
@out_of_range_option
@threshold_option
@scores_option
@encoded_option
@activation_option
@json_option
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    spec_file: Path,
    data: DataSource | None,
    model: Path | None,
    out_of_range: str,
    threshold: float | None,
    scores: Path | None,
    encoded: Path | None,
    activation: str | None,
    json_output: bool,
) -> None:
    """Explain a spec and check that data and model fit it.

    SPEC is a .toml file. The scores that the model gave, or the matrix that it read, verify the encoding.
    Exits with 0 if everything fits, 2 if something does not.
    """
    import numpy as np

    from fairmend.cli.console import console, show_json, show_out_of_range
    from fairmend.cli.spec.given import load_scores
    from fairmend.evaluate.encoding.check import check_spec
    from fairmend.evaluate.encoding.given import read_matrix
    from fairmend.evaluate.people import naming_file
    from fairmend.network import load_network
    from fairmend.prove.threshold import network_of_spec
    from fairmend.spec.out_of_range import OutOfRange
    from fairmend.tables import FIRST_ROW, read_table
    from fairmend.workflows.inputs import load_spec

    require_with("--scores", scores, data=data, model=model)
    require_with("--encoded", encoded, data=data)
    spec, frame, done = (
        load_spec(spec_file, threshold),
        None if data is None else read_table(data),
        OutOfRange(out_of_range),
    )
    rows = np.arange(0 if frame is None else len(frame)) + FIRST_ROW
    if frame is not None and data is not None and out_of_range != "refuse":
        if scores is not None or encoded is not None:
            raise FairmendError("--scores and --encoded are of the data as it is; leave out --out-of-range")
        with naming_file(data):
            inside = spec.bring_into_range(frame, out_of_range, first_row=FIRST_ROW)
        spec, frame, rows, done = inside.spec, inside.frame, rows[inside.kept], inside.done
    net = None if model is None else network_of_spec(load_network(model, activation), spec)
    check = check_spec(
        spec,
        frame,
        net,
        scores=None if frame is None or net is None else load_scores(scores, spec.label, frame, net, data),
        matrix=None if frame is None or encoded is None else read_matrix(encoded, len(frame)),
    )
    check = _with_row_numbers(check, rows)
    if json_output:
        show_json({**_document(check, spec_file, data), "out_of_range": done.as_dict()})
    else:
        screen = console()
        _show(screen, check, spec_file, data, model)
        show_out_of_range(screen, done)
    ctx.exit(FITS if check.fits else DOES_NOT_FIT)


def _with_row_numbers(check: SpecCheck, rows: Ints) -> SpecCheck:
    """Return the check with the numbers of the rows in the file."""
    scores, matrix = check.scores, check.matrix
    if scores is not None:
        scores = replace(scores, differing=rows[scores.differing])
    if matrix is not None:
        matrix = replace(matrix, differing=tuple(replace(d, row=int(rows[d.row])) for d in matrix.differing))
    problems = tuple(replace(p, rows=rows[p.rows]) for p in check.problems)
    return replace(check, problems=problems, scores=scores, matrix=matrix)


def _document(check: SpecCheck, spec_file: Path, data: DataSource | None) -> dict[str, Any]:
    from fairmend.cli.spec.given import matrix_document, scores_document
    from fairmend.spec.describe import (
        describe_claim,
        describe_encoding,
        describe_links,
        describe_neighbourhood,
        describe_role,
        describe_similarity,
        describe_values,
    )

    spec, sizes = check.spec, check.sizes
    features = [
        {
            "name": feature.name,
            "columns": [spec.columns(feature.name).start, spec.columns(feature.name).stop],
            "values": describe_values(feature),
            "reads": describe_encoding(feature),
            "similar_people": describe_role(feature, feature in spec.linked),
        }
        for feature in spec.features
    ]
    document: dict[str, Any] = {
        "fairmend": __version__,
        "spec": spec_file.name,
        "columns": spec.width,
        "features": features,
        "similar": describe_similarity(spec),
        "claim": describe_claim(spec.claim),
        "threshold": spec.threshold,
        "neighbourhood": {"finite": spec.finite, "words": describe_neighbourhood(spec)},
    }
    if spec.links:
        document["links"] = describe_links(spec)
    if sizes is not None:
        document["neighbourhood"] |= {"least": sizes.least, "median": sizes.median, "most": sizes.most}
    if data is not None:
        problems = [
            {"column": p.feature, "rows": p.rows.size, "first_rows": p.rows[:_ROWS_NAMED], "problem": p.message}
            for p in check.problems
        ]
        document["data"] = {"file": data.name, "rows": check.rows, "fits": not problems, "problems": problems}
    if check.inputs is not None:
        document["model"] = {"inputs": check.inputs, "fits": check.inputs == spec.width}
    document["verified"] = check.verified
    if check.scores is not None:
        document["scores"] = scores_document(check.scores)
    if check.matrix is not None:
        document["encoded"] = matrix_document(check.matrix)
    return document


def _show(screen: Console, check: SpecCheck, spec_file: Path, data: DataSource | None, model: Path | None) -> None:
    from rich.text import Text

    from fairmend.base.text import percent
    from fairmend.cli.console import regression_figures, show_warnings

    _show_spec(screen, check, spec_file.name)
    if data is not None:
        _show_problems(screen, check, data.name)
    if model is not None:
        mismatch = check.width_mismatch
        message = f": {mismatch}" if mismatch else f" reads {check.inputs} columns, as the spec describes."
        screen.print(Text(f"{model.name}{message}", style="bold red" if mismatch else "green"), soft_wrap=True)
    if check.utility is not None:
        figures = f"accuracy {percent(check.utility.accuracy)}"
        figures += f", balanced accuracy {percent(check.utility.balanced_accuracy)}"
        figures += "" if check.utility.auc is None else f", AUC {check.utility.auc:.3f}"
        screen.print(Text(f"With this spec the model has {figures}. Does this match what you know about the model?"))
    if check.regression is not None:
        errors = regression_figures(check.regression)
        shown = ", ".join(f"{name if name == 'R²' else name.lower()} {figure}" for name, figure in errors)
        screen.print(Text(f"With this spec the model has {shown}. Does this match what you know about the model?"))
    show_warnings(screen, check.warnings)
    _show_verification(screen, check)


def _show_verification(screen: Console, check: SpecCheck) -> None:
    """Show as the last line whether the encoding is verified, and what differs."""
    from rich.text import Text

    from fairmend.cli.spec.given import HOW_TO_VERIFY

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


def _show_spec(screen: Console, check: SpecCheck, name: str) -> None:
    from rich.text import Text

    from fairmend.base.text import listed
    from fairmend.cli.console import figures_table
    from fairmend.network import DEFAULT_THRESHOLD
    from fairmend.spec.describe import (
        describe_claim,
        describe_encoding,
        describe_links,
        describe_neighbourhood,
        describe_role,
        describe_similarity,
        describe_values,
    )

    spec, sizes = check.spec, check.sizes
    title = f"{name}: {len(spec.features)} features in {spec.width} input columns"
    table = figures_table(title, "column", "feature", "values", "the model reads", "similar people")
    for feature in spec.features:
        where = spec.columns(feature.name)
        columns = f"{where.start}" if feature.width == 1 else f"{where.start}-{where.stop - 1}"
        role = describe_role(feature, feature in spec.linked)
        cells = (columns, feature.name, describe_values(feature), describe_encoding(feature, _DIGITS), role)
        table.add_row(*map(Text, cells), style="bold" if feature.protected else "")
    screen.print(table)
    screen.print()
    for sentence in (describe_similarity(spec), *describe_links(spec)):
        screen.print(Text(sentence))
    screen.print(Text(describe_neighbourhood(spec)))
    if sizes is not None and sizes.least < sizes.most:
        screen.print(
            Text(f"Neighbourhoods in the data: {sizes.least:,} to {sizes.most:,} people, median {sizes.median:,g}.")
        )
    if spec.claim.is_score:
        screen.print(Text(describe_claim(spec.claim)))
    if spec.label is not None and spec.label.classes:
        classes = listed([f'"{name}"' for name in spec.label.classes], most=None)
        screen.print(Text(f'The classes are {classes}, in column "{spec.label.column}".'))
    elif spec.label is not None and spec.label.is_number:
        screen.print(Text(f'The number to predict is in column "{spec.label.column}".'))
    elif spec.label is not None:
        screen.print(Text(f'The positive outcome is "{spec.label.positive}" in column "{spec.label.column}".'))
        if spec.threshold != DEFAULT_THRESHOLD:
            screen.print(Text(f"It is predicted from a probability of {spec.threshold!r} on."))
    else:
        screen.print(Text("The spec has no label: audit and certify work without one, repair does not."))


def _show_problems(screen: Console, check: SpecCheck, name: str) -> None:
    from rich.text import Text

    if not check.problems:
        screen.print(Text(f"All {check.rows:,} rows of {name} fit the spec.", style="green"))
        return
    screen.print(Text(f"{name} does not fit the spec:", style="bold red"))
    for problem in check.problems:
        named = ", ".join(str(row) for row in problem.rows[:_ROWS_NAMED])
        more = ", …" if problem.rows.size > _ROWS_NAMED else ""
        count = f"{problem.rows.size:,} row{'s' if problem.rows.size > 1 else ''} ({named}{more}), the first: "
        screen.print(
            Text(f'  - "{problem.feature}": {count if problem.rows.size else ""}{problem.message}'), soft_wrap=True
        )
