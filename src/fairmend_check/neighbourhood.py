"""The neighbourhood of an input, as docs/certificate.md defines it: for each column, which values it may take.

Values are numbers of the model's type. An `Axis` numbers those of one varying feature, in order, so that boxes become
boxes of whole numbers and coverage can be decided exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.spec import Feature, Spec

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_RELATIVE = 2.0**-20  # how far the scaling of x, if it was done in float32, may have moved a value
_SMALLEST = 2.0**-126


@dataclass(frozen=True, eq=False)
class Axis:
    """The values of one varying feature, for an input with the number ``x`` in its column.

    Of a feature with whole numbers they are e(v) for each v from ``lowest`` to ``highest``, numbered in order, and x in
    its place among them if it is none of them. A one-hot feature has its categories, in order. The values of a
    continuous feature are not numbered: they are all numbers of the type from ``low`` to ``high``.
    """

    feature: Feature
    column: int
    lowest: float
    highest: float
    x: float
    low: float
    high: float
    kind: np.dtype[np.floating]

    @cached_property
    def place_of_x(self) -> int | None:
        """The number of x among the values; None if it is e(v) for one of the whole numbers v."""
        place = self._count_below(self.x)
        return None if self.feature.one_hot or place < self._count_below(self.x, or_equal=True) else place

    @cached_property
    def count(self) -> int:
        """The number of values of a feature that is not continuous."""
        return int(self.highest) - int(self.lowest) + 1 + (self.place_of_x is not None)

    def numbers_within(self, lower: Array, upper: Array) -> tuple[Whole, Whole]:
        """Return the numbers of the first and the last value from lower to upper, each (boxes,)."""
        (lower, low), (upper, high) = (np.unique(ends, return_inverse=True) for ends in (lower, upper))
        start = np.array([self._count_below(bound) for bound in lower.tolist()], dtype=np.int64)
        end = np.array([self._count_below(bound, or_equal=True) for bound in upper.tolist()], dtype=np.int64) - 1
        if self.place_of_x is not None:
            start, end = start + (self.x < lower), end + (self.x <= upper)
        return start[low], end[high]

    def encoded(self, numbers: Whole) -> Array:
        """Return the values with these numbers."""
        place = self.place_of_x
        if place is None:
            return encode(self.feature, self.lowest + numbers.astype(np.float64), self.kind)
        values = np.minimum(self.lowest + (numbers - (numbers > place)), self.highest)
        return np.where(numbers == place, self.x, encode(self.feature, values.astype(np.float64), self.kind))

    def _count_below(self, bound: float, or_equal: bool = False) -> int:
        """Count the whole numbers v with e(v) below a bound, or equal to it: e is monotone."""
        offset, factor = self.feature.affine
        rounded = self.kind.type
        search = bisect_right if or_equal else bisect_left
        values = range(int(self.lowest), int(self.highest) + 1)
        return search(values, bound, key=lambda v: float(rounded((v - offset) / factor)))


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """An input x, the columns that keep its values, and an axis for each feature that varies."""

    x: Array
    fixed: NDArray[np.bool_]
    axes: tuple[Axis, ...]


def neighbourhood(spec: Spec, x: Array, dtype: str) -> Neighbourhood:
    """Return the neighbourhood of x (width,), which must be the encoding of a possible input."""
    kind = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        off = np.flatnonzero(x != x.astype(kind).astype(np.float64))
    if off.size:
        raise CheckError(
            f"input[{off[0]}] = {float(x[off[0]])!r} is not a {dtype} number, so it cannot be an input of the model"
        )
    fixed = np.ones(len(x), dtype=np.bool_)
    axes = []
    for feature, start in spec.columns():
        own = _own_value(feature, start, x)
        if feature.varies:
            fixed[start : start + feature.width] = False
            axes.append(_axis(feature, start, own, float(x[start]), kind))
    return Neighbourhood(x, fixed, tuple(axes))


def encode(feature: Feature, values: Array, kind: np.dtype[np.floating]) -> Array:
    """Return e(v), rounded to the model's type, as doubles."""
    offset, factor = feature.affine
    with np.errstate(all="ignore"):
        encoded: Array = ((values - offset) / factor).astype(kind).astype(np.float64)
    if not np.isfinite(encoded).all():
        raise CheckError(f'feature "{feature.name}": the encoded values do not fit {kind.name}')
    return encoded


def _own_value(feature: Feature, start: int, x: Array) -> float:
    """Return the value of x; refuse columns that are not the encoding of a value."""
    where = f'feature "{feature.name}" of the input'
    if feature.one_hot:
        group = x[start : start + feature.width]
        ones = np.flatnonzero(group)
        if not np.isin(group, (0.0, 1.0)).all() or len(ones) > 1 or (len(ones) == 0 and feature.dropped is None):
            raise CheckError(f"{where} is not one-hot: {group.tolist()[:10]}")
        if feature.dropped is None:
            return float(ones[0])
        dropped = feature.categories.index(feature.dropped)
        return float(ones[0] + (ones[0] >= dropped)) if len(ones) else float(dropped)
    offset, factor = feature.affine
    value = float(x[start]) * factor + offset
    nearest = min(max(value, feature.low), feature.high)
    nearest = float(round(nearest)) if feature.whole else nearest
    # x may have been scaled elsewhere, in float32: the neighbourhood then holds x beside the values of its spec.
    slack = _RELATIVE * (abs(nearest) + abs(offset)) + _SMALLEST * factor
    if not abs(value - nearest) <= slack:
        what = "is not a whole number" if feature.low <= value <= feature.high else "is outside its range"
        raise CheckError(f"{where} is {value:.10g}, which {what}; an input must belong to its own neighbourhood")
    return nearest


def _axis(feature: Feature, start: int, own: float, x: float, kind: np.dtype[np.floating]) -> Axis:
    lowest, highest = feature.low, feature.high
    if not feature.protected:
        lowest, highest = max(lowest, own - feature.reach), min(highest, own + feature.reach)
    low, high = encode(feature, np.array([lowest, highest], dtype=np.float64), kind).tolist()
    return Axis(feature, start, lowest, highest, x, min(low, x), max(high, x), kind)


def count_points(around: Neighbourhood) -> int:
    """Return the number of points of a neighbourhood, which must be finite."""
    for axis in around.axes:
        if not axis.feature.whole:
            raise CheckError(
                f'feature "{axis.feature.name}" is continuous, so the neighbourhood cannot be checked point by point'
            )
    return math.prod(axis.count for axis in around.axes)


def points(around: Neighbourhood, start: int, stop: int) -> Array:
    """Return points number start to stop of a finite neighbourhood (points, width)."""
    out = np.tile(around.x, (stop - start, 1))
    index = np.arange(start, stop, dtype=np.int64)
    for axis in reversed(around.axes):
        index, number = np.divmod(index, axis.count)
        if axis.feature.one_hot:
            out[:, axis.column : axis.column + axis.feature.width] = _one_hot(axis.feature, number)
        else:
            out[:, axis.column] = axis.encoded(number)
    return out


def _one_hot(feature: Feature, categories: Whole) -> Array:
    """Return the columns (points, width) of categories: 1 in their own column; a dropped category has none."""
    dropped = len(feature.categories) if feature.dropped is None else feature.categories.index(feature.dropped)
    out = np.zeros((len(categories), feature.width))
    rows = np.flatnonzero(categories != dropped)
    out[rows, (categories - (categories > dropped))[rows]] = 1.0
    return out
