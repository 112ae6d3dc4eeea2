"""Options of what the model itself gave: its scores, or the matrix that it read; and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.options import FILE

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.base.arrays import Floats
    from fairmend.evaluate.encoding.given import MatrixMatch, ScoreMatch
    from fairmend.network import Network
    from fairmend.spec import Label


HOW_TO_VERIFY = (
    "Only the model's own outputs can verify it: pass --scores with what the model gave for these rows, or --encoded "
    "with the matrix that it read."
)

scores_option = click.option(
    "--scores",
    type=FILE,
    help="The scores that the model itself gave for the rows of the data, .csv, .parquet or .npy: probabilities or raw "
    "outputs, in one column or one for each class.",
)
encoded_option = click.option(
    "--encoded",
    type=FILE,
    help="The data as the model read it, .npy, .csv or .parquet: one row for each row of the data.",
)

_ROWS_NAMED = 5


def require_with(option: str, given: object, **needed: object) -> None:
    """Refuse an option that needs others which are not given."""
    absent = [f"--{name.replace('_', '-')}" for name, value in needed.items() if value is None]
    if given is not None and absent:
        raise FairmendError(f"{option} needs {' and '.join(absent)}")


def load_scores(
    path: Path | None, label: Label | None, frame: pd.DataFrame, net: Network, data: DataSource | None
) -> Floats | None:
    """Return the scores in a file, or in the column that the label names; refuse scores that verify nothing."""
    from fairmend.evaluate.encoding.given import read_score_column, read_scores, require_informative

    if path is not None:
        scores = read_scores(path, len(frame), net.outputs)
        require_informative(scores, str(path))
        return scores
    column = read_score_column(label, frame)
    if column is not None and label is not None:
        require_informative(column, f'{data}, column "{label.score}"')
    return column


def scores_document(match: ScoreMatch) -> dict[str, Any]:
    """Return a comparison of scores as plain data."""
    return {
        "verified": match.verified,
        "rows": match.rows,
        "form": match.form,
        "largest_difference": match.largest,
        "tolerance": match.tolerance,
        "differing_rows": len(match.differing),
        "first_rows": match.differing[:_ROWS_NAMED],
    }


def matrix_document(match: MatrixMatch) -> dict[str, Any]:
    """Return a comparison of encoded columns as plain data."""
    return {
        "verified": match.verified,
        "rows": match.rows,
        "largest_difference": None if match.problem else match.largest,
        "differing_columns": [
            {"column": found.column, "name": found.name, "rows": found.rows, "row": found.row}
            for found in match.differing
        ],
        "problem": match.problem,
    }
