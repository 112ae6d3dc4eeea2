"""Boxes of few people: everyone who is similar to them is listed, with every combination of protected values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fairmend_check.kernel.bounds import interval_layers, point_bounds
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.rounding import TINY, Array, U, down, gamma
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import Bools, Boxes, People, Whole
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts

LISTED_INPUTS = 2**14  # of a box: all who are similar to its people, with every combination of protected values
_CLOSE = 64  # people of a box whose answers are close to others and who are decided by themselves
_NOTICEABLE = 2.0**-20  # of the error of inference: bounds of outputs that are this far apart at most are close enough
_NUMBERS = 2**21  # in the columns of the inputs that are evaluated at once

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


def list_people(prover: Prover, boxes: Boxes, found: Counts, rows: Whole, error: Array | None = None) -> None:
    """Count the people of these rows of boxes one by one, and note the numbers in what is found.

    ``error`` (boxes,) is a bound of the error of inference over boxes if known.
    """
    around, most = prover.people.similar(boxes.take(rows)), _cells_at_once(prover)
    ends, start, step = np.cumsum(np.prod(around.last - around.first + 1, axis=1)), 0, _boxes_at_once(prover)
    while start < len(rows):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + most, "right"))
        part = rows[start : min(max(start + 1, stop), start + step)]
        some = boxes.take(part)
        listed = _Listed(prover, some, prover.errors(some) if error is None else error[part])
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

    def __init__(self, prover: Prover, boxes: Boxes, error: Array) -> None:
        self._prover, self._boxes, self._error = prover, boxes, error
        listed = [_cells(*ends) for ends in zip(boxes.first, boxes.last, strict=True)]
        self._ends = np.cumsum([0, *map(len, listed)])
        self.cells, self.owner = np.concatenate(listed), np.repeat(np.arange(len(boxes)), np.diff(self._ends))
        self.fair, self.unfair = np.zeros((2, len(self.cells)), np.bool_)
        self._decide_by_forms()
        self._list_rest()
        self._decide_alone()

    @property
    def _left(self) -> Whole:
        return np.flatnonzero(~(self.fair | self.unfair))

    def _decide_by_forms(self) -> None:
        prover, boxes, people = self._prover, self._boxes, self._prover.people
        forms = prover.requirement.forms(prover.bound(boxes, people.cases(len(boxes)), self._error))
        if forms is None:
            return
        room = gamma(people.width + 8) * people.sizes(boxes, forms.A) + TINY
        every, some = (down(each - room - 4 * U * np.abs(each)) for each in (forms.every, forms.some))
        step = max(1, _NUMBERS // max(people.width, forms.A.shape[1]))
        for row, (start, end) in enumerate(pairwise(self._ends)):
            for first in range(start, end, step):
                at = slice(first, min(end, first + step))
                value = people.people_in(self.cells[at]) @ forms.A[row].T
                holds = forms.holds[row] | (down(value + every[row]) > forms.need[row])
                shows = down(value + some[row]) > forms.beyond[row]
                self.fair[at], self.unfair[at] = prover.requirement.settle(holds, shows)

    def _list_rest(self) -> None:
        prover, people, left = self._prover, self._prover.people, self._left
        if not people.reach.any():
            for bounds in (point_bounds, _interval_bounds):
                if len(left):
                    answers, close = _answers(prover, self.cells[left], self._error[self.owner[left]], bounds)
                    self.fair[left], self.unfair[left] = prover.requirement.compare_ends(*answers)
                    left = left[close & ~(self.fair | self.unfair)[left]]
            return
        for row in np.unique(self.owner[left]):
            box = self._boxes.take(slice(row, row + 1))
            around = people.similar(box)
            cells, at = _cells(around.first[0], around.last[0]), slice(self._ends[row], self._ends[row + 1])
            for bounds in (point_bounds, _interval_bounds):
                answers, close = _answers(prover, cells, np.full(len(cells), self._error[row]), bounds)
                near = _within_tolerances(prover, box, around, answers)
                self.fair[at], self.unfair[at] = prover.requirement.compare_ends(*near)
                if not close.any() or (self.fair | self.unfair)[at].all():
                    break

    def _decide_alone(self) -> None:
        left, prover = self._left, self._prover
        left = left[np.arange(len(left)) - np.searchsorted(self.owner[left], self.owner[left]) < _CLOSE]
        for start in range(0, len(left) if (np.diff(self._ends) > 1).any() else 0, _boxes_at_once(prover)):
            rows = left[start : start + _boxes_at_once(prover)]
            people = Boxes(self.cells[rows], self.cells[rows])
            alone = _Listed(prover, people, np.minimum(self._error[self.owner[rows]], prover.errors(people)))
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
        inputs = prover.people.inputs(cells, Cases(*some))
        prover.work.add(prover.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            low, high, apart = bounds(model, inputs)
            low, high = prover.requirement.answers(low, high, np.repeat(error, len(inputs) // len(cells)))
        furthest = max(furthest, apart)
        low, high = (end.reshape(len(cells), -1, end.shape[1]) for end in (low, high))
        found.append([take(end, axis=1) for take, end in zip(_ENDS, (low, high, low, high), strict=True)])
    ends = [take(each, axis=0) for take, each in zip(_ENDS, zip(*found, strict=True), strict=True)]
    return [*ends, furthest > _NOTICEABLE * error]


def _interval_bounds(model: Model, points: Array) -> tuple[Array, Array, float]:
    """Return bounds of the outputs at points by interval arithmetic; there are none closer."""
    return *interval_layers(model, points, points)[-1], 0.0


def _within_tolerances(prover: Prover, box: Boxes, around: Boxes, answers: list[Array]) -> list[Array]:
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
