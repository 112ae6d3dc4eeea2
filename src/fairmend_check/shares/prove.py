"""Which share of all people is treated equally, and which unequally: the sum over the leaves of a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.leaves import LISTED, NOTHING, WHOLE, Leaves
from fairmend_check.shares.listing import LISTED_INPUTS, count_inputs, list_people
from fairmend_check.shares.people import Boxes, People
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts

FEW_INPUTS = 2**9  # of a leaf: so few are listed in any case
MAX_NUMBERS = 2**26  # in the forms by which the people of a leaf are counted: those of all pieces
_HALVINGS = 4  # of a leaf that is claimed as a whole
_NUMBERS, _MOST_LEAVES = 2**19, 2**11  # in the columns of the leaves that are checked at once
_COEFFICIENTS = 2**22  # of the forms of these leaves


@dataclass
class Proven:
    """How many cells of all people are treated equally, and unequally: at least so many of all ``cells``."""

    cells: int
    fair: int = 0
    unfair: int = 0

    def add(self, found: Counts, boxes: Boxes) -> None:
        """Add what is found in boxes."""
        self.fair += _sum_cells(found.fair.tolist(), found.exact.tolist(), boxes.cells)
        self.unfair += _sum_cells(found.unfair.tolist(), found.exact.tolist(), boxes.cells)


def prove_shares(
    model: Model, spec: Spec, people: People, leaves: Leaves, progress: Callable[[int, int], None] | None = None
) -> Proven:
    """Return what can be proven of the leaves, which together are all people."""
    proven = Proven(people.cells)
    if is_blind(model, people):
        proven.fair = people.cells
        return proven
    leaves = leaves.take(np.flatnonzero(leaves.proof != NOTHING))
    done, count, inputs = 0, len(leaves.proof), _listed_inputs(people, leaves)
    prover = Prover(model, spec, people)
    if prover.coefficients > MAX_NUMBERS:
        raise CheckError("certificate.shares: a box needs more numbers than the limit, with so many pieces and classes")
    pieces = len(people.pieces.first)
    prover.work.require(prover.bounds_work(count, pieces) + prover.work.of_inputs(int(inputs.sum())))  # at least that
    columns = pieces * max(prover.forms, model.held)
    step = max(1, min(_MOST_LEAVES, _NUMBERS // columns, _COEFFICIENTS // prover.coefficients))
    for part in leaves.parts(step):
        with np.errstate(all="ignore"):  # of what overflows, nothing is proven
            _prove_leaves(prover, part, proven, _HALVINGS, step)
        done += len(part.proof)
        if progress is not None:
            progress(done, count)
    if proven.fair + proven.unfair > proven.cells:
        raise CheckError("certificate.shares: more people are counted than there are; this is an error of the checker")
    return proven


def _listed_inputs(people: People, leaves: Leaves) -> Array:
    """Return how many inputs of each leaf are listed (leaves,); 0 where it is not to be listed."""
    inputs = count_inputs(people, leaves)
    return np.where(inputs <= np.where(leaves.proof == LISTED, LISTED_INPUTS, FEW_INPUTS), inputs, 0)


def _prove_leaves(prover: Prover, leaves: Leaves, proven: Proven, halvings: int, step: int) -> None:
    """Add what can be proven of leaves; those that are claimed as a whole are halved if they are not proven at once.

    ``step`` is how many are proven at once, of the leaves and of their halves.
    """
    listed = _listed_inputs(prover.people, leaves) > 0
    split = (leaves.proof == WHOLE) & ~listed & prover.people.divisible(leaves).any(axis=1) & (halvings > 0)
    found = prover.prove(leaves, ~listed & ~split)
    left = np.flatnonzero(found.fair + found.unfair == 0)
    list_people(prover, leaves, found, left[listed[left]])
    proven.add(found, leaves)
    again = leaves.take(left[split[left]])
    if len(again):
        halves = prover.people.halved(again, prover.widest_axis(again))
        for part in Leaves(halves.first, halves.last, np.full(len(halves), WHOLE)).parts(step):
            _prove_leaves(prover, part, proven, halvings - 1, step)


def _sum_cells(found: list[float], exact: list[bool], sizes: list[int]) -> int:
    """Return the sum of numbers of cells, given as such where they are exact, else as lower bounds of shares."""
    numbers = zip(found, exact, sizes, strict=True)
    return sum(int(count) if whole else math.floor(Fraction(count) * size) for count, whole, size in numbers if count)


def is_blind(model: Model, people: People) -> bool:
    """Return whether the outputs depend on no column in which similar people differ."""
    columns = [column for axis in people.varying for column in range(axis.columns.start, axis.columns.stop)]
    lower, upper = people.hulls(people.everyone, people.cases(1))
    sizes = np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)
    depends, overflows = dependent_columns(model, columns, sizes)
    return not (depends.any() or overflows.any())
