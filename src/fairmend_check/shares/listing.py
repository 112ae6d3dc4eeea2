"""Boxes of few people: everyone who is similar to them is listed, with every combination of protected values."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.rounding import Array
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import Bools, Boxes, People, Whole
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts

LISTED_INPUTS = 2**14  # of a box: all who are similar to its people, with every combination of protected values
_CLOSE = 64  # people of a box whose answers are close to others and who are decided by themselves
_NUMBERS = 2**21  # in the columns of the inputs that are evaluated at once

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
    ends, start = np.cumsum(np.prod(around.last - around.first + 1, axis=1)), 0
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + most, "right")))
        part = rows[start:stop]
        some = boxes.take(part)
        errors = prover.errors(some) if error is None else error[part]
        fair, unfair, owner = _verdicts(prover, some, errors)
        _decide_rest(prover, some, errors, fair, unfair, owner)
        found.fair[part], found.unfair[part] = (np.bincount(owner, each, len(part)) for each in (fair, unfair))
        found.exact[part] = True
        start = stop


def _decide_rest(prover: Prover, boxes: Boxes, error: Array, fair: Bools, unfair: Bools, owner: Whole) -> None:
    """Decide some of the people of boxes who are left: each with an error of their own, or by linear forms."""
    left = np.flatnonzero(~(fair | unfair))
    left = left[np.arange(len(left)) - np.searchsorted(owner[left], owner[left]) < _CLOSE]  # so many of each box
    if not len(left):
        return
    cells = np.concatenate([_cells(*ends) for ends in zip(boxes.first, boxes.last, strict=True)])
    step = max(
        1, min(len(left), _NUMBERS // max(_columns(prover) * len(prover.people.pieces.first), prover.coefficients))
    )
    for start in range(0, len(left), step):
        rows = left[start : start + step]
        people = Boxes(cells[rows], cells[rows])
        own = np.minimum(error[owner[rows]], prover.errors(people))
        fair[rows], unfair[rows], _ = _verdicts(prover, people, own)
        rest = rows[~(fair[rows] | unfair[rows])]
        if len(rest):
            counts = prover.prove(Boxes(cells[rest], cells[rest]), np.ones(len(rest), np.bool_))
            fair[rest], unfair[rest] = counts.fair == 1, counts.unfair == 1


def _verdicts(prover: Prover, boxes: Boxes, error: Array) -> tuple[Bools, Bools, Whole]:
    """Return who is surely treated equally, and who unequally, and in which of the boxes they are (people,)."""
    around = prover.people.similar(boxes)
    listed = [_cells(*ends) for ends in zip(around.first, around.last, strict=True)]
    sizes = [len(cells) for cells in listed]
    cells, error, step = np.concatenate(listed), np.repeat(error, sizes), _cells_at_once(prover)
    parts = [slice(start, start + step) for start in range(0, len(cells), step)]
    answers = [_answers(prover, cells[part], error[part]) for part in parts]
    ends = [np.concatenate(each) for each in zip(*answers, strict=True)]
    if prover.people.reach.any():
        each, stops = [], np.cumsum(sizes)
        for k, stop in enumerate(stops):
            own, one = [end[stop - sizes[k] : stop] for end in ends], slice(k, k + 1)
            each.append(_within_tolerances(prover, boxes.take(one), around.take(one), own))
        ends, sizes = [np.concatenate(parts) for parts in zip(*each, strict=True)], [len(own[0]) for own in each]
    fair, unfair = prover.requirement.compare_ends(*ends)
    return fair, unfair, np.repeat(np.arange(len(boxes)), sizes)


def _answers(prover: Prover, cells: Whole, error: Array) -> list[Array]:
    """Return ends of the answers of someone in each cell with all protected values: four arrays (cells, answers)."""
    values, model = prover.people.all_values, prover.model
    step, found = max(1, _NUMBERS // (len(cells) * _columns(prover))), []
    for start in range(0, len(values.first), step):
        some = (part[start : start + step] for part in (values.first, values.last, values.choice))
        inputs = prover.people.inputs(cells, Cases(*some))
        prover.work.add(prover.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            outputs = interval_layers(model, inputs, inputs)[-1]
            low, high = prover.requirement.answers(*outputs, np.repeat(error, len(inputs) // len(cells)))
        low, high = (end.reshape(len(cells), -1, end.shape[1]) for end in (low, high))
        found.append([take(end, axis=1) for take, end in zip(_ENDS, (low, high, low, high), strict=True)])
    return [take(ends, axis=0) for take, ends in zip(_ENDS, zip(*found, strict=True), strict=True)]


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


def _cells_at_once(prover: Prover) -> int:
    """Return how many cells are listed at once, each with all protected values."""
    return max(1, _NUMBERS // (prover.people.combinations * _columns(prover)))


def _cells(first: Whole, last: Whole) -> Whole:
    """Return every cell of a box (cells, axes)."""
    sizes = last - first + 1
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])[: len(sizes)]
    return np.asarray(first + np.arange(np.prod(sizes))[:, None] // strides % sizes)
