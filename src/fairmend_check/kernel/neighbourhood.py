"""The neighbourhood of an input, as docs/certificate.md defines it: for each column, which values it may take.

Links make it a union of products: one for each combination of protected values to which the same links apply. So do
bands of categories whose numbers do not follow each other. Values are numbers of the model's type. An `Axis` numbers
those of one varying feature, in order. `batches` lists the boxes of many neighbourhoods.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import NotConfirmedError
from fairmend_check.kernel.features import Feature, Runs
from fairmend_check.kernel.links import Link
from fairmend_check.kernel.spec import Spec

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_RELATIVE = 2.0**-20  # how far the scaling of x, if it was done in float32, may have moved a value
_SMALLEST = 2.0**-126


@dataclass(frozen=True, eq=False)
class Axis:
    """Values of one feature: those from ``lowest`` to ``highest``, and the number ``x`` of the input unless it is None.

    Of a feature with whole numbers they are e(v) for each v from ``lowest`` to ``highest``, numbered in order, and x in
    its place among them if it is none of them. A one-hot feature has categories, in order. The values of a continuous
    feature are not numbered: they are all numbers of the type from ``low`` to ``high``.
    """

    feature: Feature
    column: int
    lowest: float
    highest: float
    x: float | None
    low: float
    high: float
    kind: np.dtype[np.floating]

    @cached_property
    def place_of_x(self) -> int | None:
        """The number of x among the values; None if it is e(v) for one of the whole numbers v."""
        if self.x is None or self.feature.one_hot:
            return None
        offset, factor = self.feature.affine
        nearest = min(max(round(self.x * factor + offset), int(self.lowest)), int(self.highest))
        if self._encoded(nearest) == self.x:
            return None
        place = self._count_below(self.x)
        return None if place < self._count_below(self.x, or_equal=True) else place

    @cached_property
    def count(self) -> int:
        """The number of values of a feature that is not continuous."""
        return int(self.highest) - int(self.lowest) + 1 + (self.place_of_x is not None)

    def encoded(self, numbers: Whole) -> Array:
        """Return the values with these numbers."""
        place = self.place_of_x
        if place is None or self.x is None:
            return encode(self.feature, self.lowest + numbers.astype(np.float64), self.kind)
        values = np.minimum(self.lowest + (numbers - (numbers > place)), self.highest)
        return np.where(numbers == place, self.x, encode(self.feature, values.astype(np.float64), self.kind))

    def _count_below(self, bound: float, or_equal: bool = False) -> int:
        """Count the whole numbers v with e(v) below a bound, or equal to it: e is monotone."""
        search = bisect_right if or_equal else bisect_left
        return search(range(int(self.lowest), int(self.highest) + 1), bound, key=self._encoded)

    def _encoded(self, value: float) -> float:
        """Return e(v)."""
        offset, factor = self.feature.affine
        return float(self.kind.type((value - offset) / factor))


@dataclass(frozen=True, eq=False)
class Product:
    """All inputs that have the values of x in some columns, and any combination of the values of the axes."""

    x: Array
    axes: tuple[Axis, ...]

    def count_boxes(self, each_whole: bool) -> int:
        """Return how many boxes it consists of: one for each combination of categories, or of whole numbers as well."""
        return math.prod(axis.count for axis in self.axes if _is_listed(axis, each_whole))


@dataclass(frozen=True)
class Cell:
    """Values from ``lowest`` to ``highest`` to which the same links apply; ``own`` if that of x is among them."""

    lowest: float
    highest: float
    own: bool

    def within(self, runs: Runs) -> bool:
        """Return whether all of its values are among these."""
        return any(low <= self.lowest and self.highest <= high for low, high in runs)


def neighbourhood(spec: Spec, x: Array, dtype: str) -> list[Product]:
    """Return the neighbourhood of x (width,), which must be the encoding of a possible input, as a union."""
    (found,) = neighbourhoods(spec, x[None], dtype)
    if isinstance(found, NotConfirmedError):
        raise found
    return found


def neighbourhoods(spec: Spec, X: Array, dtype: str) -> Iterator[list[Product] | NotConfirmedError]:
    """Return the neighbourhood of each row of X (inputs, width), or why the row is not the encoding of an input."""
    kind = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        wrong = (X.astype(kind).astype(np.float64) != X).any(axis=1)
    own = {}
    for feature, start in spec.columns():
        own[feature.name], strange = _own_values(feature, X[:, start : start + feature.width])
        wrong |= strange
    for row, x in enumerate(X):
        if wrong[row]:
            yield _refusal(spec, x, kind)
            continue
        try:
            yield _neighbourhood(spec, x, {name: float(values[row]) for name, values in own.items()}, kind)
        except NotConfirmedError as error:
            yield error


def _neighbourhood(spec: Spec, x: Array, own: Mapping[str, float], kind: np.dtype[np.floating]) -> list[Product]:
    places = spec.places
    parts = _parts(spec, x, own, kind)
    found: list[Product] = []
    for chosen in product(*parts.values()):
        cells = {name: cell for name, (cell, _) in zip(parts, chosen, strict=True)}
        linked = [
            [_axis(*places[name], low, high, None, kind) for low, high in values]
            for name, values in _linked_values(spec.links, cells, places, own, x, kind).items()
        ]
        found += [Product(x, (*(axis for _, axis in chosen), *others)) for others in product(*linked)]
    return found


def _parts(
    spec: Spec, x: Array, own: Mapping[str, float], kind: np.dtype[np.floating]
) -> dict[str, list[tuple[Cell, Axis]]]:
    """Return the values of each feature that varies by itself, in parts to which the same links apply."""
    runs: dict[str, list[Runs]] = {}
    for link in spec.links:
        for name, condition in link.when:
            runs.setdefault(name, []).append(condition)
    found = {}
    for feature in spec.varying:
        if feature.varies_by_itself:
            start = spec.places[feature.name][1]
            value, number = own[feature.name], float(x[start])
            room = feature.reach + own_error(feature, value, number, kind, feature.reach)
            lowest, highest = max(feature.low, value - room), min(feature.high, value + room)
            cells = [Cell(lowest, highest, True)]
            if feature.name in runs:
                cells = _cells(feature, value, runs[feature.name])
            elif feature.groups or (feature.bands and feature.whole):
                cells = [Cell(low, high, low <= value <= high) for low, high in feature.runs_around(value)]
            elif feature.bands:
                found[feature.name] = [_own_band(feature, start, value, number, kind)]
                continue
            axes = [
                _axis(feature, start, cell.lowest, cell.highest, number if cell.own else None, kind) for cell in cells
            ]
            if feature.name in runs and not feature.whole:  # the own value, which `_cells` gives first, is that in x
                axes[0] = replace(axes[0], low=number, high=number)
            found[feature.name] = [*zip(cells, axes, strict=True)]
    return found


def _own_band(feature: Feature, start: int, own: float, x: float, kind: np.dtype[np.floating]) -> tuple[Cell, Axis]:
    """Return the band of the number x of a continuous feature: from its lower end to the number below the next one."""
    ends = encode(feature, np.array(feature.bands), kind)
    band = max(int(np.count_nonzero(ends <= x)) - 1, 0)
    axis = _axis(feature, start, feature.bands[band], feature.high, x, kind)
    if band + 1 < len(ends):
        below = float(np.nextafter(kind.type(ends[band + 1]), kind.type(-np.inf)))
        axis = replace(axis, highest=feature.bands[band + 1], high=max(below, x))
    return Cell(own, own, True), axis


def _cells(feature: Feature, own: float, runs: Sequence[Runs]) -> list[Cell]:
    """Cut the values of a protected feature where they begin or cease to match a link, and around the own value.

    Those of a continuous feature are the own value first, and then closed cells. Each end is a cell as well: more links
    may apply to it than to either side of it.
    """
    if feature.whole:
        first = {low for each in runs for low, _ in each} | {own, feature.low}
        after = {high + 1 for each in runs for _, high in each} | {own + 1, feature.high + 1}
        return [Cell(low, end - 1, low == own) for low, end in pairwise(sorted(first | after))]
    ends = {end for each in runs for run in each for end in run}
    between = [Cell(low, high, False) for low, high in pairwise(sorted(ends | {feature.low, feature.high}))]
    return [Cell(own, own, True), *between, *(Cell(end, end, False) for end in sorted(ends - {own}))]


def _linked_values(
    links: Sequence[Link],
    cells: Mapping[str, Cell],
    places: Mapping[str, tuple[Feature, int]],
    own: Mapping[str, float],
    x: Array,
    kind: np.dtype[np.floating],
) -> dict[str, Runs]:
    """Return the values that the links set for people with protected values in these cells, by feature.

    A link does not apply to people who have the own values of x in all features of its `when`.
    """
    found = {}
    for link in links:
        applies = all(cells[name].within(runs) for name, runs in link.when)
        if applies and not all(cells[name].own for name, _ in link.when):
            for name, effect in link.then:
                feature, start = places[name]
                by = max(-effect.low, effect.high) if effect.kind == "offset" else 0.0
                error = own_error(feature, own[name], float(x[start]), kind, by)
                values = effect.values(feature, own[name], error)
                if values is not None:
                    found[name] = values
    return found


def encode(feature: Feature, values: Array, kind: np.dtype[np.floating]) -> Array:
    """Return e(v), rounded to the model's type, as doubles."""
    offset, factor = feature.affine
    with np.errstate(all="ignore"):
        encoded: Array = ((values - offset) / factor).astype(kind).astype(np.float64)
    if not np.isfinite(encoded).all():
        raise NotConfirmedError(f'feature "{feature.name}": the encoded values do not fit {kind.name}')
    return encoded


