"""Evaluate a network with one output from its first layer on, at many points of many inputs.

The first layer of an input, at a point of its neighbourhood, is the sum of a base, which depends on the input, and of a
table, which depends on the point. Only the later layers run for every input and point.

For ReLU, relu(b + t) = max(b, -t) + t spares half of the work: the max is one pass instead of two, and what the t adds
to the next layer is a table again, with one column for each point and shared by all inputs (`shifted_tables`).

This is where the audit depends on the network being a chain of affine and activation layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import FloatArray, Ints
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
