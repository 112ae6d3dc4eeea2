"""Leaves of few people, who are listed one by one with every combination of protected values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend_check.bounds import interval_layers
from fairmend_check.leaf_bounds import LeafProver
from fairmend_check.people import People
from fairmend_check.rounding import Array
from fairmend_check.tally import Counts

Whole = NDArray[np.int64]

LISTED_INPUTS = 2**14  # of a leaf: its people, each with every combination of protected values
FEW_INPUTS = 2**9  # so few are listed in any case
_NUMBERS = 2**21  # in the columns of the inputs that are evaluated at once


def count_inputs(people: People, first: Whole, last: Whole) -> Array:
    """Return how many inputs are to be listed in each box (boxes,); infinite where a cell is not one person."""
    if not people.finite:
        return np.full(len(first), np.inf)
    with np.errstate(over="ignore"):
        return np.asarray(np.prod((last - first + 1).astype(np.float64), axis=1) * len(people.all_values.first))


def list_people(prover: LeafProver, first: Whole, last: Whole, found: Counts, rows: Whole) -> None:
    """Count the people of these rows of boxes (boxes, axes) one by one, and note the numbers in what is found."""
    people = prover.people
    columns = max(prover.model.held, people.width)
    most = max(1, _NUMBERS // (len(people.all_values.first) * columns)) if len(rows) else 1
    sizes = np.prod(last[rows] - first[rows] + 1, axis=1)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + most, "right")))
        part = rows[start:stop]
        cells = np.concatenate([_cells(*box) for box in zip(first[part], last[part], strict=True)])
        owner = np.repeat(np.arange(len(part)), sizes[start:stop])
        inputs = people.inputs(cells, people.all_values)
        prover.work.add(prover.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            outputs = interval_layers(prover.model, inputs, inputs)[-1]
        low, high = (each.reshape(len(cells), -1, prover.model.outputs) for each in outputs)
        fair, unfair = prover.verdicts(low, high, prover.errors(first[part], last[part])[owner])
        found.fair[part], found.unfair[part] = (np.bincount(owner, each, len(part)) for each in (fair, unfair))
        found.exact[part] = True
        start = stop


def _cells(first: Whole, last: Whole) -> Whole:
    """Return every cell of a box (cells, axes)."""
    sizes = last - first + 1
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])[: len(sizes)]
    return np.asarray(first + np.arange(np.prod(sizes))[:, None] // strides % sizes)
