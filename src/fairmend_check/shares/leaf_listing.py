"""Leaves of few people: everyone who is similar to them is listed, with every combination of protected values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.rounding import Array
from fairmend_check.shares.leaf_bounds import LeafProver
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import People
from fairmend_check.shares.tally import Counts

Whole = NDArray[np.int64]

LISTED_INPUTS = 2**14  # of a leaf: all who are similar to its people, with every combination of protected values
FEW_INPUTS = 2**9  # so few are listed in any case
_NUMBERS = 2**21  # in the columns of the inputs that are evaluated at once


def count_inputs(people: People, first: Whole, last: Whole) -> Array:
    """Return how many inputs are to be listed in each box (boxes,); infinite where a cell is not one person."""
    if not people.finite or people.combinations > LISTED_INPUTS:
        return np.full(len(first), np.inf)
    first, last = _similar(people, first, last)
    with np.errstate(over="ignore"):
        return np.asarray(np.prod((last - first + 1).astype(np.float64), axis=1) * people.combinations)


def list_people(prover: LeafProver, first: Whole, last: Whole, found: Counts, rows: Whole) -> None:
    """Count the people of these rows of boxes (boxes, axes) one by one, and note the numbers in what is found."""
    people = prover.people
    if any(axis.reach for axis in people.axes):
        for row in rows.tolist():
            _list_with_tolerances(prover, first[row], last[row], found, row)
        return
    most = _cells_at_once(prover)
    sizes = np.prod(last[rows] - first[rows] + 1, axis=1)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + most, "right")))
        part = rows[start:stop]
        cells = np.concatenate([_cells(*box) for box in zip(first[part], last[part], strict=True)])
        owner = np.repeat(np.arange(len(part)), sizes[start:stop])
        low, high = _outputs(prover, cells)
        fair, unfair = prover.verdicts(low, high, prover.errors(first[part], last[part])[owner])
        found.fair[part], found.unfair[part] = (np.bincount(owner, each, len(part)) for each in (fair, unfair))
        found.exact[part] = True
        start = stop


def _list_with_tolerances(prover: LeafProver, first: Whole, last: Whole, found: Counts, row: int) -> None:
    """Count the people of one box (axes,), each with everyone in the cells within the tolerances."""
    people = prover.people
    lowest, highest = (end[0] for end in _similar(people, first[None], last[None]))
    around, cells = _cells(lowest, highest), _cells(first, last)
    step = _cells_at_once(prover)
    parts = [_outputs(prover, around[start : start + step]) for start in range(0, len(around), step)]
    low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    error = prover.errors(first[None], last[None])
    prover.work.add(len(cells) * len(around) * low.shape[1] * low.shape[2])
    reach = np.array([axis.reach for axis in people.axes], np.int64)
    fair = unfair = 0
    for cell in cells:
        similar = (np.abs(around - cell) <= reach).all(axis=1)
        least, most = (end[similar].reshape(1, -1, low.shape[2]) for end in (low, high))
        verdicts = prover.verdicts(least, most, error)
        fair, unfair = fair + int(verdicts[0][0]), unfair + int(verdicts[1][0])
    found.fair[row], found.unfair[row], found.exact[row] = fair, unfair, True


def _outputs(prover: LeafProver, cells: Whole) -> tuple[Array, Array]:
    """Return bounds of the outputs of someone in each cell with all protected values (cells, values, outputs)."""
    values, model = prover.people.all_values, prover.model
    step = max(1, _NUMBERS // (len(cells) * _columns(prover)))
    lows, highs = [], []
    for start in range(0, len(values.first), step):
        part = slice(start, start + step)
        inputs = prover.people.inputs(cells, Cases(values.first[part], values.last[part], values.choice[part]))
        prover.work.add(prover.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            low, high = interval_layers(model, inputs, inputs)[-1]
        lows.append(low.reshape(len(cells), -1, model.outputs))
        highs.append(high.reshape(len(cells), -1, model.outputs))
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)


def _columns(prover: LeafProver) -> int:
    """Return how many numbers an input takes."""
    return max(prover.model.held, prover.people.width)


def _cells_at_once(prover: LeafProver) -> int:
    """Return how many cells are listed at once, each with all protected values."""
    return max(1, _NUMBERS // (prover.people.combinations * _columns(prover)))


def _similar(people: People, first: Whole, last: Whole) -> tuple[Whole, Whole]:
    """Return the boxes of all who are within the tolerances of people in boxes (boxes, axes)."""
    low, high = first.copy(), last.copy()
    for k, axis in enumerate(people.axes):
        low[:, k], high[:, k] = people.similar(axis, first[:, k], last[:, k])
    return low, high


def _cells(first: Whole, last: Whole) -> Whole:
    """Return every cell of a box (cells, axes)."""
    sizes = last - first + 1
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])[: len(sizes)]
    return np.asarray(first + np.arange(np.prod(sizes))[:, None] // strides % sizes)
