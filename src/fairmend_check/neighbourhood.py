"""The neighbourhood of an input, as docs/certificate.md defines it: for each column, which values it may take.

Values are numbers of the model's type. An `Axis` numbers those of one varying feature, in order, so that boxes become
boxes of whole numbers and coverage can be decided exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.spec import Feature, Spec

Array = NDArray[np.float64]

MAX_LISTED = 1_000_000  # longer lists of whole numbers are treated as intervals, which asks for more
_RELATIVE = 2.0**-20  # how far the scaling of x, if it was done in float32, may have moved a value
_SMALLEST = 2.0**-126


@dataclass(frozen=True, eq=False)
class Axis:
    """The values of one varying feature.

    ``values`` lists them in order where they are whole numbers or categories; else they are all numbers of the type
    from ``low`` to ``high``. A one-hot feature has its categories' numbers as values.
    """

    feature: Feature
    column: int
    low: float
    high: float
    values: Array | None


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


def corners(feature: Feature) -> Array:
    """Return the columns of each category of a one-hot feature: 1 in its own column; a dropped category has none."""
    square = np.eye(len(feature.categories))
    return square if feature.dropped is None else np.delete(square, feature.categories.index(feature.dropped), axis=1)


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
    if feature.one_hot:
        return Axis(feature, start, 0.0, feature.high, np.arange(len(feature.categories), dtype=np.float64))
    lowest, highest = feature.low, feature.high
    if not feature.protected:
        lowest, highest = max(lowest, own - feature.reach), min(highest, own + feature.reach)
    ends = encode(feature, np.array([lowest, highest], dtype=np.float64), kind)
    values = None
    if feature.whole and highest - lowest < MAX_LISTED:
        steps = np.arange(int(lowest), int(highest) + 1, dtype=np.float64)
        values = np.unique(np.append(encode(feature, steps, kind), x))
    return Axis(feature, start, min(float(ends[0]), x), max(float(ends[1]), x), values)


def listed(around: Neighbourhood) -> tuple[list[Axis], int]:
    """Return the axes and the number of points of a neighbourhood that is finite and listed."""
    count = 1
    for axis in around.axes:
        if axis.values is None:
            why = "is continuous" if not axis.feature.whole else "has too many values"
            raise CheckError(
                f'feature "{axis.feature.name}" {why}, so the neighbourhood cannot be checked point by point'
            )
        count *= len(axis.values)
    return list(around.axes), count


def points(around: Neighbourhood, start: int, stop: int) -> Array:
    """Return points number start to stop of a listed neighbourhood (points, width)."""
    axes, _ = listed(around)
    out = np.tile(around.x, (stop - start, 1))
    index = np.arange(start, stop, dtype=np.int64)
    for axis in reversed(axes):
        assert axis.values is not None
        index, digit = np.divmod(index, len(axis.values))
        if axis.feature.one_hot:
            out[:, axis.column : axis.column + axis.feature.width] = corners(axis.feature)[digit]
        else:
            out[:, axis.column] = axis.values[digit]
    return out
