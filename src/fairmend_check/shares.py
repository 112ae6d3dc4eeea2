"""Which share of all people is treated equally, and which unequally: the sum over the leaves of a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairmend_check.blindness import dependent_columns
from fairmend_check.errors import CheckError
from fairmend_check.leaf_bounds import LeafProver
from fairmend_check.leaf_listing import FEW_INPUTS, LISTED_INPUTS, count_inputs, list_people
from fairmend_check.model import Model
from fairmend_check.people import People
from fairmend_check.regions import box_work, point_work
from fairmend_check.spec import Spec
from fairmend_check.split_tree import LISTED, NOTHING, Leaves
from fairmend_check.tally import Counts

MAX_WORK = 10**13  # multiplications for all leaves: about two hours
_NUMBERS, _MOST_LEAVES = 2**19, 2**11  # in the columns of the leaves that are checked at once


@dataclass
class Proven:
    """How many cells of all people are treated equally, and unequally: at least so many of all ``cells``."""

    cells: int
    fair: int = 0
    unfair: int = 0

    def add(self, found: Counts, sizes: list[int]) -> None:
        """Add what is found in leaves with so many cells."""
        self.fair += _sum_cells(found.fair.tolist(), found.exact.tolist(), sizes)
        self.unfair += _sum_cells(found.unfair.tolist(), found.exact.tolist(), sizes)


def prove_shares(
    model: Model, spec: Spec, people: People, leaves: Leaves, progress: Callable[[int, int], None] | None = None
) -> Proven:
    """Return what can be proven of the leaves, which together are all people."""
    proven = Proven(people.cells)
    if _is_blind(model, people):
        proven.fair = people.cells
        return proven
    rows = np.flatnonzero(leaves.proof != NOTHING)
    inputs = count_inputs(people, leaves.first[rows], leaves.last[rows])
    listed = inputs <= np.where(leaves.proof[rows] == LISTED, LISTED_INPUTS, FEW_INPUTS)
    work = len(rows) * people.pieces * box_work(model) + int(inputs[listed].sum()) * point_work(model)
    if work > MAX_WORK:
        raise CheckError("certificate.shares: there are more boxes to check than the limit for this model")
    prover = LeafProver(model, spec, people)
    step = max(1, min(_MOST_LEAVES, _NUMBERS // (people.pieces * max(prover.forms, *model.widths))))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        first, last, by_person = leaves.first[part], leaves.last[part], listed[start : start + step]
        found = prover.prove(first, last, ~by_person)
        left = np.flatnonzero(by_person & (found.fair + found.unfair == 0))
        list_people(model, people, prover, first[left], last[left], found, left)
        proven.add(found, [math.prod(size) for size in (last - first + 1).tolist()])
        if progress is not None:
            progress(min(start + step, len(rows)), len(rows))
    return proven


def _sum_cells(found: list[float], exact: list[bool], sizes: list[int]) -> int:
    """Return the sum of numbers of cells, given as such where they are exact, else as lower bounds of shares."""
    numbers = zip(found, exact, sizes, strict=True)
    return sum(int(count) if whole else math.floor(Fraction(count) * size) for count, whole, size in numbers if count)


def _is_blind(model: Model, people: People) -> bool:
    """Return whether the outputs depend on no column in which similar people differ."""
    varying = [axis for axis in people.axes if axis.reach] + list(people.protected)
    columns = [column for axis in varying for column in range(axis.columns.start, axis.columns.stop)]
    first = np.zeros((1, len(people.axes)), np.int64)
    last = np.array([[axis.cells - 1 for axis in people.axes]], np.int64)
    lower, upper = people.hulls(first, last, people.piece_hulls)
    sizes = np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)
    depends, overflows = dependent_columns(model, columns, sizes)
    return not (depends.any() or overflows.any())
