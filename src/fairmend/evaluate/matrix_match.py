"""Compare the encoding of a spec with the matrix that the model read, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.text import count, short

_RELATIVE = 2e-6  # rounding of a number in float32, with a margin
_OF_SPREAD = 5e-5  # rounding of scaling in float32, relative to the spread of the column


@dataclass(frozen=True)
class ColumnDifference:
    """A column in which the two differ: how many rows, and the values of the row that differs most."""

    column: int
    name: str
    rows: int
    row: int
    ours: float
    given: float

    def __str__(self) -> str:
        """Return the difference as one clause."""
        return (
            f"column {self.column} ({short(self.name)}): {count(self.rows)} row{'s' if self.rows > 1 else ''}, most in "
            f"row {self.row}: {self.ours:.6g} instead of {self.given:.6g}"
        )


@dataclass(frozen=True)
class MatrixMatch:
    """How the encoded data compares with a given matrix; ``problem`` says why they cannot be compared at all."""

    rows: int
    columns: int
    largest: float
    differing: tuple[ColumnDifference, ...] = ()
    problem: str = ""

    @property
    def verified(self) -> bool:
        """Whether the spec reproduces the matrix to rounding."""
        return not self.differing and not self.problem

    def __str__(self) -> str:
        """Return the result as one sentence without the final stop."""
        if self.problem:
            return f"not verified: {self.problem}"
        if self.differing:
            return (
                f"not verified: {count(len(self.differing))} of {self.columns} columns differ from the encoded matrix"
            )
        return f"verified: {count(self.rows)} rows of {self.columns} columns, largest difference {self.largest:.1g}"


def match_matrix(ours: FloatArray, given: Floats, names: Sequence[str]) -> MatrixMatch:
    """Compare the encoded data with a given matrix, both (rows, columns); ``names`` are those of our columns."""
    rows, columns = ours.shape
    if given.shape != ours.shape:
        return MatrixMatch(
            rows,
            columns,
            float("nan"),
            problem=f"the matrix has {given.shape[1]} columns, the spec describes {columns}",
        )
    differences = np.abs(ours - given)
    allowed = _RELATIVE * np.abs(given) + _OF_SPREAD * given.std(axis=0) + np.finfo(np.float32).tiny
    far = differences > allowed
    found = []
    for column in np.flatnonzero(far.any(axis=0)).tolist():
        row = int(differences[:, column].argmax())
        found.append(
            ColumnDifference(
                column,
                names[column],
                int(far[:, column].sum()),
                row,
                float(ours[row, column]),
                float(given[row, column]),
            )
        )
    return MatrixMatch(rows, columns, float(differences.max()), tuple(found))
