"""Whether boxes cover a neighbourhood, decided exactly in whole numbers: each axis numbers its possible values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend_check.neighbourhood import Array, Axis, Neighbourhood, corners

Whole = NDArray[np.int64]

MAX_CELLS = 200_000


def find_uncovered(around: Neighbourhood, lower: Array, upper: Array, dtype: str) -> str | None:
    """Describe a neighbour that no box lower..upper (boxes, width) contains; None if all are covered."""
    fixed = around.fixed
    x = around.x[fixed]
    inside = (lower[:, fixed] <= x) & (x <= upper[:, fixed])
    usable = inside.all(axis=1)
    if not usable.any():
        column = int(np.flatnonzero(fixed)[np.flatnonzero(~inside.any(axis=0))[:1]][:1].sum())
        return f"no piece contains the value of the input in column {column}, which does not vary"
    lower, upper = lower[usable], upper[usable]
    first: list[Whole] = []
    last: list[Whole] = []
    extents: list[tuple[int, int]] = []
    which = np.arange(len(lower))
    for axis in around.axes:
        if axis.feature.one_hot:
            # A box may hold several categories; a copy of it for each keeps every copy a box of whole numbers.
            group = slice(axis.column, axis.column + axis.feature.width)
            possible = corners(axis.feature)
            inside = (lower[:, None, group] <= possible) & (possible <= upper[:, None, group])
            holds = np.asarray(inside.all(axis=2))
            box, category = np.nonzero(holds[which])
            which = which[box]
            first = [*(column[box] for column in first), category]
            last = [*(column[box] for column in last), category]
            extents.append((0, len(possible) - 1))
        else:
            start, end, extent = _numbered(axis, lower[:, axis.column], upper[:, axis.column], dtype)
            first.append(start[which])
            last.append(end[which])
            extents.append(extent)
    if not around.axes:
        return None
    corner = _find_hole(np.stack(first, axis=1), np.stack(last, axis=1), extents)
    if corner is None:
        return None
    if not corner:
        return "there are too many pieces to decide whether they cover the neighbourhood"
    neighbour = [_describe_value(axis, number, dtype) for axis, number in zip(around.axes, corner, strict=True)]
    return f"no piece contains the neighbour with {', '.join(neighbour)}"


def _numbered(axis: Axis, lower: Array, upper: Array, dtype: str) -> tuple[Whole, Whole, tuple[int, int]]:
    """Return the numbers of the first and last value in each box, and of the axis itself."""
    if axis.values is not None:
        start = np.searchsorted(axis.values, lower, side="left")
        end = np.searchsorted(axis.values, upper, side="right") - 1
        return start.astype(np.int64), end.astype(np.int64), (0, len(axis.values) - 1)
    ends = _rank(np.array([axis.low, axis.high]), dtype)
    start = np.maximum(_rank(_inward(lower, dtype, np.inf), dtype), ends[0])
    end = np.minimum(_rank(_inward(upper, dtype, -np.inf), dtype), ends[1])
    return start, end, (int(ends[0]), int(ends[1]))


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
    if axis.values is not None:
        encoded = float(axis.values[number])
    else:
        kind, sign = (np.uint32, 31) if dtype == "float32" else (np.uint64, 63)
        bits = kind(abs(number)) | (kind(1) << kind(sign) if number < 0 else kind(0))
        encoded = float(np.array([bits]).view(dtype)[0])
    offset, factor = feature.affine
    return f"{feature.name} = {encoded * factor + offset:.10g}"


def _find_hole(first: Whole, last: Whole, extents: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """Return a cell of the grid that is in none of the boxes; None if there is none, () after too many steps.

    Split the grid along faces of the boxes until each part lies in one box, or in none.
    """
    low = np.array([extent[0] for extent in extents], dtype=np.int64)
    high = np.array([extent[1] for extent in extents], dtype=np.int64)
    left = [(low, high, np.flatnonzero((first <= last).all(axis=1)))]
    for _ in range(MAX_CELLS):
        if not left:
            return None
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
    return ()


def _cut(begin: Whole, end: Whole, low: Whole, high: Whole) -> tuple[int, int]:
    """Return the axis and the first number of the upper part: a median face of the boxes that few boxes straddle."""
    best: tuple[int, int, int] | None = None
    for axis in range(len(low)):
        for faces in (begin[:, axis], end[:, axis] + 1):
            within = np.sort(faces[(faces > low[axis]) & (faces <= high[axis])])
            if len(within):
                cut = int(within[len(within) // 2])
                straddling = int(np.count_nonzero((begin[:, axis] < cut) & (end[:, axis] >= cut)))
                if best is None or straddling < best[0]:
                    best = (straddling, axis, cut)
    assert best is not None  # a box that touches the part and does not hold it has a face in it
    return best[1], best[2]
