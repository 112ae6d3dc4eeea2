"""All people that a spec allows, protected features aside: a grid of cells of equal weight.

Each unprotected feature is an axis. A whole number or category is one cell, and the range of a continuous feature is
divided into cells of equal length. `Boxes` are ranges of cells on every axis. People in the box of one cell differ only
in continuous features. With links, people's own values of the protected features that links depend on are axes as well.

Columns of people are those of the model's inputs, but for links: a linked category has a column for each category
behind them, and own protected values have one that is always 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.features import Feature
from fairmend_check.kernel.neighbourhood import encode
from fairmend_check.kernel.rounding import TINY, Array, Precision, U, down, gamma
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.linked_people import (
    ALL,
    Cases,
    PeopleLinks,
    category_terms,
    linked_hull,
    number_terms,
    own_axes,
)

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_CELLS = 2**32  # of an axis
MAX_PIECES = 2**10
MAX_VALUES = 2**6  # combinations of protected values among which two are looked for
_TABLE = 2**17  # cells of an axis whose columns are kept
_EXACT = 2.0**53  # cells that can be counted without rounding

FEATURE, CATEGORIES, OWN = "feature", "categories", "own"  # what the columns of an axis are


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of cells first..last (boxes, axes)."""

    first: Whole
    last: Whole

    def __len__(self) -> int:
        """Return the number of boxes."""
        return len(self.first)

    def take(self, rows: Whole | Bools | slice) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.first[rows], self.last[rows])

    def halved(self, axis: Whole, cuts: Whole | None = None) -> Boxes:
        """Return the lower halves along an axis (boxes,), and then the upper ones.

        The last cells of lower halves are ``cuts`` (boxes,), or those in the middle.
        """
        rows = np.arange(len(axis))
        first, last = np.concatenate([self.first, self.first]), np.concatenate([self.last, self.last])
        last[rows, axis] = self.middle[rows, axis] if cuts is None else cuts
        first[len(rows) + rows, axis] = last[rows, axis] + 1
        return Boxes(first, last)

    @cached_property
    def cells(self) -> list[int]:
        """The number of cells of each box."""
        return [math.prod(size) for size in (self.last - self.first + 1).tolist()]

    @cached_property
    def exact(self) -> Bools:
        """Whether the cells of a box can be counted without rounding (boxes,)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.prod((self.last - self.first + 1).astype(np.float64), axis=1) < _EXACT)

    @cached_property
    def size(self) -> Array:
        """The number of cells of each box, or 1 where that is not exact (boxes,)."""
        sizes = np.where(self.exact[:, None], self.last - self.first + 1, 1)
        return np.asarray(np.prod(sizes.astype(np.float64), axis=1))

    @property
    def middle(self) -> Whole:
        """The cell in the middle of each box (boxes, axes)."""
        return np.asarray((self.first + self.last) // 2)


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature, its first column and its number of cells.

    The columns are those of the feature, one for each of its categories, or one that is 0 for own protected values.
    """

    feature: Feature
    column: int
    cells: int
    dtype: str
    role: str = FEATURE

    @property
    def columns(self) -> slice:
        """The columns of the axis."""
        width = {FEATURE: self.feature.width, CATEGORIES: self.cells, OWN: 1}[self.role]
        return slice(self.column, self.column + width)

    @property
    def one_hot(self) -> bool:
        """Whether categories have columns of their own."""
        return self.role == CATEGORIES or (self.role == FEATURE and self.feature.one_hot)

    @cached_property
    def blocks(self) -> Blocks | None:
        """The cells whose people are similar to each other, by the bands of the feature; None if it has none."""
        return Blocks.of_bands(self) if self.feature.bands or self.feature.groups else None

    def around(self, first: Whole, last: Whole) -> tuple[Whole, Whole]:
        """Return the first and the last cell of all who are similar to people in cells first to last."""
        if self.blocks is not None:
            return self.blocks.start[self.blocks.of(first)], self.blocks.stop[self.blocks.of(last)]
        return np.maximum(first - self.reach, 0), np.minimum(last + self.reach, self.cells - 1)

    def span(self, first: Whole, last: Whole) -> tuple[Array, Array]:
        """Return the lowest and the highest number of the column in cells first to last, and in all of their bands."""
        if self.blocks is None:
            return self.lower(first), self.upper(last)
        return self.blocks.span(self.blocks.of(first), self.blocks.of(last))

    def middle(self, first: Whole, last: Whole) -> Whole:
        """Return the last cell of the lower half of cells first to last; several bands are not cut."""
        cut = (first + last) // 2
        if self.blocks is None:
            return np.asarray(cut)
        block, final = self.blocks.of(cut), self.blocks.of(last)
        whole = np.where(block < final, self.blocks.stop[block], self.blocks.start[final] - 1)
        return np.where(self.blocks.of(first) < final, whole, cut)

    def divisible(self, first: Whole, last: Whole) -> Bools:
        """Return where it is of use to halve cells first to last: not within a band."""
        return np.asarray(last > first if self.blocks is None else self.blocks.of(last) > self.blocks.of(first))

    @cached_property
    def reach(self) -> int:
        """How many cells away a similar person can be, in an unprotected feature; bands are `blocks`."""
        if self.role == OWN:
            return 0
        if self.feature.whole:
            return min(int(self.feature.reach), self.cells - 1)
        length = Fraction(self.feature.high) - Fraction(self.feature.low)
        return 0 if not length else min(math.ceil(Fraction(self.feature.tolerance) * self.cells / length), self.cells)

    @cached_property
    def steps(self) -> tuple[float, float]:
        """How much the column changes at least, and at most, if a value changes by all of the tolerance."""
        if not self.reach:
            return 0.0, 0.0
        step = self.reach if self.feature.whole else self.feature.reach  # nobody leaves the range
        change, rounding = step / self.feature.affine[1], self.rounding(step)
        return max(0.0, float(change - rounding)), float(change + rounding)

    def rounding(self, step: float) -> float:
        """Return how far the difference of two columns can be from that of their values, which is at most a step."""
        kind, factor = Precision.of(self.dtype), self.feature.affine[1]
        ends = self.encoded(np.array([self.feature.low, self.feature.high]))
        # The value is rounded to a double, encoded with two roundings, and rounded to the type of the model.
        sizes = (max(abs(self.feature.low), abs(self.feature.high)) + 2 * step) / factor
        return float(4 * ((2 * kind.u + 8 * U) * np.abs(ends).max() + 8 * U * sizes + 2 * kind.tiny))

    def value_ends(self, first: Whole, last: Whole) -> tuple[Array, Array]:
        """Return the lowest and the highest value, or code, in cells first to last, rounded outward."""
        if self.feature.whole:
            return self.feature.low + first.astype(np.float64), self.feature.low + last.astype(np.float64)
        return self._value(first, -1), self._value(last + 1, 1)

    def cells_around(self, value: float, *, after: bool) -> set[int]:
        """Return where cells must be cut so that a value is an end; a continuous one is between two cells then."""
        if self.feature.whole:
            return {int(value - self.feature.low) + after}
        length = Fraction(self.feature.high) - Fraction(self.feature.low)
        nearest = round((Fraction(value) - Fraction(self.feature.low)) * self.cells / length) if length else 0
        return {nearest - 1, nearest + 1}

    def cells_beside(self, edges: Sequence[float], side: int) -> Whole:
        """Return the cells in which edges of bands are, or those as far below (side -1) or above as rounding reaches.

        The numbers that the model reads decide in which band a person is.
        """
        low, high = Fraction(self.feature.low), Fraction(self.feature.high)
        room = self.rounding(0.0) * abs(self.feature.affine[1]) + 16 * U * float(abs(low) + abs(high))
        places = [(Fraction(edge) + side * Fraction(room) - low) * self.cells / (high - low) for edge in edges]
        return np.clip(np.array([math.floor(place) for place in places], np.int64), 0, self.cells - 1)

    def encoded_outwards(self, values: Array, side: int) -> Array:
        """Return the columns of values; of a continuous feature, rounded down (side -1) or up (1)."""
        if not self.feature.whole:
            size = np.abs(values) + abs(self.feature.low) + abs(self.feature.high)
            values = np.clip(values + side * 8 * U * size, self.feature.low, self.feature.high)
        return self.encoded(values)

    def lower(self, cell: Whole) -> Array:
        """Return the lowest number of the column in cells; not of a one-hot feature."""
        return self._ends(cell)[0] if self.cells > _TABLE else self._table[0][cell]

    def upper(self, cell: Whole) -> Array:
        """Return the highest number of the column in cells."""
        return self._ends(cell)[1] if self.cells > _TABLE else self._table[1][cell]

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        return self._ends(np.arange(self.cells))

    def _ends(self, cell: Whole) -> tuple[Array, Array]:
        if self.role == OWN:
            return np.zeros(cell.shape), np.zeros(cell.shape)
        if self.feature.whole:
            return (self.encoded(self.feature.low + self.codes(cell)),) * 2
        return self._edge(cell, -1), self._edge(cell + 1, 1)

    def codes(self, cell: Whole) -> Whole:
        """Return how many whole numbers, or categories, are before those of cells; the categories of a band adjoin."""
        return cell if self.blocks is None or self.blocks.order is None else self.blocks.order[cell]

    def _edge(self, cell: Whole, side: int) -> Array:
        """Return the column where cells begin, rounded down (side -1) or up (1), or somewhere near (0)."""
        return self.encoded(self._value(cell, side))

    def _value(self, cell: Whole, side: int) -> Array:
        low, high = self.feature.low, self.feature.high
        value = low + (high - low) * (cell / self.cells)
        return np.asarray(np.clip(value + side * 8 * U * (abs(low) + abs(high)), low, high))

    def encoded(self, values: NDArray[np.floating]) -> Array:
        """Return the column of values."""
        return encode(self.feature, np.asarray(values, np.float64), np.dtype(self.dtype))

    def hull(self, first: Whole, last: Whole) -> tuple[Array, Array]:
        """Return the smallest box around the columns of cells first to last (boxes,), and of all of their bands.

        Two arrays (boxes, width).
        """
        if not self.one_hot:
            low, high = self.span(first, last)
            return low[:, None], high[:, None]
        if self.blocks is not None:
            first, last = self.around(first, last)
        return self.hull_of(self._among(first, last))

    def _among(self, first: Whole, last: Whole) -> Bools:
        """Return which categories cells first to last are (boxes, categories)."""
        cells = np.arange(self.cells)
        among = np.empty((len(first), self.cells), np.bool_)
        among[:, self.codes(cells)] = (first[:, None] <= cells) & (cells <= last[:, None])
        return among

    def hull_of(self, among: Bools) -> tuple[Array, Array]:
        """Return the smallest box around the columns of categories (boxes, categories)."""
        if not self.one_hot:
            column = self.lower(np.arange(self.cells))
            low, high = np.where(among, column, np.inf).min(axis=1), np.where(among, column, -np.inf).max(axis=1)
            return low[:, None], high[:, None]
        most = np.delete(among, self._dropped, axis=1)
        least = most & (among.sum(axis=1) == 1)[:, None]
        return least.astype(np.float64), most.astype(np.float64)

    def columns_of(self, cell: Whole) -> Array:
        """Return the columns of someone in each cell (people, width)."""
        if self.one_hot:
            return self.hull_of(self._among(cell, cell))[0]
        return (self.lower(cell) if self.feature.whole or self.role == OWN else self._edge(cell, 0))[:, None]

    def ends(self, A: Array, first: Whole, last: Whole, *, inside: bool = False) -> Array:
        """Return terms A·x (boxes, terms) that include the least and the largest of cells first to last (boxes,).

        A is (boxes, width). With ``inside`` they are those of people in the cells, else the ends of the cells. All of
        the bands of these cells count.
        """
        if self.one_hot:
            codes = np.arange(self.cells)
            if self.blocks is not None:
                first, last = self.around(first, last)
            return np.take_along_axis(self.categories(A), np.clip(codes, first[:, None], last[:, None]), axis=1)
        if inside and not self.feature.whole and self.role != OWN:
            ends = self._edge(first, 0), self._edge(last + 1, 0)
        else:
            ends = self.span(first, last)
        return A * np.stack(ends, axis=1)

    def terms(self, A: Array, first: Whole, last: Whole, *, inside: bool = False) -> Array:
        """Return what `ends` does for forms A of all columns (boxes, forms, width): (boxes, forms, terms)."""
        columns = A[:, :, self.columns].reshape(A.shape[0] * A.shape[1], -1)
        ends = (np.repeat(end, A.shape[1]) for end in (first, last))
        return self.ends(columns, *ends, inside=inside).reshape(*A.shape[:2], -1)

    def categories(self, A: Array) -> Array:
        """Return the terms A·x of the category of each cell (boxes, cells): coefficients, so they are exact."""
        terms = np.insert(A, self._dropped, 0.0, axis=1)
        return terms if self.blocks is None else terms[:, self.codes(np.arange(self.cells))]

    def category_values(self, A: Array) -> Array:
        """Return lower bounds of the terms A·x of each category (boxes, categories), of any feature with categories."""
        return self.categories(A) if self.one_hot else down(A * self.lower(np.arange(self.cells)))

    @property
    def _dropped(self) -> list[int]:
        """The category that has no column, if there is one."""
        return (
            []
            if self.role == CATEGORIES or self.feature.dropped is None
            else [self.feature.categories.index(self.feature.dropped)]
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """The cells of an axis by bands: people of the cells ``start`` to ``stop`` (blocks,) of a block are similar.

    The numbers of their column are from ``low`` to ``high``. Where ``sure``, the block is one band, in which someone
    has the number ``low``, and someone the number ``top``. Else its people are in one of several bands: a cell of a
    continuous feature that is at an edge. ``order`` has the numbers of the categories of all cells.
    """

    start: Whole
    stop: Whole
    low: Array
    high: Array
    top: Array
    sure: Bools
    order: Whole | None = None

    @staticmethod
    def of_bands(axis: Axis) -> Blocks:
        """Return the blocks of a feature with bands."""
        feature = axis.feature
        if feature.groups:
            codes = [np.array([feature.categories.index(name) for name in group], np.int64) for group in feature.groups]
            stop = np.cumsum([len(each) for each in codes]) - 1
            ends = ([take(each) for each in codes] for take in (np.min, np.max))
            low, high = (axis.encoded(np.array(each, np.float64)) for each in ends)
            sure, order = np.ones(len(codes), np.bool_), np.concatenate(codes)
            return Blocks(np.append(0, stop[:-1] + 1), stop, low, high, high, sure, order)
        first = np.array(feature.bands, np.float64)
        if feature.whole:
            last = np.append(first[1:] - 1, feature.high)
            low, high = axis.encoded(first), axis.encoded(last)
            start, stop = ((each - feature.low).astype(np.int64) for each in (first, last))
            return Blocks(start, stop, low, high, high, np.ones(len(first), np.bool_))
        below, above = (axis.cells_beside(feature.bands[1:], side) for side in (-1, 1))
        start = np.unique(np.concatenate([np.zeros(1, np.int64), below, above + 1]))
        start = start[start < axis.cells]
        stop = np.append(start[1:], axis.cells) - 1
        least, most = np.searchsorted(above, start), np.searchsorted(below, stop, "right")
        edges, kind = axis.encoded(np.append(first, feature.high)), np.dtype(axis.dtype)
        tops = np.nextafter(edges.astype(kind), kind.type(-np.inf)).astype(np.float64)  # the last numbers of bands
        tops[-1] = edges[-1]
        low = edges[least]
        return Blocks(start, stop, low, edges[most + 1], np.maximum(low, tops[most + 1]), least == most)

    def of(self, cell: Whole) -> Whole:
        """Return the block of cells."""
        return np.asarray(np.searchsorted(self.start, cell, "right") - 1)

    def span(self, first: Whole, last: Whole) -> tuple[Array, Array]:
        """Return the lowest and the highest number in blocks first to last."""
        if self.order is None:
            return self.low[first], self.high[last]
        return self._spans[0][first, last], self._spans[1][first, last]

    @cached_property
    def _spans(self) -> tuple[Array, Array]:
        """The lowest and the highest number from each block to each (blocks, blocks), of categories in any order."""
        low, high = (np.tile(each, (len(self.low), 1)) for each in (self.low, self.high))
        before = np.tri(len(self.low), k=-1, dtype=np.bool_)
        low[before], high[before] = np.inf, -np.inf
        return np.minimum.accumulate(low, axis=1), np.maximum.accumulate(high, axis=1)


@dataclass(frozen=True, eq=False)
class People:
    """The axes of people and of protected features, and pieces that contain all protected values together.

    ``free`` are the unprotected features in the columns of inputs, ``axes`` the same in columns of people, of which
    there are ``width``, and then own protected values. ``pieces`` are cells of the protected axes, and which of the
    values that links give they have.
    """

    spec: Spec
    width: int
    axes: tuple[Axis, ...]
    free: tuple[Axis, ...]
    protected: tuple[Axis, ...]
    pieces: Cases
    links: PeopleLinks | None

    @staticmethod
    def of(spec: Spec, dtype: str, cells: int, parts: list[int]) -> People:
        """Return the people of a spec.

        A continuous feature has so many ``cells``; each protected feature is divided into so many ``parts``, and where
        links begin and end.
        """
        endless = next((feature.name for feature in spec.features if feature.as_is), None)
        if endless is not None:
            raise CheckError(f'feature "{endless[:40]}" passes as it is and has no range, so people cannot be counted')
        axes = [Axis(feature, start, _count_cells(feature, cells), dtype) for feature, start in spec.columns()]
        protected = tuple(axis for axis in axes if axis.feature.protected)
        if len(parts) != len(protected) or math.prod(parts) > MAX_PIECES:
            raise CheckError(
                f"certificate.shares.pieces must have a number for each protected feature, with a product of at most "
                f"{MAX_PIECES:,}"
            )
        if not all(1 <= part <= axis.cells for part, axis in zip(parts, protected, strict=True)):
            raise CheckError("certificate.shares.pieces: a protected feature has fewer values than pieces")
        free = [axis for axis in axes if not axis.feature.protected]
        links = PeopleLinks.of(spec.links, free, protected) if spec.links else None
        ranges = []
        for number, (part, axis) in enumerate(zip(parts, protected, strict=True)):
            edges = {axis.cells * k // part for k in range(part + 1)} | (set() if links is None else links.cuts(number))
            ranges.append([(start, end - 1) for start, end in pairwise(sorted(edges))])
        if math.prod(map(len, ranges)) > MAX_PIECES:
            raise CheckError(f"certificate.shares: links divide the pieces into more than {MAX_PIECES:,}")
        ends = np.array(list(product(*ranges)), np.int64)
        pieces = _with_choices(links, ends[:, :, 0], ends[:, :, 1])
        people, width = _person_axes(spec, free, protected, links)
        return People(spec, width, people, tuple(free), protected, pieces, links)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all people."""
        return math.prod(axis.cells for axis in self.axes)

    @cached_property
    def protected_columns(self) -> Whole:
        """The columns of the protected features."""
        return np.concatenate([np.arange(axis.columns.start, axis.columns.stop) for axis in self.protected])

    @cached_property
    def varying(self) -> list[Axis]:
        """The axes, as the model reads them, in which similar people can differ."""
        linked = [] if self.links is None else [each.axis for each in self.links.axes]
        return [*self.protected, *(axis for axis in self.free if axis.reach or axis.blocks), *linked]

    @cached_property
    def banded(self) -> list[tuple[int, Axis, Blocks]]:
        """The axes with bands: the number of each, and its blocks."""
        return [(k, axis, axis.blocks) for k, axis in enumerate(self.axes) if axis.blocks is not None]

    @cached_property
    def everyone(self) -> Boxes:
        """The box of all people."""
        last = np.array([[axis.cells - 1 for axis in self.axes]], np.int64)
        return Boxes(np.zeros_like(last), last)

    @cached_property
    def reach(self) -> Whole:
        """How many cells away similar people can be on each axis (axes,), but for links."""
        return np.array([axis.reach for axis in self.axes], np.int64)

    def similar(self, boxes: Boxes) -> Boxes:
        """Return boxes of all who are similar to people in boxes, but for links."""
        first, last = (
            np.maximum(boxes.first - self.reach, 0),
            np.minimum(boxes.last + self.reach, self.everyone.last),
        )
        for k, axis, _ in self.banded:
            first[:, k], last[:, k] = axis.around(boxes.first[:, k], boxes.last[:, k])
        return Boxes(first, last)

    def divisible(self, boxes: Boxes) -> Bools:
        """Return along which axes it is of use to halve boxes (boxes, axes): not within a band."""
        found = boxes.last > boxes.first
        for k, axis, _ in self.banded:
            found[:, k] = axis.divisible(boxes.first[:, k], boxes.last[:, k])
        return found

    def middles(self, first: Whole, last: Whole) -> Whole:
        """Return where boxes first to last are halved along each axis: the last cells of lower halves (boxes, axes)."""
        found = np.asarray((first + last) // 2)
        for k, axis, _ in self.banded:
            found[:, k] = axis.middle(first[:, k], last[:, k])
        return found

    def halved(self, boxes: Boxes, axis: Whole) -> Boxes:
        """Return the lower halves of boxes along an axis (boxes,), and then the upper ones; bands stay whole."""
        return boxes.halved(axis, self.middles(boxes.first, boxes.last)[np.arange(len(axis)), axis])

    @property
    def single(self) -> bool:
        """Whether each piece is one combination of protected values."""
        same = bool((self.pieces.first == self.pieces.last).all())
        return same and all(axis.feature.whole for axis in self.protected)

    @cached_property
    def finite(self) -> bool:
        """Whether a cell is one person, so that all who are similar can be listed."""
        axes = (*self.free, *self.protected)
        # How many cells a continuous feature has is the certificate's choice, so one cell says nothing about it.
        fixed = [axis.feature.low == axis.feature.high and self.links is None for axis in axes]
        return all(axis.feature.whole or one for axis, one in zip(axes, fixed, strict=True))

    @cached_property
    def combinations(self) -> int:
        """The number of all combinations of protected values, with each choice of linked ones."""
        return math.prod(self._counts)

    @cached_property
    def values(self) -> Cases:
        """Cells of protected values, each with a choice of linked ones: all combinations, or a grid if many."""
        return self.some_values(MAX_VALUES)

    def some_values(self, most: int) -> Cases:
        """Return at most so many of the combinations of protected values."""
        counts = divide(self._counts, most)
        ranges = [np.linspace(0, size - 1, n).round() for size, n in zip(self._counts, counts, strict=True)]
        return self._combined(np.array(list(product(*ranges)), np.int64))

    @cached_property
    def all_values(self) -> Cases:
        """Cells of all combinations of protected values, with each choice of linked ones."""
        return self._combined(np.array(list(product(*map(range, self._counts))), np.int64))

    @cached_property
    def _counts(self) -> list[int]:
        """The number of values of each protected feature, and of those that links give for each linked one."""
        linked = [] if self.links is None else [each.choices for each in self.links.axes]
        return [axis.cells for axis in self.protected] + linked

    def _combined(self, cells: Whole) -> Cases:
        count = len(self.protected)
        return Cases(cells[:, :count], cells[:, :count], cells[:, count:])

    def cases(self, boxes: int, values: Cases | None = None) -> Cases:
        """Return the pieces of so many boxes, or the same values for each."""
        each = self.pieces if values is None else values
        return Cases(*(np.tile(part, (boxes, 1)) for part in (each.first, each.last, each.choice)))

    def people_in(self, cells: Whole) -> Array:
        """Return the columns of someone in each cell (people, axes): (people, width), 0 in protected ones."""
        columns = np.zeros((len(cells), self.width))
        for k, axis in enumerate(self.axes):
            columns[:, axis.columns] = axis.columns_of(cells[:, k])
        return columns

    def least_values(self, cells: Whole, A: Array) -> Array:
        """Return the least of forms A (forms, width) of all who have the bands of each cell (cells, forms), rounded."""
        columns = self.people_in(cells)
        if not self.banded:
            return columns @ A.T
        low, high = columns, columns.copy()
        for k, axis, _ in self.banded:
            low[:, axis.columns], high[:, axis.columns] = axis.hull(cells[:, k], cells[:, k])
        return np.asarray(low @ np.maximum(A, 0.0).T + high @ np.minimum(A, 0.0).T)

    def least(self, boxes: Boxes, A: Array, c: Array) -> Array:
        """Return lower bounds of A·x + c over the people of boxes (boxes, forms), for forms A (boxes, forms, width).

        Protected columns do not count.
        """
        least, size = self._ends(boxes, A)
        return down(least + c - (gamma(self.width + len(self.axes) + 8) * (size + np.abs(c)) + TINY))

    def sizes(self, boxes: Boxes, A: Array) -> Array:
        """Return how large the terms of A·x are together, at most, over the people of boxes (boxes, forms)."""
        return self._ends(boxes, A)[1]

    def _ends(self, boxes: Boxes, A: Array) -> tuple[Array, Array]:
        """Return the least of A·x over the people of boxes, and how large its terms are together; but for rounding."""
        lower, upper = np.zeros((2, len(boxes), self.width))
        for k, axis in enumerate(self.axes):
            if not axis.one_hot:
                lower[:, axis.column], upper[:, axis.column] = axis.span(boxes.first[:, k], boxes.last[:, k])
        ends = A * lower[:, None], A * upper[:, None]
        least, size = np.minimum(*ends).sum(axis=2), np.maximum(*map(np.abs, ends)).sum(axis=2)
        for k, axis in enumerate(self.axes):
            if axis.one_hot:
                values = axis.terms(A, boxes.first[:, k], boxes.last[:, k])
                least, size = least + values.min(axis=2), size + np.abs(values).max(axis=2)
        return least, size

    def distribution(self, boxes: Boxes, g: Array) -> tuple[Array, Array]:
        """Return roughly the mean and the standard deviation of g·x over the people of boxes (boxes,)."""
        mean, variance = np.zeros((2, len(boxes)))
        for k, axis in enumerate(self.axes):
            first, last = boxes.first[:, k], boxes.last[:, k]
            if axis.one_hot:
                values = axis.ends(g[:, axis.columns], first, last)
                ends, shape = (values.min(axis=1), values.max(axis=1)), 1 / 4
            else:
                slope, steps = g[:, axis.column], np.maximum(last - first, 1)
                low, high = axis.span(first, last)
                ends, shape = (slope * low, slope * high), (1 + 2 / steps) / 12
            mean, variance = mean + (ends[0] + ends[1]) / 2, variance + (ends[1] - ends[0]) ** 2 * shape
        return mean, np.sqrt(variance)

    def steps(self, boxes: Boxes, A: Array) -> tuple[Array, Array]:
        """Return by how much forms A (boxes, forms, width) of similar people can be lower, and are higher for someone.

        Each is (boxes, forms). Someone has a value that is higher, or lower, by the tolerance, unless that is outside
        its range for people of the box.
        """
        lower, higher = np.zeros((2, *A.shape[:2]))
        for k, axis in enumerate(self.axes):
            if axis.reach:
                slope = A[:, :, axis.column]
                least, most = axis.steps
                rises = (boxes.last[:, k] + axis.reach < axis.cells)[:, None]
                falls = (boxes.first[:, k] >= axis.reach)[:, None]
                lower = lower + np.abs(slope) * most
                higher = higher + np.where(np.where(slope > 0, rises, falls), np.abs(slope) * least, 0.0)
        room = gamma(2 * len(self.axes) + 8)
        return lower * (1 + room) + TINY, np.maximum(higher * (1 - room) - TINY, 0.0)

    def in_bands(self, boxes: Boxes) -> list[Bools]:
        """Return for each axis with bands which boxes are within one block (boxes,)."""
        return [~axis.divisible(boxes.first[:, k], boxes.last[:, k]) for k, axis, _ in self.banded]

    def band_terms(self, number: int, boxes: Boxes, A: Array) -> tuple[Array, Array, Array]:
        """Return terms of forms A (boxes, forms, width) on an axis with bands, of boxes that are within one block.

        The least of all who are similar, the largest of someone who surely is, and how large they are (boxes, forms).
        """
        k, axis, blocks = self.banded[number]
        values, block = axis.terms(A, boxes.first[:, k], boxes.last[:, k]), blocks.of(boxes.first[:, k])
        ends = values
        if not axis.one_hot:
            ends = A[:, :, axis.columns] * np.stack([blocks.low[block], blocks.top[block]], axis=1)[:, None]
        least = values.min(axis=2)
        most = np.where(blocks.sure[block][:, None], ends.max(axis=2), least)
        return least, most, np.abs(values).max(axis=2)

    def band_steps(self, boxes: Boxes, A: Array) -> Array:
        """Return by how much forms A (boxes, forms, width) of people of the same bands can differ (boxes, forms)."""
        found = np.zeros(A.shape[:2])
        for k, axis, blocks in self.banded:
            if axis.one_hot:
                values = axis.terms(A, boxes.first[:, k], boxes.last[:, k])
                found = found + (values.max(axis=2) - values.min(axis=2))
            else:
                found = found + np.abs(A[:, :, axis.column]) * (blocks.high - blocks.low).max()
        return found * (1 + gamma(2 * len(self.axes) + 8)) + TINY if self.banded else found

    def inputs(self, cells: Whole, values: Cases, kind: Any = np.float64) -> Array:
        """Return the inputs of someone in each cell with these values of each (people * values, inputs)."""
        count = len(values.first)
        each = np.zeros((len(cells), count, self.spec.width), kind)
        for k, axis in enumerate(self.free):
            each[:, :, axis.columns] = axis.columns_of(cells[:, k])[:, None]
        for k, axis in enumerate(self.protected):
            each[:, :, axis.columns] = axis.columns_of(values.first[:, k])
        inputs = each.reshape(-1, self.spec.width)
        if self.links is not None:
            self._write_linked(inputs, inputs.copy(), Boxes(cells, cells), self.cases(len(cells), values))
        return inputs

    def settled(self, boxes: Boxes, cases: Cases) -> Bools:
        """Return in which cases of boxes a person has a single counterfactual (rows,)."""
        single = np.full(len(cases.first), not any(axis.reach or axis.blocks for axis in self.axes))
        for k, axis in enumerate(self.protected):
            single &= (cases.first[:, k] == cases.last[:, k]) & axis.feature.whole
        if self.links is not None:
            outcomes = self.links.outcomes(*_repeated(boxes, cases), cases)
            for k, (linked, possible) in enumerate(zip(self.links.axes, outcomes, strict=True)):
                single &= np.sum([each for _, each in possible], axis=0) == 1
                chosen = (cases.choice[:, k] != ALL) | (linked.choices == 1)
                fixed = all(effect.high == effect.low for _, effect in linked.effects)
                single &= possible[0][1] | (chosen if linked.axis.feature.whole else fixed)
        return single

    def hulls(self, boxes: Boxes, cases: Cases) -> tuple[Array, Array]:
        """Return boxes around all who are similar to people in boxes, for each case (rows, inputs)."""
        lower, upper = np.zeros((2, len(boxes), self.spec.width))
        around = self.similar(boxes)
        for k, axis in enumerate(self.free):
            lower[:, axis.columns], upper[:, axis.columns] = axis.hull(around.first[:, k], around.last[:, k])
        count = len(cases.first) // len(boxes)
        lower, upper = np.repeat(lower, count, axis=0), np.repeat(upper, count, axis=0)
        for k, axis in enumerate(self.protected):
            lower[:, axis.columns], upper[:, axis.columns] = axis.hull(cases.first[:, k], cases.last[:, k])
        self._write_linked(lower, upper, boxes, cases)
        return lower, upper

    def _write_linked(self, lower: Array, upper: Array, boxes: Boxes, cases: Cases) -> None:
        """Write the ends of linked columns of people in boxes into those of the cases (rows, inputs)."""
        if self.links is None:
            return
        first, last = _repeated(boxes, cases)
        outcomes = self.links.outcomes(first, last, cases)
        for k, (linked, possible) in enumerate(zip(self.links.axes, outcomes, strict=True)):
            own = first[:, linked.number], last[:, linked.number]
            columns = linked.axis.columns
            lower[:, columns], upper[:, columns] = linked_hull(linked, possible, *own, cases.choice[:, k])

    def person_forms(self, boxes: Boxes, cases: Cases, A: Array, c: Array) -> tuple[Array, Array]:
        """Return forms of columns of people below the forms A (rows, inputs), c (rows,) of their counterfactuals."""
        if self.links is None:
            return A, c
        forms = np.zeros((len(A), self.width))
        forms[:, : A.shape[1]] = A
        first, last = _repeated(boxes, cases)
        outcomes = self.links.outcomes(first, last, cases)
        for k, (linked, possible) in enumerate(zip(self.links.axes, outcomes, strict=True)):
            own, choice = (first[:, linked.number], last[:, linked.number]), cases.choice[:, k]
            columns = linked.axis.columns
            if linked.axis.feature.categories:
                forms[:, columns] = 0.0
                places = self.axes[linked.number].columns
                forms[:, places] = category_terms(linked, possible, choice, A[:, columns])
            else:
                depends, low, high = number_terms(linked, possible, *own, choice)
                slope = A[:, linked.axis.column]
                forms[:, linked.axis.column] = np.where(depends, slope, 0.0)
                c = down(c + down(np.minimum(slope * low, slope * high)))
        return forms, c


def _repeated(boxes: Boxes, cases: Cases) -> tuple[Whole, Whole]:
    """Return the cells first and last of people in each row of the cases (rows, axes)."""
    count = len(cases.first) // len(boxes)
    return np.repeat(boxes.first, count, axis=0), np.repeat(boxes.last, count, axis=0)


def divide(values: Sequence[int], most: int) -> list[int]:
    """Return into how many parts so many values of each feature are divided, for so many combinations at most."""
    parts = list(values)
    while math.prod(parts) > most:
        longest = int(np.argmax(parts))
        parts[longest] = (parts[longest] + 1) // 2
    return parts


def _with_choices(links: PeopleLinks | None, first: Whole, last: Whole) -> Cases:
    """Return pieces, once for each choice of categories that links give there; for all at once if these are many."""
    whole = Cases(first, last, np.full((len(first), 0 if links is None else len(links.axes)), ALL))
    if links is None:
        return whole
    rows: list[int] = []
    choices: list[tuple[int, ...]] = []
    matches = [links.matches(link, whole)[0] for link in range(len(links.conditions))]
    for row in range(len(first)):
        each = []
        for linked in links.axes:
            given = linked.choices if any(matches[link][row] for link, _ in linked.effects) else 1
            each.append(range(given) if linked.axis.feature.categories and given > 1 else [ALL])
        if len(rows) + math.prod(map(len, each)) > MAX_VALUES:
            return whole
        for choice in product(*each):
            rows.append(row)
            choices.append(choice)
    return Cases(first[rows], last[rows], np.array(choices, np.int64))


def _person_axes(
    spec: Spec, free: list[Axis], protected: tuple[Axis, ...], links: PeopleLinks | None
) -> tuple[tuple[Axis, ...], int]:
    """Return the axes of people, and how many columns they have."""
    axes, width = list(free), spec.width
    for linked in () if links is None else links.axes:
        if linked.axis.feature.categories:
            axes[linked.number] = Axis(linked.axis.feature, width, linked.axis.cells, linked.axis.dtype, CATEGORIES)
            width += linked.axis.cells
    for number in own_axes(spec.links, protected):
        axis = protected[number]
        axes.append(Axis(axis.feature, width, axis.cells, axis.dtype, OWN))
        width += 1
    return tuple(axes), width


def count_axes(spec: Spec) -> int:
    """Return the number of axes of people."""
    named = {name for link in spec.links for name, _ in link.when}
    return sum(not feature.protected or feature.name in named for feature in spec.features)


def _count_cells(feature: Feature, cells: int) -> int:
    if feature.low == feature.high:
        return 1
    if not feature.whole:
        return cells
    count = int(feature.high) - int(feature.low) + 1
    if count > MAX_CELLS:
        raise CheckError(f'feature "{feature.name[:40]}" has more than {MAX_CELLS:,} values, too many to count people')
    return count