def _own_values(feature: Feature, columns: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the value of each input (inputs,), and where the columns (inputs, width) do not encode one."""
    if feature.one_hot:
        ones = np.count_nonzero(columns, axis=1)
        values = columns.argmax(axis=1)
        wrong = (np.isin(columns, (0.0, 1.0), invert=True)).any(axis=1) | (ones > 1)
        if feature.dropped is None:
            return values.astype(np.float64), wrong | (ones == 0)
        dropped = feature.categories.index(feature.dropped)
        return np.where(ones == 0, dropped, values + (values >= dropped)).astype(np.float64), wrong
    value = _decoded(feature, columns[:, 0])
    nearest = np.clip(value, feature.low, feature.high)
    nearest = np.round(nearest) if feature.whole else nearest
    with np.errstate(invalid="ignore"):
        return nearest, ~(np.abs(value - nearest) <= slack(feature, nearest))


def own_error(feature: Feature, value: float, x: float, kind: np.dtype[np.floating], by: float) -> float:
    """Return how far the value that was encoded as x may be from the value of x, and so may be what ``by`` is added to.

    That is half a unit in the last place of x, and 16 roundings in double precision. A whole number is the nearest one,
    unless that is half a unit or more.
    """
    offset, factor = feature.affine
    sizes = abs(value) + abs(offset) + min(by, feature.high - feature.low)
    error = 0.5 * float(np.spacing(kind.type(abs(x)))) * factor + 2.0**-49 * sizes
    return math.floor(error + 0.5) if feature.whole else error


def slack(feature: Feature, values: Array) -> Array:
    """Return how far from these values an input may be that was scaled elsewhere, in float32.

    The neighbourhood then holds x beside the values of its spec.
    """
    offset, factor = feature.affine
    return _RELATIVE * (np.abs(values) + abs(offset)) + _SMALLEST * factor


def _decoded(feature: Feature, column: Array) -> Array:
    offset, factor = feature.affine
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(column * factor + offset)


def _refusal(spec: Spec, x: Array, kind: np.dtype[np.floating]) -> NotConfirmedError:
    """Return why x (width,) is not the encoding of a possible input."""
    with np.errstate(over="ignore", under="ignore"):
        off = np.flatnonzero(x != x.astype(kind).astype(np.float64))
    if off.size:
        return NotConfirmedError(
            f"input[{off[0]}] = {float(x[off[0]])!r} is not a {kind.name} number, so it cannot be an input of the model"
        )
    feature, columns = next(
        (feature, x[start : start + feature.width])
        for feature, start in spec.columns()
        if _own_values(feature, x[None, start : start + feature.width])[1].any()
    )
    where = f'feature "{feature.name}" of the input'
    if feature.one_hot:
        return NotConfirmedError(f"{where} is not one-hot: {columns.tolist()[:10]}")
    value = float(_decoded(feature, columns)[0])
    what = "is not a whole number" if feature.low <= value <= feature.high else "is outside its range"
    return NotConfirmedError(f"{where} is {value:.10g}, which {what}; an input must belong to its own neighbourhood")


def _axis(
    feature: Feature, start: int, lowest: float, highest: float, x: float | None, kind: np.dtype[np.floating]
) -> Axis:
    low, high = encode(feature, np.array([lowest, highest], dtype=np.float64), kind).tolist()
    if x is not None:
        low, high = min(low, x), max(high, x)
    return Axis(feature, start, lowest, highest, x, low, high, kind)


def _is_listed(axis: Axis, each_whole: bool) -> bool:
    """Return whether each value of an axis has a box of its own."""
    return axis.feature.one_hot or (each_whole and axis.feature.whole)


def count_boxes(around: Sequence[Product], *, each_whole: bool) -> int:
    """Return the number of boxes of a neighbourhood; ``each_whole`` if every whole number has one of its own."""
    return sum(each.count_boxes(each_whole) for each in around)


def batches(around: Iterable[tuple[int, Sequence[Product], bool]], size: int) -> Iterator[tuple[Whole, Array, Array]]:
    """Return the boxes of numbered neighbourhoods, in batches of fewer than twice this size.

    With each comes whether every whole number has a box of its own. A batch has the number of each box (boxes,), and
    its lower and upper ends (boxes, width); where all features are whole, boxes may be single points.
    """
    waiting: list[tuple[Whole, Array, Array]] = []
    held = 0
    for number, products, each_whole in around:
        for each in products:
            count = each.count_boxes(each_whole)
            for start in range(0, count, size):
                lower, upper = _boxes(each, start, min(start + size, count), each_whole)
                waiting.append((np.full(len(lower), number), lower, upper))
                held += len(lower)
                if held >= size:
                    yield _concatenated(waiting)
                    waiting, held = [], 0
    if waiting:
        yield _concatenated(waiting)


def _concatenated(parts: Sequence[tuple[Whole, Array, Array]]) -> tuple[Whole, Array, Array]:
    owner, lower, upper = (np.concatenate(each) for each in zip(*parts, strict=True))
    return owner, lower, upper


def _boxes(each: Product, start: int, stop: int, each_whole: bool) -> tuple[Array, Array]:
    """Return boxes number start to stop of a product: lower and upper ends (boxes, width).

    There is a box for each combination of the values that are listed, in which all other axes run from end to end.
    """
    lower = np.tile(each.x, (stop - start, 1))
    index = np.arange(start, stop, dtype=np.int64)
    for axis in reversed([axis for axis in each.axes if _is_listed(axis, each_whole)]):
        index, number = np.divmod(index, axis.count)
        if axis.feature.one_hot:
            columns = slice(axis.column, axis.column + axis.feature.width)
            lower[:, columns] = encode_one_hot(axis.feature, number + int(axis.lowest))
        else:
            lower[:, axis.column] = axis.encoded(number)
    upper = lower.copy()
    for axis in each.axes:
        if not _is_listed(axis, each_whole):
            lower[:, axis.column], upper[:, axis.column] = axis.low, axis.high
    return lower, upper


def encode_one_hot(feature: Feature, categories: Whole) -> Array:
    """Return the columns (points, width) of categories: 1 in their own column; a dropped category has none."""
    dropped = len(feature.categories) if feature.dropped is None else feature.categories.index(feature.dropped)
    out = np.zeros((len(categories), feature.width))
    rows = np.flatnonzero(categories != dropped)
    out[rows, (categories - (categories > dropped))[rows]] = 1.0
    return out
