"""The people that a spec allows, protected features aside: boxes of their values, and how large these are.

Each unprotected feature is an `Axis`: a row of *cells* of equal weight. A cell of an integer or categorical feature is
one value; the range of a continuous one is divided into many. A box is a range of cells on every axis. The *share* of a
box is the product of the shares of its ranges. If links depend on a protected feature, people's own values of it make
an axis as well, because a link does not apply to those who have them already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import DTypeLike

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.quantifying.cases import Cases, linked_hulls
from fairmend.quantifying.linked import WHOLE, SpaceLinks, make_links
from fairmend.spec import Feature, Spec
from fairmend.spec.encoding import encode_values

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
        return self.feature.one_hot or self.low.shape[1] > 1

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
    """The axes of people, and pieces that contain every combination of protected values.

    ``free`` are the unprotected features in the columns of inputs, ``protected`` the protected ones. ``axes`` are the
    free ones in columns of people, which are the same except for links: a linked category has a column for each
    category behind those of the inputs, and people's own values of features that links depend on follow with a column
    that is always 0. ``width`` is the number of these columns.

    ``first`` and ``last (pieces, protected axes)`` are the cells of each piece, and ``choice (pieces, linked axes)`` is
    which value of a link it has. Each protected feature is divided into ``parts``, and where a link begins and ends.
    """

    spec: Spec
    axes: tuple[Axis, ...]
    free: tuple[Axis, ...]
    protected: tuple[Axis, ...]
    first: Ints
    last: Ints
    choice: Ints
    parts: tuple[int, ...]
    links: SpaceLinks | None = None
    width: int = 0

    @cached_property
    def columns(self) -> Ints:
        """The columns of the protected features."""
        return _columns(self.protected)

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return len(self.first)

    @property
    def single(self) -> bool:
        """Whether each piece is one combination of protected values."""
        return bool((self.first == self.last).all())

    @cached_property
    def _variant_sizes(self) -> list[int]:
        """The number of values of each protected feature, and of those that links give for each linked one."""
        linked = () if self.links is None else self.links.axes
        return [axis.cells for axis in self.protected] + [each.choices for each in linked]

    @cached_property
    def _variants(self) -> Ints:
        """Protected values and choices, all or those of a grid if many."""
        counts = _count_parts(self._variant_sizes, MOST_COMBINATIONS)
        ranges = [np.linspace(0, size - 1, n).round() for size, n in zip(self._variant_sizes, counts, strict=True)]
        return np.array(list(product(*ranges)), np.int64)

    @property
    def values(self) -> Ints:
        """Combinations of protected values ``(combinations, protected axes)``: all, or those of a grid if many.

        With links, a combination comes once for each of the `value_choices`.
        """
        return self._variants[:, : len(self.protected)]

    @property
    def value_choices(self) -> Ints:
        """Which of the values that links give each combination has ``(combinations, linked axes)``."""
        return self._variants[:, len(self.protected) :]

    @cached_property
    def finite(self) -> bool:
        """Whether each cell is one person, so that everyone who is similar can be listed."""
        exact = all(np.array_equal(axis.low, axis.high) for axis in (*self.free, *self.protected))
        # The own value of a continuous feature counts as changed and as unchanged.
        return exact and (self.links is None or all(axis.feature.kind != "continuous" for axis in self.protected))

    @cached_property
    def combinations(self) -> int:
        """The number of all combinations of protected values, with every value that links give."""
        return math.prod(self._variant_sizes)

    @cached_property
    def all_values(self) -> tuple[Ints, Ints]:
        """All combinations, however many, as `values` and `value_choices` have some of them."""
        found = np.stack(np.unravel_index(np.arange(self.combinations), self._variant_sizes), axis=1)
        return found[:, : len(self.protected)], found[:, len(self.protected) :]

    def people(self, cells: Ints, values: Ints, dtype: DTypeLike, choices: Ints | None = None) -> FloatArray:
        """Return people in cells ``(n, axes)``, each with all of these protected values: ``(n * values, width)``.

        With links, each of the values goes with one of the choices, which are `value_choices` unless others are given.
        """
        if self.links is not None:
            chosen = self.value_choices if choices is None else choices
            cases = Cases(*(np.tile(each, (len(cells), 1)) for each in (values, values, chosen)))
            found: FloatArray = self.hulls(Boxes(cells, cells), cases, similar=False)[0].astype(dtype)
            return found
        X = np.zeros((len(cells), len(values), self.spec.width), dtype)
        for k, axis in enumerate(self.free):
            X[:, :, axis.columns] = axis.low[cells[:, k]][:, None]
        for k, axis in enumerate(self.protected):
            X[:, :, axis.columns] = axis.low[values[:, k]]
        return X.reshape(-1, self.spec.width)

    def matters(self, network: Network) -> bool:
        """Return whether the network reads any column in which similar people differ."""
        linked = () if self.links is None else tuple(each.axis for each in self.links.axes)
        varying = (*self.protected, *(axis for axis in self.free if axis.reach), *linked)
        return bool(network.read_columns[_columns(varying)].any())

    def root(self) -> Boxes:
        """Return the box of all people."""
        return Boxes(np.zeros((1, len(self.axes)), np.int64), np.array([[axis.cells - 1 for axis in self.axes]]))

    def shares(self, boxes: Boxes) -> Floats:
        """Return the share of each box ``(n,)``, with a relative error of at most 2·axes roundings."""
        sizes = np.array([axis.cells for axis in self.axes], np.float64)
        return np.asarray(np.prod((boxes.last - boxes.first + 1) / sizes, axis=1))

    def hull(self, boxes: Boxes, *, similar: bool) -> tuple[Floats, Floats]:
        """Return the columns of boxes ``(n, inputs)``, protected ones 0; with ``similar``, within tolerances."""
        return self._hull_of(self.free, self.spec.width, boxes, similar)

    def person_hull(self, boxes: Boxes) -> tuple[Floats, Floats]:
        """Return the columns of people in boxes ``(n, width)``, protected ones 0."""
        return self._hull_of(self.axes, self.width, boxes, similar=False)

    def _hull_of(self, axes: Sequence[Axis], width: int, boxes: Boxes, similar: bool) -> tuple[Floats, Floats]:
        lower, upper = np.zeros((2, len(boxes), width))
        for k, axis in enumerate(axes):
            first, last = boxes.first[:, k], boxes.last[:, k]
            if similar and axis.reach:
                first, last = np.maximum(first - axis.reach, 0), np.minimum(last + axis.reach, axis.cells - 1)
            lower[:, axis.columns], upper[:, axis.columns] = axis.hull(first, last)
        return lower, upper

    def cases(self, boxes: Boxes) -> Cases:
        """Return all pieces of each box."""
        return Cases(*(np.tile(each, (len(boxes), 1)) for each in (self.first, self.last, self.choice)))

    def hulls(self, boxes: Boxes, cases: Cases, *, similar: bool = True) -> tuple[Floats, Floats]:
        """Return the columns of inputs in each case of each box: ``(rows, inputs)``."""
        count = len(cases.first) // len(boxes)
        low, high = (np.repeat(end, count, axis=0) for end in self.hull(boxes, similar=similar))
        for k, axis in enumerate(self.protected):
            low[:, axis.columns], high[:, axis.columns] = axis.hull(cases.first[:, k], cases.last[:, k])
        linked_hulls(self, boxes, cases, low, high)
        return low, high


def make_space(network: Network, spec: Spec, pieces: int | None = None) -> Space:
    """Return the space of a spec, in the precision of the network, with at most so many pieces of protected values.

    Without a number, there is a piece for each combination if they are few, else few ranges: bounds over more of them
    are tighter, but take more time than they are worth. Links divide them further.
    """
    read = network.read_columns
    axes = [_axis(feature, spec.columns(feature.name), network) for feature in spec.features]
    protected = tuple(axis for axis in axes if axis.feature.protected)
    free = tuple(axis for axis in axes if not axis.feature.protected)
    named = {name for link in spec.links for name in link.when}
    own = [k for k, axis in enumerate(protected) if axis.feature.name in named]
    links = make_links(spec.links, free, protected, own, network.dtype) if spec.links else None
    values = [axis.cells if axis.feature.name in named or read[axis.columns].any() else 1 for axis in protected]
    if pieces is None:
        pieces = _FEW_VALUES if math.prod(values) <= _FEW_VALUES else _RANGES
    parts = _count_parts(values, pieces)
    cuts = {} if links is None else links.cuts
    ranges = [_divide(axis.cells, parts[k], cuts.get(k, set())) for k, axis in enumerate(protected)]
    ends = np.array(list(product(*ranges)), np.int64)
    first, last, choice = _with_choices(links, ends[:, :, 0], ends[:, :, 1])
    people, width = _person_axes(spec.width, free, [protected[k] for k in own], links)
    return Space(spec, people, free, protected, first, last, choice, tuple(parts), links, width)


def _with_choices(links: SpaceLinks | None, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    """Return pieces once for each choice of categories that links give there; all at once if they are too many."""
    if links is None:
        return first, last, np.zeros((len(first), 0), np.int64)
    found: list[tuple[int, tuple[int, ...]]] = []
    for row in range(len(first)):
        one = first[row : row + 1], last[row : row + 1]
        choices = []
        for each in links.axes:
            matching = [change.choices for change in each.changes if links.may_match(change.link, *one)[0]]
            several = max(matching, default=1) > 1 and bool(each.axis.feature.categories)
            choices.append(range(max(matching)) if several else [WHOLE])
        if len(found) + math.prod(map(len, choices)) > MOST_COMBINATIONS:
            return first, last, np.full((len(first), len(links.axes)), WHOLE)
        found += [(row, choice) for choice in product(*choices)]
    rows = [row for row, _ in found]
    return first[rows], last[rows], np.array([choice for _, choice in found], np.int64)


def _person_axes(
    width: int, free: Sequence[Axis], own: Sequence[Axis], links: SpaceLinks | None
) -> tuple[tuple[Axis, ...], int]:
    """Return the axes of people, and the number of their columns."""
    axes = list(free)
    for each in () if links is None else links.axes:
        if each.axis.feature.categories:
            cells = each.axis.cells
            axes[each.number] = Axis(each.axis.feature, slice(width, width + cells), *(np.eye(cells),) * 2)
            width += cells
    for axis in own:
        axes.append(Axis(axis.feature, slice(width, width + 1), *(np.zeros((axis.cells, 1)),) * 2))
        width += 1
    return tuple(axes), width


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


def _divide(cells: int, count: int, cuts: set[int]) -> list[tuple[int, int]]:
    edges = sorted({cells * k // count for k in range(count + 1)} | cuts)
    return [(start, end - 1) for start, end in pairwise(edges)]
