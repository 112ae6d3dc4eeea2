"""The people that a spec allows, protected features aside: boxes of their values, and how large these are.

Each unprotected feature is an `Axis`: a row of *cells* of equal weight. A cell of an integer or categorical feature is
one value; the range of a continuous one is divided into many. A box is a range of cells on every axis. The *share* of a
box is the product of the shares of its ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import DTypeLike

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.spec import Feature, Spec
from fairmend.spec.encoding import encode_values

__all__ = ["MOST_COMBINATIONS", "Axis", "Boxes", "Space", "make_space"]

CELLS = 2**16
"""The cells of a continuous feature."""

MOST_COMBINATIONS = 64
"""The combinations of protected values that are tried one by one."""

_FEW_VALUES, _RANGES = 8, 4  # pieces of protected values
_MOST_VALUES = 2**22  # of one feature: a table of them is kept


@dataclass(frozen=True, eq=False)
class Axis:
    """One feature and its cells; ``low`` and ``high`` (cells, columns) are the ends of its encoded columns in a cell.

    ``reach`` is how many cells away the value of a similar person can be, and ``surely`` how many it can always be, as
    long as it is within the range.
    """

    feature: Feature
    columns: slice
    low: Floats
    high: Floats
    reach: int = 0
    surely: int = 0

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.low)

    @property
    def one_hot(self) -> bool:
        """Whether a cell is a category with columns of its own."""
        return self.feature.one_hot

    def hull(self, first: Ints, last: Ints) -> tuple[Floats, Floats]:
        """Return the smallest boxes around the columns of cells from first to last ``(n,)``: each ``(n, columns)``."""
        if not self.one_hot:
            return self.low[first], self.high[last]
        codes = np.arange(self.cells)
        among = (first[:, None] <= codes) & (codes <= last[:, None])
        single = (first == last)[:, None]
        return (among & single) @ self.low, (among @ self.low).astype(np.float64)

    @cached_property
    def line(self) -> tuple[float, float, float]:
        """A start, a step and how far from ``start + k * step`` both ends of the column can be in cell k."""
        k = np.arange(self.cells)
        start, step = float(self.low[0, 0]), float(self.high[-1, 0] - self.low[0, 0]) / max(1, self.cells - 1)
        off = np.maximum(np.abs(self.low[:, 0] - (start + k * step)), np.abs(self.high[:, 0] - (start + k * step)))
        largest = max(abs(start), abs(float(self.high[-1, 0])))
        return start, step, float(off.max() * 1.001 + 1e-14 * largest)

    @cached_property
    def longest_step(self) -> float:
        """The largest change of the column within reach, rounded up."""
        k = min(self.reach, self.cells - 1)
        return 0.0 if k == 0 else float(np.nextafter((self.high[k:] - self.low[: self.cells - k]).max(), np.inf))

    @cached_property
    def sure_step(self) -> float:
        """The smallest change of the column over ``surely`` cells, rounded down."""
        k = self.surely
        if k == 0 or k >= self.cells:
            return 0.0
        return max(0.0, float(np.nextafter((self.low[k:] - self.high[: self.cells - k]).min(), -np.inf)))

    def edge(self, cell: int) -> float:
        """Return the value of a continuous feature where a cell begins."""
        low, high = self.feature.bounds
        return float(_edges(low, high, np.array([cell]))[0])


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of cells: the first and last cell on each axis, each ``(n, axes)``."""

    first: Ints
    last: Ints

    def __len__(self) -> int:
        """Return the number of boxes."""
        return len(self.first)

    def take(self, rows: Ints | Bools | slice) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.first[rows], self.last[rows])

    def split(self, axis: Ints) -> Boxes:
        """Return both halves of each box along an axis ``(n,)``: all first halves, then all second halves."""
        rows = np.arange(len(self))
        middle = (self.first[rows, axis] + self.last[rows, axis]) // 2
        first, last = np.concatenate([self.first] * 2), np.concatenate([self.last] * 2)
        last[rows, axis] = middle
        first[len(self) + rows, axis] = middle + 1
        return Boxes(first, last)


