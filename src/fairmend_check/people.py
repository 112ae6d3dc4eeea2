"""All people that a spec allows, protected features aside: a grid of cells of equal weight.

Each unprotected feature is an axis. A whole number or category is one cell, and the range of a continuous feature is
divided into cells of equal length. A box is a range of cells on every axis. People in the box of one cell differ only
in continuous features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.neighbourhood import encode
from fairmend_check.rounding import Array, Precision, U
from fairmend_check.spec import Feature, Spec

Whole = NDArray[np.int64]

MAX_CELLS = 2**32  # of an axis
MAX_PIECES = 2**10
MAX_VALUES = 2**6  # combinations of protected values among which two are looked for


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature, its first column and its number of cells."""

    feature: Feature
    column: int
    cells: int
    dtype: str

    @property
    def columns(self) -> slice:
        """The columns of the feature."""
        return slice(self.column, self.column + self.feature.width)

    @cached_property
    def reach(self) -> int:
        """How many cells away a similar person can be, in an unprotected feature."""
        if self.feature.whole:
            return min(int(self.feature.reach), self.cells - 1)
        length = Fraction(self.feature.high) - Fraction(self.feature.low)
        return 0 if not length else min(math.ceil(Fraction(self.feature.tolerance) * self.cells / length), self.cells)

    @cached_property
    def steps(self) -> tuple[float, float]:
        """How much the column changes at least, and at most, if a value changes by all of the tolerance."""
        if not self.reach:
            return 0.0, 0.0
        kind, factor = Precision.of(self.dtype), self.feature.affine[1]
        ends = self._encoded(np.array([self.feature.low, self.feature.high]))
        step = self.reach if self.feature.whole else self.feature.reach  # nobody leaves the range
        change = step / factor
        # The value is rounded to a double, encoded with two roundings, and rounded to the type of the model.
        largest_value = max(abs(self.feature.low), abs(self.feature.high)) + step
        rounding = (2 * kind.u + 8 * U) * np.abs(ends).max() + 8 * U * (largest_value / factor + change) + 2 * kind.tiny
        return max(0.0, float(change - 4 * rounding)), float(change + 4 * rounding)

    def lower(self, cell: Whole) -> Array:
        """Return the lowest number of the column in cells; not of a one-hot feature."""
        return self._encoded(self.feature.low + cell) if self.feature.whole else self._edge(cell, -1)

    def upper(self, cell: Whole) -> Array:
        """Return the highest number of the column in cells."""
        return self._encoded(self.feature.low + cell) if self.feature.whole else self._edge(cell + 1, 1)

    def _edge(self, cell: Whole, side: int) -> Array:
        """Return the column where cells begin, rounded down (side -1) or up (1), or somewhere near (0)."""
        low, high = self.feature.low, self.feature.high
        value = low + (high - low) * (cell / self.cells)
        value = value + side * 8 * U * (abs(low) + abs(high))
        return self._encoded(np.clip(value, low, high))

    def _encoded(self, values: NDArray[np.floating]) -> Array:
        return encode(self.feature, np.asarray(values, np.float64), np.dtype(self.dtype))

    def hull(self, first: Whole, last: Whole) -> tuple[Array, Array]:
        """Return the smallest box around the columns of cells first to last (boxes,): two arrays (boxes, width)."""
        if not self.feature.one_hot:
            return self.lower(first)[:, None], self.upper(last)[:, None]
        codes = np.delete(np.arange(self.cells), self._dropped)  # of the columns
        most = (first[:, None] <= codes) & (codes <= last[:, None])
        least = most & (first == last)[:, None]
        return least.astype(np.float64), most.astype(np.float64)

    def columns_of(self, cell: Whole) -> Array:
        """Return the columns of someone in each cell (people, width)."""
        if self.feature.one_hot:
            return self.hull(cell, cell)[0]
        return (self.lower(cell) if self.feature.whole else self._edge(cell, 0))[:, None]

    def ends(self, A: Array, first: Whole, last: Whole, *, inside: bool = False) -> Array:
        """Return terms A·x (boxes, terms) that include the least and the largest of cells first to last (boxes,).

        A is (boxes, width). With ``inside`` they are those of people in the cells, else the ends of the cells.
        """
        if self.feature.one_hot:
            codes = np.arange(self.cells)
            return np.take_along_axis(self.categories(A), np.clip(codes, first[:, None], last[:, None]), axis=1)
        if inside and not self.feature.whole:
            ends = self._edge(first, 0), self._edge(last + 1, 0)
        else:
            ends = self.lower(first), self.upper(last)
        return A * np.stack(ends, axis=1)

    def categories(self, A: Array) -> Array:
        """Return the terms A·x of each category (boxes, categories); they are coefficients, so they are exact."""
        return np.insert(A, self._dropped, 0.0, axis=1)

    @property
    def _dropped(self) -> list[int]:
        """The category that has no column, if there is one."""
        return [] if self.feature.dropped is None else [self.feature.categories.index(self.feature.dropped)]


