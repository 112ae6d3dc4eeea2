"""Find the lowest and the highest score of each input over many points, computing only scores that can be one of them.

`search_points` computes all scores. `search_lines` takes points that lie on lines: it computes some of each line, and
the rest only of segments that can hold an extreme (`line_bounds`). Both find the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fairmend.auditing.later_layers import LaterLayers
from fairmend.auditing.line_bounds import LineGrid, SegmentBounds, line_grid
from fairmend.base.arrays import Bools, FloatArray, Ints

_SEGMENTS = 262_144  # segments of inputs whose bounds are kept at a time
_PROBE = 256  # inputs that show whether bounds pay
_WORTHWHILE = 0.6  # up to this share of all scores to compute, they do


class RunningExtremes:
    """The lowest and the highest score so far of each input: `lowest` and `highest` (inputs,)."""

    def __init__(self, inputs: int, dtype: npt.DTypeLike) -> None:
        self.lowest, self.highest = np.full(inputs, np.inf, dtype), np.full(inputs, -np.inf, dtype)

    def update(self, rows: slice | Ints, scores: FloatArray) -> None:
        """Take in scores (points, k) of some inputs."""
        self.lowest[rows] = np.minimum(self.lowest[rows], scores.min(axis=0))
        self.highest[rows] = np.maximum(self.highest[rows], scores.max(axis=0))


def search_points(
    layers: LaterLayers,
    base: FloatArray,
    tables: Sequence[FloatArray],
    found: RunningExtremes,
    rows: Ints | None = None,
) -> None:
    """Take in the scores of base (units, inputs) at all points of the tables, each (units, points).

    The inputs are all those of `found`, or its `rows` (inputs,).
    """
    for block in layers.scores(base, tables):
        found.update(block.inputs if rows is None else rows[block.inputs], block.scores)


def search_lines(
    layers: LaterLayers, base: FloatArray, tables: Sequence[FloatArray], lines: int, found: RunningExtremes
) -> None:
    """Do the same for points that are `lines` lines, one after another, and tables of all layers."""
    length = tables[0].shape[1] // lines
    grid = line_grid(length)
    bounds = SegmentBounds(layers.affines, grid)
    slack = bounds.slack(base, tables, lines)
    inputs = base.shape[1]
    coarse = [table.reshape(len(table), lines, length)[:, :, grid.values].reshape(len(table), -1) for table in tables]
    step = max(_PROBE, _SEGMENTS // (lines * len(grid.inner)))
    start, stop = 0, min(_PROBE, inputs)
    while start < inputs:
        rows = np.arange(start, stop)
        mine = base[:, start:stop]
        kept = _open_segments(layers, bounds, grid, mine, coarse, slack, found, rows)
        computed = coarse[0].shape[1] + np.vdot(kept.sum(axis=(0, 2)), grid.inner.sum(axis=1)) / len(rows)
        if computed > _WORTHWHILE * lines * length:
            search_points(layers, base[:, start:], tables, found, np.arange(start, inputs))
            return
        for who, points in _left_over(kept, grid):
            theirs = [np.take(table, points, axis=1) for table in tables]  # unlike table[:, points], in C order
            search_points(layers, np.take(mine, who, axis=1), theirs, found, rows[who])
        start, stop = stop, min(stop + step, inputs)


def _open_segments(
    layers: LaterLayers,
    bounds: SegmentBounds,
    grid: LineGrid,
    base: FloatArray,
    coarse: Sequence[FloatArray],
    slack: float,
    found: RunningExtremes,
    rows: Ints,
) -> Bools:
    """Return which segments may hold an extreme (lines, segments, inputs), and take in the scores of the grid."""
    inputs, points = base.shape[1], coarse[0].shape[1]
    scores, sums = np.empty((points, inputs), base.dtype), np.empty((2, points, inputs), base.dtype)
    # What the tables add to the activations: they hold -t, so it is taken away.
    added = np.sum([row @ table for row, table in zip(bounds.rows, coarse, strict=False)], axis=0)[:, :, None]
    for block in layers.scores(base, coarse, bounds.rows):
        scores[block.points, block.inputs] = block.scores
        np.subtract(block.sums, added[:, block.points], out=sums[:, block.points, block.inputs])
    found.update(rows, scores)
    shape = (-1, len(grid.values), inputs)
    lowest, highest = bounds.beyond(scores.reshape(shape), sums.reshape(2, *shape))
    closed = (lowest > found.lowest[rows] + slack) & (highest < found.highest[rows] - slack)
    return np.asarray(~closed)


def _left_over(kept: Bools, grid: LineGrid) -> Iterator[tuple[Ints, Ints]]:
    """Yield inputs and the points of theirs to compute, from the segments kept (lines, segments, inputs)."""
    lines, segments, inputs = kept.shape
    length = grid.inner.shape[1]
    if inputs >= lines * segments:
        for line in range(lines):
            for segment, inner in enumerate(grid.inner):
                who = np.flatnonzero(kept[line, segment])
                if len(who) and inner.any():
                    yield who, line * length + np.flatnonzero(inner)
        return
    for one in range(inputs):
        points = np.flatnonzero(kept[:, :, one] @ grid.inner)
        if len(points):
            yield np.array([one]), points
