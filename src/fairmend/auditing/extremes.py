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

`LaterLayers` evaluates a network with one output from its first layer on, at many points of many inputs. The first
layer of an input, at a point of its neighbourhood, is the sum of a base, which depends on the input, and of a table,
which depends on the point. Only the later layers run for every input and point.

For ReLU, relu(b + t) = max(b, -t) + t spares half of the work: the max is one pass instead of two, and what the t adds
to the next layer is a table again, with one column for each point and shared by all inputs (`shifted_tables`).

This is where the audit depends on the network being a chain of affine and activation layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Affine, Network

# Multiplications in one product: below the number at which BLAS starts threads. Products for one block, and numbers in
# one buffer: small enough for the cache.
_PRODUCTS, _PER_BLOCK, _NUMBERS = 500_000, 4, 131_072
_ROWS = 256  # inputs in a block, or more of few points: enough for long inner loops
# Columns of a product come in multiples of the first number, and not more than the second. BLAS rounds columns that are
# left at the end, and those of wider products, differently: a score would depend on which others are computed with it.
# OpenBLAS without AVX-512 does that in float32 all the same. Scores then differ in their last bits, within their error.
_COLUMNS, _MOST_COLUMNS = 64, 16_384


class LaterLayers:
    """The layers after the first, for blocks of inputs and points."""

    def __init__(self, net: Network) -> None:
        """Prepare the buffers."""
        self.affines: Sequence[Affine] = net.affines
        self._activations = net.activations
        self._shifts = bool(net.activations) and all(activation.name == "relu" for activation in net.activations)
        widest = max(affine.weight.shape[0] for affine in net.affines)
        largest = max((affine.weight.size for affine in net.affines[1:]), default=1)
        self._block = max(64, min(_PER_BLOCK * _PRODUCTS // largest, _NUMBERS // widest, _MOST_COLUMNS))
        # Allocated once: the system hands out new memory of this size page by page, which halves the speed.
        room = _whole(self._block)
        self._buffers = [np.zeros(len(affine.bias) * room, net.dtype) for affine in net.affines]

    def tables(self, table: FloatArray, most: float) -> tuple[list[FloatArray], float]:
        """Return the tables of all layers for points with the table (units, points) of the first, and their error.

        It is that table alone, without an error, unless all activations are ReLU and the error is at most `most`.
        """
        if self._shifts:
            shifted, error = shifted_tables(self.affines, table)
            if error <= most:
                return shifted, error
        return [table], 0.0

    def scores(
        self, base: FloatArray, tables: Sequence[FloatArray], rows: Sequence[FloatArray] = ()
    ) -> Iterator[ScoreBlock]:
        """Yield the scores of base (units, inputs) and tables, each (units, points), block by block.

        With `rows`, for each layer but the last (k, units), a block also has the sums of their products with the
        activations, less what the tables add to these.
        """
        inputs, points = base.shape[1], tables[0].shape[1]
        many = self._block // points // _COLUMNS * _COLUMNS  # whole products, whose arrays NumPy runs through at once
        some = min(inputs, max(min(_ROWS, self._block), many))
        width = min(points, max(1, self._block // some))
        rest = [slice(start, start + width) for start in range(0, points, width)]
        parts = [slice(start, start + some) for start in range(0, inputs, some)]
        # The longer axis goes last: NumPy's inner loops run over it, and are fast if both operands do.
        if some >= width:
            for chosen in rest:
                spread = [_repeat(table[:, chosen, None], some, len(parts)) for table in tables]
                for part in parts:
                    first = base[:, None, part]
                    here = spread if len(parts) == 1 else [table[:, :, : first.shape[2]] for table in spread]
                    yield ScoreBlock(part, chosen, *self._block_scores(first, here, rows))
        else:
            for part in parts:
                first = _repeat(base[:, part, None], width, len(rest))
                for chosen in rest:
                    here = [table[:, None, chosen] for table in tables]
                    own = first if len(rest) == 1 else first[:, :, : here[0].shape[2]]
                    scores, sums = self._block_scores(own, here, rows)
                    yield ScoreBlock(part, chosen, scores.T, sums.transpose(0, 2, 1))

    def scores_at(self, base: FloatArray, tables: Sequence[FloatArray], points: Ints) -> FloatArray:
        """Return the scores (k,) of base (units, k), each at one of the points (k,) of the tables."""
        scores = np.empty(len(points), base.dtype)
        for start in range(0, len(points), self._block):
            part = slice(start, start + self._block)
            here = [np.take(table, points[part], axis=1)[:, None] for table in tables]
            scores[part] = self._block_scores(base[:, None, part], here, ())[0][0]
        return scores

    def _block_scores(
        self, base: FloatArray, tables: Sequence[FloatArray], rows: Sequence[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scores and the sums of one block: arrays that broadcast to (units, longer, last)."""
        shape = np.broadcast_shapes(base.shape[1:], tables[0].shape[1:])
        size = shape[0] * shape[1]
        columns = _whole(size)
        sums = np.zeros((len(rows[0]) if rows else 0, columns), base.dtype)
        layer, view = self._buffer(0, columns, shape)
        (np.add if len(tables) == 1 else np.maximum)(base, tables[0], out=view)
        for number, affine in enumerate(self.affines[1:], start=1):
            if len(tables) == 1:
                self._activations[number - 1].apply(layer)
            if rows:
                sums += rows[number - 1] @ layer
            out, view = self._buffer(number, columns, shape)
            layer = _multiply(affine.weight, layer, out)
            if len(tables) == 1:
                layer += affine.bias[:, None]
            elif number < len(self.affines) - 1:
                np.maximum(view, tables[number], out=view)
            else:
                view += tables[number]
        return view[0], sums[:, :size].reshape(len(sums), *shape)

    def _buffer(self, layer: int, columns: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the buffer of a layer (units, columns), and its first columns as (units, *shape)."""
        units = len(self.affines[layer].bias)
        buffer = self._buffers[layer][: units * columns].reshape(units, columns)
        return buffer, buffer[:, : shape[0] * shape[1]].reshape(units, *shape)


class ScoreBlock(NamedTuple):
    """The scores of some inputs at some points; the next block overwrites them.

    Attributes
    ----------
    inputs, points : which ones
    scores : (points, inputs)
    sums : (k, points, inputs)
    """

    inputs: slice
    points: slice
    scores: FloatArray
    sums: FloatArray


def _repeat(column: FloatArray, times: int, uses: int) -> FloatArray:
    """Return a column (k, n, 1) as (k, n, times); it is not worth copying for a single use."""
    wide = np.broadcast_to(column, (*column.shape[:2], times))
    return wide if uses == 1 else np.ascontiguousarray(wide)


def _whole(columns: int) -> int:
    return -(-columns // _COLUMNS) * _COLUMNS


def _multiply(weight: FloatArray, layer: FloatArray, out: FloatArray) -> FloatArray:
    """Set out (units, size) to weight times layer (n, size), in parts for which BLAS starts no threads."""
    step = max(_COLUMNS, _PRODUCTS // weight.size // _COLUMNS * _COLUMNS)
    for start in range(0, layer.shape[1], step):
        np.matmul(weight, layer[:, start : start + step], out=out[:, start : start + step])
    return out


def shifted_tables(affines: Sequence[Affine], table: FloatArray) -> tuple[list[FloatArray], float]:
    """Return tables that replace the biases of the later layers, from what points add to the first (units, points).

    With t the table of a layer, its activation is max(b, -t) + t, and t' = weight·t + bias the table of the next. The
    tables are -t for each layer but the last, and t for the last.

    The second value bounds the error that this adds to that of summing each layer. A product with max(b, -t) in place
    of the activation has terms larger by |t|, so it loses at most gamma(n) |weight| |t| more, and t' as much again.
    What a layer loses moves the score by at most the product of the later layers' absolute weights, because the slope
    of ReLU is at most 1. The factor 1.01 covers what these errors themselves add to later roundings.
    """
    unit, tiny = float(np.finfo(table.dtype).eps) / 2, float(np.finfo(table.dtype).tiny)
    tables, error = [-table], np.zeros(len(table))
    with np.errstate(all="ignore"):
        for affine in affines[1:]:
            weight, most = affine.weight.astype(np.float64), np.abs(table).max(axis=1).astype(np.float64)
            table = (weight @ table.astype(np.float64) + affine.bias.astype(np.float64)[:, None]).astype(table.dtype)
            terms = weight.shape[1] + 2
            error = np.abs(weight) @ (error + 2 * terms * unit * most)
            error += 2 * unit * np.abs(table).max(axis=1) + terms * tiny
            tables.append(-table)
    tables[-1] = -tables[-1]
    bound = 1.01 * float(error[0])
    return tables, bound if math.isfinite(bound) else math.inf


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
        self._grid = grid
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