@dataclass(frozen=True, eq=False)
class People:
    """The axes of unprotected and of protected features, and pieces that contain all protected values together.

    ``first`` and ``last`` (pieces, protected axes) are the cells of each piece.
    """

    width: int
    axes: tuple[Axis, ...]
    protected: tuple[Axis, ...]
    first: Whole
    last: Whole

    @staticmethod
    def of(spec: Spec, dtype: str, cells: int, parts: list[int]) -> People:
        """Return the people of a spec.

        A continuous feature has so many ``cells``; each protected feature is divided into so many ``parts``.
        """
        if spec.links:
            raise CheckError("certificate.shares: the spec has links, and shares with links cannot be checked")
        axes = [Axis(feature, start, _count_cells(feature, cells), dtype) for feature, start in spec.columns()]
        protected = tuple(axis for axis in axes if axis.feature.protected)
        if len(parts) != len(protected) or math.prod(parts) > MAX_PIECES:
            raise CheckError(
                f"certificate.shares.pieces must have a number for each protected feature, with a product of at most "
                f"{MAX_PIECES:,}"
            )
        if not all(1 <= part <= axis.cells for part, axis in zip(parts, protected, strict=True)):
            raise CheckError("certificate.shares.pieces: a protected feature has fewer values than pieces")
        ranges = [
            [(axis.cells * k // part, axis.cells * (k + 1) // part - 1) for k in range(part)]
            for part, axis in zip(parts, protected, strict=True)
        ]
        pieces = np.array(list(product(*ranges)), np.int64)
        free = tuple(axis for axis in axes if not axis.feature.protected)
        return People(spec.width, free, protected, pieces[:, :, 0], pieces[:, :, 1])

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return len(self.first)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all people."""
        return math.prod(axis.cells for axis in self.axes)

    @cached_property
    def protected_columns(self) -> Whole:
        """The columns of the protected features."""
        return np.concatenate([np.arange(axis.columns.start, axis.columns.stop) for axis in self.protected])

    def similar(self, axis: Axis, first: Whole, last: Whole) -> tuple[Whole, Whole]:
        """Return the cells of all who are similar to people in cells first to last of an axis."""
        return np.maximum(first - axis.reach, 0), np.minimum(last + axis.reach, axis.cells - 1)

    @cached_property
    def piece_hulls(self) -> tuple[Array, Array]:
        """Boxes around the protected columns of each piece: two arrays (pieces, width), 0 in all other columns."""
        lower, upper = np.zeros((2, self.pieces, self.width))
        for k, axis in enumerate(self.protected):
            lower[:, axis.columns], upper[:, axis.columns] = axis.hull(self.first[:, k], self.last[:, k])
        return lower, upper

    @property
    def single(self) -> bool:
        """Whether each piece is one combination of protected values."""
        return bool((self.first == self.last).all()) and all(axis.feature.whole for axis in self.protected)

    @cached_property
    def finite(self) -> bool:
        """Whether a cell is one person, with no one similar in another cell, and protected values are not many."""
        axes = (*self.axes, *self.protected)
        # How many cells a continuous feature has is the certificate's choice, so one cell says nothing about it.
        whole = all(axis.feature.whole or axis.feature.low == axis.feature.high for axis in axes)
        return whole and not any(axis.reach for axis in self.axes) and self._combinations <= MAX_PIECES

    @property
    def _combinations(self) -> int:
        return math.prod(axis.cells for axis in self.protected)

    @cached_property
    def values(self) -> Array:
        """Protected columns (values, width), 0 in all others: of all combinations if they are few, else some."""
        if self._combinations <= MAX_VALUES:
            return self.all_values
        return self._columns(self.protected, np.concatenate([self.first, self.last]))

    @cached_property
    def all_values(self) -> Array:
        """The protected columns of all combinations."""
        cells = np.array(list(product(*(range(axis.cells) for axis in self.protected))), np.int64)
        return self._columns(self.protected, cells)

    def people_in(self, cells: Whole) -> Array:
        """Return the unprotected columns of someone in each cell (people, axes): (people, width), 0 in all others."""
        return self._columns(self.axes, cells)

    def _columns(self, axes: Sequence[Axis], cells: Whole) -> Array:
        columns = np.zeros((len(cells), self.width))
        for k, axis in enumerate(axes):
            columns[:, axis.columns] = axis.columns_of(cells[:, k])
        return columns

    def hulls(self, first: Whole, last: Whole, protected: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return boxes around all who are similar to people in boxes (boxes, axes), with some protected columns.

        ``protected`` are the ends of those, (pieces, width) or (boxes, pieces, width). Two arrays (boxes * pieces,
        width): all pieces of the first box, then those of the second.
        """
        lower, upper = np.zeros((2, len(first), 1, self.width))
        for k, axis in enumerate(self.axes):
            low, high = axis.hull(*self.similar(axis, first[:, k], last[:, k]))
            lower[:, 0, axis.columns], upper[:, 0, axis.columns] = low, high
        return (lower + protected[0]).reshape(-1, self.width), (upper + protected[1]).reshape(-1, self.width)


def _count_cells(feature: Feature, cells: int) -> int:
    if feature.low == feature.high:
        return 1
    if not feature.whole:
        return cells
    count = int(feature.high) - int(feature.low) + 1
    if count > MAX_CELLS:
        raise CheckError(f'feature "{feature.name[:40]}" has more than {MAX_CELLS:,} values, too many to count people')
    return count