@dataclass(frozen=True, eq=False)
class Space:
    """The axes of unprotected and of protected features, and pieces that contain every combination of the latter.

    ``first`` and ``last (pieces, protected axes)`` are the cells of each piece; ``piece_low`` and ``piece_high (pieces,
    protected columns)`` the smallest box around its columns.
    """

    spec: Spec
    axes: tuple[Axis, ...]
    protected: tuple[Axis, ...]
    first: Ints
    last: Ints
    piece_low: Floats
    piece_high: Floats

    @cached_property
    def columns(self) -> Ints:
        """The columns of the protected features."""
        return _columns(self.protected)

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return len(self.piece_low)

    @property
    def single(self) -> bool:
        """Whether each piece is one combination of protected values."""
        return bool((self.first == self.last).all())

    @cached_property
    def values(self) -> Ints:
        """Combinations of protected values ``(combinations, protected axes)``: all, or those of a grid if many."""
        counts = _count_parts([axis.cells for axis in self.protected], MOST_COMBINATIONS)
        ranges = [np.linspace(0, axis.cells - 1, n).round() for axis, n in zip(self.protected, counts, strict=True)]
        return np.array(list(product(*ranges)), np.int64)

    @property
    def all_values(self) -> bool:
        """Whether `values` are all combinations."""
        return len(self.values) == math.prod(axis.cells for axis in self.protected)

    def people(self, cells: Ints, values: Ints, dtype: DTypeLike) -> FloatArray:
        """Return people in cells ``(n, axes)``, each with all of these protected values: ``(n * values, width)``."""
        X = np.zeros((len(cells), len(values), self.spec.width), dtype)
        for k, axis in enumerate(self.axes):
            X[:, :, axis.columns] = axis.low[cells[:, k]][:, None]
        for k, axis in enumerate(self.protected):
            X[:, :, axis.columns] = axis.low[values[:, k]]
        return X.reshape(-1, self.spec.width)

    def matters(self, network: Network) -> bool:
        """Return whether the network reads any column in which similar people differ."""
        varying = (*self.protected, *(axis for axis in self.axes if axis.reach))
        return bool(network.read_columns[_columns(varying)].any())

    def root(self) -> Boxes:
        """Return the box of all people."""
        return Boxes(np.zeros((1, len(self.axes)), np.int64), np.array([[axis.cells - 1 for axis in self.axes]]))

    def shares(self, boxes: Boxes) -> Floats:
        """Return the share of each box ``(n,)``, with a relative error of at most 2·axes roundings."""
        sizes = np.array([axis.cells for axis in self.axes], np.float64)
        return np.asarray(np.prod((boxes.last - boxes.first + 1) / sizes, axis=1))

    def hull(self, boxes: Boxes, *, similar: bool) -> tuple[Floats, Floats]:
        """Return the columns of boxes ``(n, width)``, protected ones 0; with ``similar``, of all similar people."""
        lower, upper = np.zeros((2, len(boxes), self.spec.width))
        for k, axis in enumerate(self.axes):
            first, last = boxes.first[:, k], boxes.last[:, k]
            if similar and axis.reach:
                first, last = np.maximum(first - axis.reach, 0), np.minimum(last + axis.reach, axis.cells - 1)
            lower[:, axis.columns], upper[:, axis.columns] = axis.hull(first, last)
        return lower, upper

    def with_pieces(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return boxes ``(n, width)`` with each piece: ``(n * pieces, width)``."""
        low, high = np.repeat(lower, self.pieces, axis=0), np.repeat(upper, self.pieces, axis=0)
        low[:, self.columns] = np.tile(self.piece_low, (len(lower), 1))
        high[:, self.columns] = np.tile(self.piece_high, (len(lower), 1))
        return low, high


def make_space(network: Network, spec: Spec, pieces: int | None = None) -> Space:
    """Return the space of a spec, in the precision of the network, with at most so many pieces of protected values.

    Without a number, there is a piece for each combination if they are few, else few ranges: bounds over more of them
    are tighter, but take more time than they are worth.
    """
    read = network.read_columns
    axes = [_axis(feature, spec.columns(feature.name), network) for feature in spec.features]
    protected = tuple(axis for axis in axes if axis.feature.protected)
    values = [axis.cells if read[axis.columns].any() else 1 for axis in protected]
    if pieces is None:
        pieces = _FEW_VALUES if math.prod(values) <= _FEW_VALUES else _RANGES
    parts = _count_parts(values, pieces)
    ranges = [_divide(axis.cells, count) for axis, count in zip(protected, parts, strict=True)]
    ends = np.array(list(product(*ranges)), np.int64)
    first, last = ends[:, :, 0], ends[:, :, 1]
    hulls = [axis.hull(first[:, k], last[:, k]) for k, axis in enumerate(protected)]
    low, high = (np.hstack([hull[side] for hull in hulls]) for side in (0, 1))
    free = tuple(axis for axis in axes if not axis.feature.protected)
    return Space(spec, free, protected, first, last, low, high)


def _axis(feature: Feature, columns: slice, network: Network) -> Axis:
    low, high = feature.bounds
    if feature.kind == "continuous" and high > low:
        edges, slack = _edges(low, high, np.arange(CELLS + 1)), 2.0**-49 * (abs(low) + abs(high))
        below, above = (_encode(feature, np.clip(edges + step, low, high), network) for step in (-slack, slack))
        width = (high - low) / CELLS
        reach = 0 if feature.protected else math.ceil(feature.tolerance / width * (1 + 1e-9)) + bool(feature.tolerance)
        return Axis(feature, columns, below[:-1], above[1:], reach)
    count = int(high - low) + 1 if feature.kind != "continuous" else 1
    if count > _MOST_VALUES:
        raise FairmendError(
            f'feature "{feature.name}" has {count:,} values; quantify takes at most {_MOST_VALUES:,}. '
            'Set kind = "continuous" in the spec.'
        )
    table = _encode(feature, low + np.arange(count, dtype=np.float64), network)
    reach = 0 if feature.protected else int(min(feature.reach, count))
    return Axis(feature, columns, table, table, reach, reach)


def _edges(low: float, high: float, cells: Ints) -> Floats:
    """Return where cells of a continuous feature begin; monotone, with both ends exact."""
    return np.where(cells == CELLS, high, np.minimum(low + (high - low) * (cells / CELLS), high))


def _encode(feature: Feature, values: Floats, network: Network) -> Floats:
    encoded: FloatArray = encode_values(feature, values).astype(network.dtype)
    return encoded.astype(np.float64)


def _columns(axes: Sequence[Axis]) -> Ints:
    return np.concatenate([np.arange(axis.columns.start, axis.columns.stop) for axis in axes])


def _count_parts(values: Sequence[int], most: int) -> list[int]:
    """Return into how many ranges the values of each protected feature are divided: one each if they are few."""
    parts = list(values)
    while math.prod(parts) > most:
        longest = int(np.argmax(parts))
        parts[longest] = (parts[longest] + 1) // 2
    return parts


def _divide(cells: int, count: int) -> list[tuple[int, int]]:
    edges = [cells * k // count for k in range(count + 1)]
    return [(start, end - 1) for start, end in pairwise(edges)]
