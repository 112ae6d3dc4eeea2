"""Find the lowest and the highest score of each input over many points, computing only scores that can be one of them.

`search_points` computes all scores. `search_lines` takes points that lie on lines: it computes some of each line, and
the rest only of segments that can hold an extreme. Both find the same numbers. `SegmentBounds` bounds the scores of a
ReLU network between two points of a line from the scores at its ends and in its middle.

The values of an integer feature lie on a line, along which a ReLU network is linear between few kinks. So of most parts
of the line, its ends and its middle show that no score between them is the lowest or the highest, and need no more.

With h a layer before its activation, the chord of h joins the values at the two ends of a segment. By layers, let

- h fall below its chord by at most d, and rise above it by at most u; in the first layer both are 0, up to rounding,
- gap be how far the activation r = relu(h) is below its own chord in the middle, which is computed.

ReLU is convex, so relu(chord of h) is below the chord of r by a tent that is 0 at both ends. A tent is at most 1/m
times its value in the middle, if the middle is at least the share m of the segment away from both ends. That value is
at most gap + u', where u' bounds how far h rises above its chord in the middle. Together, r falls below its chord by at
most D = d + (gap + u') / m, and rises above it by at most U = u. The next layer, with the positive part P and the
negative part N of its weight, has d = P D + N U and u = P U + N D, and in the middle u' = P u' + N (gap + u').

All this is linear in the gaps of the layers. So a segment costs no more than a product with one row for each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.auditing.later_layers import LaterLayers
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Affine

_SEGMENT = 16  # values in a segment, of which three are computed first
_ROUNDING = 1.001  # for the roundings of what is computed here in float64


@dataclass(frozen=True, eq=False)
class LineGrid:
    """Which values of a line are computed first: the ends of its segments, and their middles.

    Attributes
    ----------
    values : (2 segments + 1,), the ends and middles in turn
    share : (segments, 1), at which share of each segment its middle is
    step : (segments, 1), which share of it one value is
    inner : bool (segments, values of the line), the values of each segment that are left
    """

    values: Ints
    share: Floats
    step: Floats
    inner: Bools

    @property
    def tent(self) -> float:
        """How many times its value in the middle a tent over a segment can be."""
        return float(1 / np.minimum(self.share, 1 - self.share).min())


def line_grid(length: int) -> LineGrid:
    """Return the grid of a line with so many values, at least 3."""
    segments = max(1, round(length / _SEGMENT))
    values = np.round(np.linspace(0, length - 1, 2 * segments + 1)).astype(np.int64)
    ends, middles = values[::2], values[1::2]
    place = np.arange(length)
    inner = (place > ends[:-1, None]) & (place < ends[1:, None]) & (place != middles[:, None])
    lengths = np.diff(ends)[:, None]
    return LineGrid(values, (middles - ends[:-1])[:, None] / lengths, 1 / lengths, inner)


class SegmentBounds:
    """How far scores can be beyond those at the ends of a segment.

    Attributes
    ----------
    rows : for each layer but the last (2, units): what its activations are multiplied by. The sums over the layers, in
        the middle of a segment less than their chord by so much, bound how far scores are below and above their chord.
    """

    def __init__(self, affines: Sequence[Affine], grid: LineGrid) -> None:
        """Prepare the rows for the layers of a network with one output."""
        self._affines, self._grid = affines, grid
        self._weights = [affine.weight.astype(np.float64) for affine in affines]
        sides = [self._trace_back(sign, grid.tent) for sign in (1.0, -1.0)]
        self._exact = [np.stack(rows) for rows in zip(*(rows for rows, _ in sides), strict=True)]
        self._bent = np.stack([bent for _, bent in sides])
        self.rows = [rows.astype(affines[0].weight.dtype) for rows in self._exact]

    def _trace_back(self, sign: float, tent: float) -> tuple[list[Floats], Floats]:
        """Return the factors of each layer's gaps in how far the output times `sign` falls below its chord.

        The second value is the factor of what the first layer itself is off its chord.
        """
        fall, rise = (np.maximum(side * self._weights[-1][0], 0.0) for side in (sign, -sign))
        middle_gap, middle_rise = np.zeros_like(fall), np.zeros_like(fall)
        rows: list[Floats] = []
        for weight in self._weights[-2::-1]:
            gap = tent * fall + middle_gap
            middle_rise = middle_rise + gap
            rows.insert(0, gap)
            if len(rows) == len(self._weights) - 1:
                break
            more, less = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
            fall, rise = fall @ more + rise @ less, rise @ more + fall @ less
            middle_rise, middle_gap = middle_rise @ more, middle_rise @ less
        return rows, fall + rise + middle_rise + middle_gap

    def beyond(self, scores: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return below and above which no score inside of each segment is (lines, segments, inputs), but for `slack`.

        `scores` (lines, grid, inputs) and `sums` (2, lines, grid, inputs) are those at the values of the grid.
        """
        share, step = self._grid.share.astype(scores.dtype), self._grid.step.astype(scores.dtype)
        first, middle, last = sums[:, :, :-1:2], sums[:, :, 1::2], sums[:, :, 2::2]
        below, above = first + share * (last - first) - middle
        first, last = scores[:, :-1:2], scores[:, 2::2]
        inwards = step * (last - first)  # the values inside are at least one step away from the ends
        ends = first + inwards, last - inwards
        return np.minimum(*ends) - below, np.maximum(*ends) + above

    def slack(self, base: FloatArray, tables: Sequence[FloatArray], lines: int) -> float:
        """Return by how much rounding can bring a score inside of a segment past `beyond`; infinite if that is unknown.

        `base` (units, inputs) and `tables`, each (units, points) with `lines` lines after one another, are those of
        `shifted_tables`. They are taken as exact: which scores are computed, and so which one is the lowest, depends on
        nothing else. By layers, `size` bounds the numbers that are multiplied and `error` how far they are off.
        """
        unit, tiny = float(np.finfo(base.dtype).eps) / 2, float(np.finfo(base.dtype).tiny)
        bend = self._bend(tables[0].astype(np.float64).reshape(len(base), lines, -1))
        size = np.maximum(np.abs(base).max(axis=1), np.abs(tables[0]).max(axis=1)).astype(np.float64)
        error, total = np.zeros_like(size), self._bent @ bend
        for rows, weight, table in zip(self._exact, self._weights[1:], tables[1:], strict=True):
            terms = weight.shape[1] + 2
            # A sum has so many terms, and what the table adds; the chord less the middle has two sums, and rounds them.
            total += 2 * (rows @ (error + (terms + 12) * unit * size)) + terms * tiny
            largest = np.abs(table).max(axis=1).astype(np.float64)
            error = np.abs(weight) @ (error + terms * unit * size) + 2 * unit * largest + terms * tiny
            size = np.maximum((np.abs(weight) @ size) * (1 + terms * unit), largest)
        # The score inside and those at the ends are off by `error`, and what is computed from these rounds a few times.
        slack = _ROUNDING * (float(total.max()) + 2 * float(error[0]) + 8 * unit * float(size[0]))
        return slack if np.isfinite(slack) else np.inf

    def _bend(self, table: Floats) -> Floats:
        """Return how far a table (units, lines, values) is off its chords (units,); 0 but for rounding."""
        bend = np.zeros(len(table))
        ends = self._grid.values[::2]
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            share = np.arange(last - first + 1) / (last - first)
            low, high = table[:, :, first, None], table[:, :, last, None]
            off = np.abs(table[:, :, first : last + 1] - (low + share * (high - low)))
            np.maximum(bend, off.max(axis=(1, 2)), out=bend)
        return np.asarray(bend + 1e-15 * np.abs(table).max(axis=(1, 2)))


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
