"""Whether boxes cover a neighbourhood of the checker, decided exactly in whole numbers: an oracle for tests.

Each axis numbers its possible values, and so boxes become boxes of whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.neighbourhood import Array, Axis, Product, Whole


def find_uncovered(around: Sequence[Product], lower: Array, upper: Array, dtype: str) -> str | None:
    """Describe a neighbour that no box lower..upper (boxes, width) contains; None if all are covered."""
    holes = (_find_uncovered(each, lower, upper, dtype) for each in around)
    return next((hole for hole in holes if hole is not None), None)


def _find_uncovered(each: Product, lower: Array, upper: Array, dtype: str) -> str | None:
    fixed = fixed_columns(each)
    x = each.x[fixed]
    inside = (lower[:, fixed] <= x) & (x <= upper[:, fixed])
    usable = inside.all(axis=1)
    if not usable.any():
        column = int(np.flatnonzero(fixed)[np.flatnonzero(~inside.any(axis=0))[:1]][:1].sum())
        return f"no piece contains the value of the input in column {column}, which does not vary"
    for axis in each.axes:
        usable &= _touches(axis, lower, upper)
    boxes = _whole_boxes(each, lower[usable], upper[usable], dtype)
    hole = _find_hole(*boxes)
    if hole is None:
        return None
    neighbour = [_describe_value(axis, number, dtype) for axis, number in zip(each.axes, hole, strict=True)]
    return f"no piece contains the neighbour with {', '.join(neighbour)}"


def fixed_columns(each: Product) -> NDArray[np.bool_]:
    """Return the columns that have the values of x (width,)."""
    fixed = np.ones(len(each.x), dtype=np.bool_)
    for axis in each.axes:
        fixed[axis.column : axis.column + axis.feature.width] = False
    return fixed


def _touches(axis: Axis, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """Return which boxes can hold a value of the axis: with links, most are there for other parts."""
    if not axis.feature.one_hot:
        return np.asarray((lower[:, axis.column] <= axis.high) & (axis.low <= upper[:, axis.column]))
    group = slice(axis.column, axis.column + axis.feature.width)
    held = _categories_within(axis, lower[:, group], upper[:, group])
    return np.asarray(held[:, int(axis.lowest) : int(axis.highest) + 1].any(axis=1))


def _whole_boxes(each: Product, lower: Array, upper: Array, dtype: str) -> tuple[Whole, Whole, list[tuple[int, int]]]:
    """Return the boxes in numbers of values: first and last (boxes, axes), and the extent of each axis.

    A box with several runs of categories of a one-hot feature becomes several.
    """
    which = np.arange(len(lower))
    first, last = np.empty((2, len(lower), len(each.axes)), dtype=np.int64)
    extents = []
    for k, axis in enumerate(each.axes):
        if not axis.feature.one_hot:
            start, end, extent = _numbers(axis, lower[:, axis.column], upper[:, axis.column], dtype)
            first[:, k], last[:, k] = start[which], end[which]
            extents.append(extent)
            continue
        group = slice(axis.column, axis.column + axis.feature.width)
        holds = np.pad(_categories_within(axis, lower[:, group], upper[:, group]), ((0, 0), (1, 1)))
        box, begin = np.nonzero(holds[:, 1:] & ~holds[:, :-1])
        _, end = np.nonzero(holds[:, :-1] & ~holds[:, 1:])
        runs = np.bincount(box, minlength=len(lower))
        copy = np.repeat(np.arange(len(which)), runs[which])
        within = np.arange(len(copy)) - np.repeat(np.cumsum(runs[which]) - runs[which], runs[which])
        which, first, last = which[copy], first[copy], last[copy]
        run = (np.cumsum(runs) - runs)[which] + within
        first[:, k], last[:, k] = begin[run], end[run] - 1
        extents.append((int(axis.lowest), int(axis.highest)))
    return first, last, extents


def _categories_within(axis: Axis, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """Return which categories (boxes, categories) lie in each box: 1 in their own column, 0 in the others."""
    zero, one = (lower <= 0) & (upper >= 0), (lower <= 1) & (upper >= 1)
    wrong = np.count_nonzero(~zero, axis=1)[:, None]
    holds = one & (wrong - ~zero == 0)
    if axis.feature.dropped is None:
        return np.asarray(holds)
    return np.insert(holds, axis.feature.categories.index(axis.feature.dropped), wrong[:, 0] == 0, axis=1)


def _numbers(axis: Axis, lower: Array, upper: Array, dtype: str) -> tuple[Whole, Whole, tuple[int, int]]:
    """Return the numbers of the first and last value in each box, and of the axis itself."""
    if axis.feature.whole:
        return *numbers_within(axis, lower, upper), (0, axis.count - 1)
    ends = _rank(np.array([axis.low, axis.high]), dtype)
    start = np.maximum(_rank(_inward(lower, dtype, np.inf), dtype), ends[0])
    end = np.minimum(_rank(_inward(upper, dtype, -np.inf), dtype), ends[1])
    return start, end, (int(ends[0]), int(ends[1]))


def numbers_within(axis: Axis, lower: Array, upper: Array) -> tuple[Whole, Whole]:
    """Return the numbers of the first and the last value from lower to upper, each (boxes,)."""
    (lower, low), (upper, high) = (np.unique(ends, return_inverse=True) for ends in (lower, upper))
    start = np.array([axis._count_below(bound) for bound in lower.tolist()], dtype=np.int64)
    end = np.array([axis._count_below(bound, or_equal=True) for bound in upper.tolist()], dtype=np.int64) - 1
    if axis.x is not None and axis.place_of_x is not None:
        start, end = start + (axis.x < lower), end + (axis.x <= upper)
    return start[low], end[high]


def _inward(values: Array, dtype: str, towards: float) -> NDArray[np.floating]:
    """Return the nearest number of the type on this side of each value."""
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(kind)
        beyond = rounded.astype(np.float64) < values if towards > 0 else rounded.astype(np.float64) > values
        return np.where(beyond, np.nextafter(rounded, kind(towards)), rounded)


def _rank(values: NDArray[np.floating], dtype: str) -> Whole:
    """Return whole numbers that count through all numbers of the type in order; both zeros are 0."""
    if dtype == "float32":
        with np.errstate(over="ignore", under="ignore"):
            bits = values.astype(np.float32).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    raw = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(raw < 0, -(raw & 0x7FFFFFFFFFFFFFFF), raw)


def _describe_value(axis: Axis, number: int, dtype: str) -> str:
    feature = axis.feature
    if feature.one_hot:
        return f"{feature.name} = {feature.categories[number]}"
    if feature.whole:
        encoded = float(axis.encoded(np.array([number]))[0])
    else:
        kind, sign = (np.uint32, 31) if dtype == "float32" else (np.uint64, 63)
        bits = kind(abs(number)) | (kind(1) << kind(sign) if number < 0 else kind(0))
        encoded = float(np.array([bits]).view(dtype)[0])
    offset, factor = feature.affine
    return f"{feature.name} = {encoded * factor + offset:.10g}"


def _find_hole(first: Whole, last: Whole, extents: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """Return a cell of the grid that is in none of the boxes; None if there is none.

    Split the grid along faces of the boxes until each part lies in one box, or in none.
    """
    low = np.array([extent[0] for extent in extents], dtype=np.int64)
    high = np.array([extent[1] for extent in extents], dtype=np.int64)
    left = [(low, high, np.flatnonzero((first <= last).all(axis=1)))]
    while left:
        low, high, boxes = left.pop()
        begin, end = first[boxes], last[boxes]
        touching = ((begin <= high) & (end >= low)).all(axis=1)
        boxes, begin, end = boxes[touching], begin[touching], end[touching]
        if not len(boxes):
            return tuple(int(number) for number in low)
        if ((begin <= low) & (end >= high)).all(axis=1).any():
            continue
        axis, cut = _cut(begin, end, low, high)
        below, above = high.copy(), low.copy()
        below[axis], above[axis] = cut - 1, cut
        left += [(low, below, boxes), (above, high, boxes)]
    return None


def _cut(begin: Whole, end: Whole, low: Whole, high: Whole) -> tuple[int, int]:
    """Return the axis and the first number of the upper part: a median face of the boxes that few boxes straddle."""
    faces = np.stack([begin, end + 1])  # (sides, boxes, axes); a part that is not in one of its boxes holds a face
    within = (faces > low) & (faces <= high)
    count = np.count_nonzero(within, axis=1)
    ordered = np.sort(np.where(within, faces, np.iinfo(np.int64).max), axis=1)
    cut = np.take_along_axis(ordered, count[:, None, :] // 2, axis=1)
    straddling = np.count_nonzero((begin < cut) & (end >= cut), axis=1)
    axis, side = divmod(int(np.where(count > 0, straddling, len(begin) + 1).T.argmin()), 2)
    return axis, int(cut[side, 0, axis])
