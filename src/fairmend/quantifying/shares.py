"""The share of a box in which a linear form lies between two numbers: the terms of each axis, counted by `count`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.bounds.enclosure import TINY
from fairmend.quantifying.count import Line, Terms, distribution
from fairmend.quantifying.sides import Threshold
from fairmend.quantifying.space import Axis, Boxes, Space

_SEGMENTS = 128  # of a feature in a box; more values are counted in groups, or as a line
_ROUGHNESS = 24  # how many bins the part that stays open should be wide at least
_LEAST_BINS = 64
_PRECISE = 512  # bins from which on groups of values would be too rough
_TOGETHER = 64  # boxes that are counted at once


def count_share(
    space: Space, boxes: Boxes, threshold: Threshold, slab: Floats, bins: int, high: Floats | None = None
) -> Floats:
    """Return a lower bound of the share of each box with values of g above the threshold, and below ``high``.

    ``slab`` is how much of g stays open in each box, whatever is counted: more precision than that is of no use.
    """
    share = np.zeros(len(boxes))
    g, end = threshold.g, np.full(len(boxes), np.inf) if high is None else high
    for count, part in _batches(boxes, spread(space, boxes, g) / np.maximum(slab, TINY), bins):
        some = boxes.take(part)
        kept = _long_axis(space, some, g[part]) if count >= _PRECISE else None
        terms = [
            _axis_terms(axis, some.first[:, k], some.last[:, k], g[part], max(_SEGMENTS, count // 4))
            for k, axis in enumerate(space.axes)
            if k != kept
        ]
        line = None if kept is None else _line(space.axes[kept], some.first[:, kept], some.last[:, kept], g[part])
        share[part] = distribution(terms, count, line).between(threshold.value[part], end[part])
    return share


def _long_axis(space: Space, boxes: Boxes, g: Floats) -> int | None:
    """Return the axis with the most cells in any box, if they are many and g is not 0 there."""
    sizes = (boxes.last - boxes.first + 1).max(axis=0)
    for k in np.argsort(-sizes):
        axis = space.axes[k]
        if sizes[k] > _SEGMENTS and not axis.one_hot and axis.line[1] > 0 and np.all(g[:, axis.columns] != 0):
            return int(k)
    return None


def _line(axis: Axis, first: Ints, last: Ints, g: Floats) -> Line:
    """Return the terms of g on an axis with many cells."""
    start, step, off = axis.line
    slope = g[:, axis.columns][:, 0]
    room = 1e-14 * (abs(start) + step * axis.cells)
    count = (last - first + 1).astype(np.float64)
    return Line(slope * (start + step * first), slope * step, np.abs(slope) * (off + room), count)


def may_exceed(space: Space, boxes: Boxes, threshold: Threshold) -> Bools:
    """Return whether anyone in a box may be above the threshold, but for rounding."""
    lower, upper = space.person_hull(boxes)
    most = np.maximum(threshold.g * lower, threshold.g * upper).sum(axis=1)
    return np.asarray(most > threshold.value)


def spread(space: Space, boxes: Boxes, g: Floats) -> Floats:
    """Return roughly how far apart the values of g are in each box."""
    lower, upper = space.person_hull(boxes)
    return np.asarray((np.abs(g) * (upper - lower)).sum(axis=1))


def _batches(boxes: Boxes, ratio: Floats, most: int) -> Iterator[tuple[int, Ints]]:
    """Return numbers of bins, and the boxes that need them: more, where bins would be wide beside the slab.

    Boxes of similar sizes are counted together, because all have as many terms as the largest one.
    """
    needed = np.exp2(np.ceil(np.log2(np.clip(_ROUGHNESS * ratio, _LEAST_BINS, most)))).astype(np.int64)
    order = np.lexsort((np.log2(boxes.last - boxes.first + 1.0).sum(axis=1), needed))
    for start in range(0, len(order), _TOGETHER):
        part = order[start : start + _TOGETHER]
        yield int(needed[part].max()), part


def _axis_terms(axis: Axis, first: Ints, last: Ints, g: Floats, most: int) -> Terms:
    """Return the terms of g on one axis, in segments of cells."""
    size = (last - first)[:, None] + 1
    segments = min(most, int(size.max()))
    edges = first[:, None] + size * np.arange(segments + 1) // segments
    start, end = edges[:, :-1], edges[:, 1:]
    weight = (end - start) / size
    stop = np.minimum(np.maximum(end - 1, start), axis.cells - 1)
    start = np.minimum(start, axis.cells - 1)
    A = g[:, axis.columns]
    if not axis.one_hot:
        ends = A * axis.low[start, 0], A * axis.high[stop, 0]
        return Terms(np.minimum(*ends), np.maximum(*ends), weight)
    if segments < int(size.max()):  # a group of categories
        values = A @ axis.low.T
        groups = np.arange(axis.cells)
        among = (groups >= start[:, :, None]) & (groups <= stop[:, :, None])
        low = np.where(among, values[:, None], np.inf).min(axis=2)
        return Terms(low, np.where(among, values[:, None], -np.inf).max(axis=2), weight)
    term = np.take_along_axis(A @ axis.low.T, start, axis=1)
    return Terms(term, term, weight)
