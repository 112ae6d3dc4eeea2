"""Find the lowest and the highest score of each input over many points on a GPU, with the same bits as on the CPU.

A GPU adds in another order than the CPU, so its scores differ in their last bits. It therefore only finds which points
can hold an extreme: those whose score is within twice the largest possible difference of the lowest or highest one. For
most inputs that is one point each. `LaterLayers` computes the scores of these points, as it does without a GPU, and
computes all points of inputs whose scores are nearly equal. So no result depends on the device, if BLAS rounds a column
of a product alike wherever it stands; otherwise the last bits of a score may.

As in `extremes`, the first layer of an input at a point is a base plus a table.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from fairmend.auditing.extremes import LaterLayers, RunningExtremes, search_points
from fairmend.auditing.fast_scores import FastScores
from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.gpu import choose_device, memory_of, repeatable, run_in_parts
from fairmend.network import Activation, Model, Network
from fairmend.spec import Spec
from fairmend.workers.engine import Engine
from fairmend.workers.local import Threads
from fairmend_check.kernel.rounding import Precision

_logger = logging.getLogger(__name__)

_UNKNOWN = (
    "it compares finite neighbourhoods, for chains of layers with one output and ReLU, LeakyReLU, tanh or sigmoid"
)

# Scores below which starting the work takes longer than the CPU takes for all of it, about 20 million a second.
_FEW = 20_000
# Bytes of the largest array of one chunk: starting kernels takes little of the time then.
_CHUNK_BYTES = 2**29
_MASK_BYTES = 2**28  # of the marks of all points that can hold an extreme, of a part of the inputs
# While one waits for the GPU, the others prepare and confirm; more than these wait for the interpreter's lock.
_THREADS = 4
_ROUNDING = 1.01  # for the roundings of the bound itself, in float64


def find_device(name: str, net: Model, spec: Spec) -> DeviceSearch | None:
    """Return the search on the device of this name; None for the CPU, or if the device does not know the network."""
    known = net if FastScores.knows(net) and spec.finite else None
    device = choose_device(name, "comparing people with all similar people", pays=known is not None)
    if device.type == "cpu":
        return None
    if known is None:
        _logger.warning("the GPU is not used: %s", _UNKNOWN)
        return None
    return DeviceSearch(known, device)


def _on_worker(net: Network, device: str) -> DeviceSearch:
    """Return the search on the device of a worker."""
    return DeviceSearch(net, choose_device(device, "comparing people with all similar people", pays=True))


class DeviceSearch:
    """The later layers of a chain with one output on a device."""

    def __init__(self, net: Network, device: torch.device) -> None:
        self._net, self._device = net, device
        self._dtype = torch.float32 if net.dtype == np.float32 else torch.float64
        self._precision = Precision.of(net.dtype.name)
        self._layers = [
            (self._moved(affine.weight), self._moved(affine.bias)[:, None], activation)
            for affine, activation in zip(net.affines[1:], net.activations, strict=True)
        ]
        self._sizes = [(weight.double().abs(), bias.double().abs()) for weight, bias, _ in self._layers]
        widest = max(len(affine.bias) for affine in net.affines)
        chunk = min(_CHUNK_BYTES, memory_of(device) // 32)
        self._points = max(1, chunk // (widest * net.dtype.itemsize))
        self._marks = min(_MASK_BYTES, memory_of(device) // 8)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the network and the name of the device: a worker takes its own."""
        return _on_worker, (self._net, str(self._device))

    def pays(self, inputs: int, points: int) -> bool:
        """Return whether so many inputs at so many points each are worth the device."""
        return inputs * points >= _FEW

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Give the threads that scan blocks."""
        # Each search sets PyTorch's flags and sets them back: here, to what they are for all threads.
        with repeatable(self._device):
            yield Threads(min(_THREADS, os.cpu_count() or 1))

    def search(
        self,
        later: LaterLayers,
        base: FloatArray,
        table: FloatArray,
        tables: Sequence[FloatArray],
        regrouping: float,
        found: RunningExtremes,
    ) -> None:
        """Take in the scores of base (units, inputs) at all points of the table (units, points).

        ``tables`` are those of all layers that `later` uses, which add ``regrouping`` to the error of its scores.
        """
        points = table.shape[1]
        moved = self._moved(table)

        def work(part: slice) -> None:
            mine = base[:, part]
            near = self._near(self._moved(mine), moved, regrouping)
            if near is None:
                search_points(later, mine, tables, found, np.arange(part.start, part.stop))
                return
            rows, chosen = near
            _take_in(later, np.take(mine, rows, axis=1), tables, rows + part.start, chosen, found)

        with repeatable(self._device), torch.inference_mode(), np.errstate(over="ignore", invalid="ignore"):
            run_in_parts(base.shape[1], max(1, self._marks // points), work, "people")

    def _near(self, base: Tensor, table: Tensor, regrouping: float) -> tuple[Ints, Ints] | None:
        """Return inputs and points that can hold an extreme, in the order of the inputs; None if they are too many."""
        inputs, points = base.shape[1], table.shape[1]
        slack = 2 * (2 * self._error(base, table) + regrouping)
        near = torch.empty(inputs, points, dtype=torch.bool, device=self._device)
        step = max(1, self._points // points)
        for start in range(0, inputs, step):
            part = slice(start, start + step)
            self._mark(base[:, part], table, slack[part], near[part])
        if int(near.sum()) > inputs * points // 4:
            return None
        rows, chosen = near.nonzero().cpu().numpy().T
        return rows, chosen

    def _mark(self, base: Tensor, table: Tensor, slack: Tensor, near: Tensor) -> None:
        """Mark the points (inputs, points) that can hold an extreme; all where a number is not finite."""
        scores = self._scores(base, table)
        lowest, highest = torch.aminmax(scores, dim=1)
        known = torch.isfinite(lowest) & torch.isfinite(highest)
        infinity = torch.full_like(lowest, torch.inf)
        low = torch.nextafter(lowest + slack.to(lowest.dtype), infinity)[:, None]
        high = torch.nextafter(highest - slack.to(lowest.dtype), -infinity)[:, None]
        torch.logical_or(scores <= low, scores >= high, out=near)
        near |= ~known[:, None]

    def _scores(self, base: Tensor, table: Tensor) -> Tensor:
        """Return the scores (inputs, points) of base (units, inputs) and table (units, points)."""
        layer = (base[:, :, None] + table[:, None, :]).view(len(base), -1)
        for weight, bias, activation in self._layers:
            layer = torch.addmm(bias, weight, _apply(activation, layer))
        return layer.view(base.shape[1], table.shape[1])

    def _error(self, base: Tensor, table: Tensor) -> Tensor:
        """Return how far scores computed in any order can be from the exact ones, (inputs,), float64.

        By layers, `size` bounds the numbers and `error` how far they are off: a sum of n products and a bias is off by
        at most gamma(n + 2) times the sum of their sizes, and each function has a slope of at most 1. Subnormal numbers
        may be taken as 0. Where numbers may overflow, the bound is infinite.
        """
        unit, tiny, largest = self._precision.u, self._precision.tiny, self._precision.largest
        wide = base.double()
        low, high = wide + table.double().amin(1)[:, None], wide + table.double().amax(1)[:, None]
        size = torch.maximum(low.abs(), high.abs())
        fits = size.amax(0) < largest / 4
        error = unit * size + tiny
        if self._layers and self._layers[0][2].name == "relu":
            size = high.clamp(min=0.0)
        for (_, _, activation), (weight, bias) in zip(self._layers, self._sizes, strict=True):
            size, lost = _through(activation, size, self._precision)
            terms = weight.shape[1] + 2
            error = error + lost
            flushed = tiny * terms * (1 + size.amax(0))
            error = weight @ error + 2 * terms * unit * (weight @ (size + error) + bias) + flushed
            size = weight @ size + bias
            fits &= size.amax(0) < largest / 4
        return torch.where(fits, _ROUNDING * error[0], torch.inf)

    def _moved(self, array: FloatArray) -> Tensor:
        return torch.tensor(array, dtype=self._dtype, device=self._device)


def _through(activation: Activation, size: Tensor, precision: Precision) -> tuple[Tensor, Tensor]:
    """Return bounds of a function's values from those of its inputs, and what it loses itself (see its `rounding`)."""
    nothing = torch.full_like(size, 4 * precision.tiny)
    if activation.name in ("relu", "identity"):
        return size, nothing
    if activation.name == "leaky_relu":
        return size, nothing + 4 * (precision.u + precision.tiny) * size
    # tanh and sigmoid: libraries are accurate to 16 units of 1.
    return torch.ones_like(size), nothing + 16 * precision.u


def _apply(activation: Activation, layer: Tensor) -> Tensor:
    return layer.relu_() if activation.name == "relu" else activation.function.torch(layer)


def _take_in(
    later: LaterLayers,
    base: FloatArray,
    tables: Sequence[FloatArray],
    rows: Ints,
    points: Ints,
    found: RunningExtremes,
) -> None:
    """Take in the scores of base (units, k) at these points (k,); row by row, the inputs are `rows` (k,), sorted."""
    scores = later.scores_at(base, tables, points)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    owner = rows[starts]
    found.lowest[owner] = np.minimum(found.lowest[owner], np.minimum.reduceat(scores, starts))
    found.highest[owner] = np.maximum(found.highest[owner], np.maximum.reduceat(scores, starts))
