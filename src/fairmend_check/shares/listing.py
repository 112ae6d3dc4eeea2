"""Boxes of few people: everyone who is similar to them is listed, with every combination of protected values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fairmend_check.kernel.bounds import interval_layers, point_bounds
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.model import Dense, Model
from fairmend_check.kernel.rounding import TINY, Array, U, down, gamma, up
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import Bools, Boxes, People, Whole
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts

LISTED_INPUTS = 2**14  # of a box: all who are similar to its people, with every combination of protected values
_CLOSE = 64  # people of a box whose answers are close to others and who are decided by themselves
_NOTICEABLE = 2.0**-20  # of the error of inference: bounds of outputs that are this far apart at most are close enough
_IN_CACHE = 2**17  # numbers in the widest layer, for the points that are run at once
_NUMBERS = 2**21  # in the columns of the inputs that are evaluated at once

Single = NDArray[np.float32]
PointBounds = Callable[[Model, Array], tuple[Array, Array, float]]
"""Returns bounds of the outputs at points, each (points, outputs), and how far apart they can be."""

_ENDS = (np.min, np.max, np.max, np.min)
"""What is kept of several answers low..high: the lowest low and highest high; the highest low and lowest high."""


def count_inputs(people: People, boxes: Boxes) -> Array:
    """Return how many inputs are to be listed in each box (boxes,); infinite where a cell is not one person."""
    if not people.finite or people.combinations > LISTED_INPUTS:
        return np.full(len(boxes), np.inf)
    around = people.similar(boxes)
    with np.errstate(over="ignore"):
        return np.asarray(np.prod((around.last - around.first + 1).astype(np.float64), axis=1) * people.combinations)


def list_people(
    prover: Prover, boxes: Boxes, found: Counts, rows: Whole, error: Array | None = None, forms: Bools | None = None
) -> None:
    """Count the people of these rows of boxes one by one, and note the numbers in what is found.

    ``error`` (boxes,) is a bound of the error of inference over boxes if known, and ``forms`` (boxes,) where the linear
    forms of a box decide so many of its people that it is worth to compute them; if not given, everywhere.
    """
    around, most = prover.people.similar(boxes.take(rows)), _cells_at_once(prover)
    ends, start, step = np.cumsum(np.prod(around.last - around.first + 1, axis=1)), 0, _boxes_at_once(prover)
    while start < len(rows):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + most, "right"))
        part = rows[start : min(max(start + 1, stop), start + step)]
        some = boxes.take(part)
        use = np.ones(len(part), np.bool_) if forms is None else forms[part]
        listed = _Listed(prover, some, prover.errors(some) if error is None else error[part], use)
        found.fair[part], found.unfair[part] = (
            np.bincount(listed.owner, each, len(part)) for each in (listed.fair, listed.unfair)
        )
        found.exact[part] = True
        start += len(part)


class _Listed:
    """The people of boxes: their ``cells`` and boxes, and who is surely treated equally, and unequally (people,).

    Linear forms of a box decide most of its people. Of the others, everyone who is similar is listed. Some of those who
    are left then are decided by themselves: with an error of inference of their own, or by forms of their own.
    """

    def __init__(self, prover: Prover, boxes: Boxes, error: Array, forms: Bools) -> None:
        self._prover, self._boxes, self._error = prover, boxes, error
        listed = [_cells(*ends) for ends in zip(boxes.first, boxes.last, strict=True)]
        self._ends = np.cumsum([0, *map(len, listed)])
        self.cells, self.owner = np.concatenate(listed), np.repeat(np.arange(len(boxes)), np.diff(self._ends))
        self.fair, self.unfair = np.zeros((2, len(self.cells)), np.bool_)
        if forms.any():
            self._decide_by_forms(np.flatnonzero(forms))
        self._list_rest()
        self._decide_alone()

    @property
    def _left(self) -> Whole:
        return np.flatnonzero(~(self.fair | self.unfair))

    def _decide_by_forms(self, rows: Whole) -> None:
        prover, boxes, people = self._prover, self._boxes.take(rows), self._prover.people
        forms = prover.requirement.forms(prover.bound(boxes, people.cases(len(boxes)), self._error[rows]))
        if forms is None:
            return
        room = gamma(people.width + 8) * people.sizes(boxes, forms.A) + TINY
        every, some = (down(each - room - 4 * U * np.abs(each)) for each in (forms.every, forms.some))
        step = max(1, _NUMBERS // max(people.width, forms.A.shape[1]))
        for row, (start, end) in enumerate(zip(self._ends[rows], self._ends[rows + 1], strict=True)):
            for first in range(start, end, step):
                at = slice(first, min(end, first + step))
                value = people.least_values(self.cells[at], forms.A[row])
                holds = forms.holds[row] | (down(value + every[row]) > forms.need[row])
                shows = down(value + some[row]) > forms.beyond[row]
                self.fair[at], self.unfair[at] = prover.requirement.settle(holds, shows)

    def _list_rest(self) -> None:
        prover, people, left = self._prover, self._prover.people, self._left
        if not (people.reach.any() or people.banded):
            for bounds in _stages(prover.model):
                if len(left):
                    answers, close = _answers(prover, self.cells[left], self._error[self.owner[left]], bounds)
                    self.fair[left], self.unfair[left] = prover.requirement.compare_ends(*answers)
                    left = left[close & ~(self.fair | self.unfair)[left]]
            return
        for row in np.unique(self.owner[left]):
            box = self._boxes.take(slice(row, row + 1))
            around = people.similar(box)
            cells, at = _cells(around.first[0], around.last[0]), slice(self._ends[row], self._ends[row + 1])
            for bounds in _stages(prover.model):
                answers, close = _answers(prover, cells, np.full(len(cells), self._error[row]), bounds)
                near = _over_similar(prover, box, around, answers)
                self.fair[at], self.unfair[at] = prover.requirement.compare_ends(*near)
                if not close.any() or (self.fair | self.unfair)[at].all():
                    break

    def _decide_alone(self) -> None:
        left, prover = self._left, self._prover
        left = left[np.arange(len(left)) - np.searchsorted(self.owner[left], self.owner[left]) < _CLOSE]
        for start in range(0, len(left) if (np.diff(self._ends) > 1).any() else 0, _boxes_at_once(prover)):
            rows = left[start : start + _boxes_at_once(prover)]
            people = Boxes(self.cells[rows], self.cells[rows])
            error = np.minimum(self._error[self.owner[rows]], prover.errors(people))
            alone = _Listed(prover, people, error, np.ones(len(rows), np.bool_))
            self.fair[rows], self.unfair[rows] = alone.fair, alone.unfair


def _answers(prover: Prover, cells: Whole, error: Array, bounds: PointBounds) -> tuple[list[Array], Bools]:
    """Return ends of the answers of someone in each cell with all protected values: four arrays (cells, answers).

    And where ``bounds`` of the outputs are so far apart, beside the error of inference, that closer ones may decide
    more (cells,).
    """
    step = _cells_at_once(prover)
    parts = [
        _answers_at_once(prover, cells[start : start + step], error[start : start + step], bounds)
        for start in range(0, len(cells), step)
    ]
    *ends, close = (np.concatenate(each) for each in zip(*parts, strict=True))
    return ends, close


def _answers_at_once(prover: Prover, cells: Whole, error: Array, bounds: PointBounds) -> list[Any]:
    values, model, furthest = prover.people.all_values, prover.model, 0.0
    step, found = max(1, _NUMBERS // (len(cells) * _columns(prover))), []
    for start in range(0, len(values.first), step):
        some = (part[start : start + step] for part in (values.first, values.last, values.choice))
        own = isinstance(bounds, _OwnRun)
        inputs = prover.people.inputs(cells, Cases(*some), np.float32 if own else np.float64)
        prover.work.add(prover.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            low, high, apart = bounds(model, inputs)
            off = np.repeat(up(2 * error) if own else error, len(inputs) // len(cells))
            low, high = prover.requirement.answers(low, high, off)
        furthest = max(furthest, apart)
        # Values first: whole arrays are compared, not a few values of each person.
        low, high = (np.moveaxis(end.reshape(len(cells), -1, end.shape[1]), 1, 0).copy() for end in (low, high))
        found.append([take(end, axis=0) for take, end in zip(_ENDS, (low, high, low, high), strict=True)])
    ends = [take(each, axis=0) for take, each in zip(_ENDS, zip(*found, strict=True), strict=True)]
    return [*ends, furthest > _NOTICEABLE * error]


class _OwnRun:
    """Runs a model of affine layers and ReLUs in single precision, its own: faster than in double precision.

    What it computes is within the error of inference of the exact outputs, as is what any other program computes. So
    with twice this error, its outputs bound those of every program.
    """

    def __init__(self, layers: list[tuple[Single, Single] | None]) -> None:
        self._layers = layers

    @staticmethod
    def of(model: Model) -> _OwnRun | None:
        """Return how to run a model; None if it has another precision, or something else than such layers."""
        layers: list[tuple[Single, Single] | None] = []
        for number, node in enumerate(model.nodes[1:]):
            operation = node.operation
            if node.sources != (number,) or model.dtype != "float32":
                return None
            if isinstance(operation, Dense) and operation.fold is None:
                layer = operation.weight.astype(np.float32), operation.bias.astype(np.float32)
                if not (np.array_equal(layer[0], operation.weight) and np.array_equal(layer[1], operation.bias)):
                    return None
                layers.append(layer)
            elif isinstance(operation, Activation) and operation.name == "relu":
                layers.append(None)
            else:
                return None
        return _OwnRun(layers)

    def __call__(self, model: Model, points: Array) -> tuple[Array, Array, float]:
        """Return the outputs as their own bounds; closer ones may decide more."""
        outputs, step = np.empty((len(points), model.outputs)), max(1, _IN_CACHE // max(model.widths))
        for start in range(0, len(points), step):
            values: Any = points[start : start + step]
            for layer in self._layers:
                if layer is None:
                    values = np.maximum(values, np.float32(0))
                else:
                    values = values @ layer[0].T
                    values += layer[1]
            outputs[start : start + step] = values
        return outputs, outputs, np.inf


def _stages(model: Model) -> list[PointBounds]:
    """Return ways to bound the outputs at points, the fastest first."""
    own = _OwnRun.of(model)
    return [*([] if own is None else [own]), point_bounds, _interval_bounds]


def _interval_bounds(model: Model, points: Array) -> tuple[Array, Array, float]:
    """Return bounds of the outputs at points by interval arithmetic; there are none closer."""
    return *interval_layers(model, points, points)[-1], 0.0


def _over_similar(prover: Prover, box: Boxes, around: Boxes, answers: list[Array]) -> list[Array]:
    """Return the same for everyone similar to each person of a box, given those of each cell around it."""
    sizes, found = (around.last[0] - around.first[0] + 1).tolist(), []
    for take, end in zip(_ENDS, answers, strict=True):
        each = end.reshape(*sizes, -1)
        for k, axis in enumerate(prover.people.axes):
            if axis.reach:
                # Beyond the ends of the range, the last cell counts again.
                near = np.arange(box.first[0, k] - axis.reach, box.last[0, k] + axis.reach + 1)
                near = np.clip(near, around.first[0, k], around.last[0, k]) - around.first[0, k]
                windows = sliding_window_view(each.take(near, axis=k), 2 * axis.reach + 1, axis=k)
                prover.work.add(windows.size)
                each = take(windows, axis=-1)
            elif axis.blocks is not None:
                first, last = (axis.blocks.of(end) for end in (box.first[0, k], box.last[0, k]))
                starts = axis.blocks.start[first : last + 1] - around.first[0, k]
                bands = (np.minimum if take is np.min else np.maximum).reduceat(each, starts, axis=k)
                own = np.arange(box.first[0, k], box.last[0, k] + 1)
                each = bands.take(axis.blocks.of(own) - first, axis=k)
        found.append(each.reshape(-1, end.shape[1]))
    return found


def _columns(prover: Prover) -> int:
    """Return how many numbers an input takes."""
    return max(prover.model.held, prover.people.width)


def _boxes_at_once(prover: Prover) -> int:
    """Return how many boxes are bounded at once."""
    return max(1, _NUMBERS // max(_columns(prover) * len(prover.people.pieces.first), prover.coefficients))


def _cells_at_once(prover: Prover) -> int:
    """Return how many cells are listed at once, each with all protected values."""
    return max(1, _NUMBERS // (prover.people.combinations * _columns(prover)))


def _cells(first: Whole, last: Whole) -> Whole:
    """Return every cell of a box (cells, axes)."""
    sizes = last - first + 1
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])[: len(sizes)]
    return np.asarray(first + np.arange(np.prod(sizes))[:, None] // strides % sizes)
