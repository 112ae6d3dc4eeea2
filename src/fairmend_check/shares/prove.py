"""Which share of all people is treated equally, and which unequally: the sum over the leaves of a certificate.

Leaves are all people, split again and again along one axis. Both halves of a split are disjoint and nothing is lost, so
the leaves contain everyone exactly once, whatever the file says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, packed_array, take
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.listing import LISTED_INPUTS, count_inputs, list_people
from fairmend_check.shares.people import Bools, Boxes, People, Whole, count_axes
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts

NOTHING, LINEAR, LISTED, WHOLE = 0, 1, 2, 3  # how a leaf is proven; of WHOLE ones, everyone is decided
_SPLITS = 4  # node _SPLITS + k is split along axis k
MAX_LEAVES = 2**22
MAX_ENDS = 2**25  # in the ends of all leaves
MAX_LEVELS = 10_000
MAX_DIVIDED = 2**32  # cells of a continuous feature
_WHERE = "certificate.shares"


@dataclass(frozen=True, eq=False)
class Leaves(Boxes):
    """Boxes, and how each is proven (leaves,)."""

    proof: Whole

    def take(self, rows: Whole | Bools | slice) -> Leaves:
        """Return some of the leaves."""
        return Leaves(self.first[rows], self.last[rows], self.proof[rows])

    def parts(self, size: int) -> Iterator[Leaves]:
        """Return the leaves in parts of this size."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def read_leaves(cells: list[int], nodes: NDArray[np.uint16], cuts: NDArray[np.uint32], where: str) -> Leaves:
    """Return the leaves of a tree of splits, for axes of so many cells.

    ``nodes`` are level by level: of one level, those of all lower halves of the level before, then the upper ones.
    ``cuts`` are the last cells of the lower halves, in the same order.
    """
    boxes = Boxes(np.zeros((1, len(cells)), np.int64), np.array([cells], np.int64).reshape(1, -1) - 1)
    found, node, cut = [], 0, 0
    while len(boxes):
        level = nodes[node : node + len(boxes)].astype(np.int64)
        node += len(boxes)
        if len(level) < len(boxes):
            raise CheckError(f"{where}.nodes: a split has no halves")
        whole = level < _SPLITS
        found.append((boxes.first[whole], boxes.last[whole], level[whole]))
        if len(found) > MAX_LEVELS:
            raise CheckError(f"{where}.nodes: the tree has more than {MAX_LEVELS:,} levels")
        axis, boxes = level[~whole] - _SPLITS, boxes.take(~whole)
        rows = np.arange(len(boxes))
        at = cuts[cut : cut + len(rows)].astype(np.int64)
        cut += len(rows)
        if len(at) < len(rows) or (axis >= len(cells)).any():
            raise CheckError(f"{where}: a split has no cut, or is along an axis that there is not")
        if not ((boxes.first[rows, axis] <= at) & (at < boxes.last[rows, axis])).all():
            raise CheckError(f"{where}.cuts: a cut is not inside its box")
        boxes = boxes.halved(axis, at)
    if node != len(nodes) or cut != len(cuts):
        raise CheckError(f"{where}: there are more nodes or cuts than the tree has")
    return Leaves(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@dataclass(frozen=True, eq=False)
class SharesProof:
    """How the shares that a certificate claims are proven.

    A continuous feature has so many ``cells``, and each protected feature is divided into so many ``pieces``. ``nodes``
    and ``cuts`` are the tree, as `read_leaves` takes it.
    """

    cells: int
    pieces: list[int]
    nodes: NDArray[np.uint16]
    cuts: NDArray[np.uint32]

    @property
    def leaves(self) -> int:
        """The number of leaves of the tree."""
        return len(self.cuts) + 1


def read_shares(data: dict[str, Any], spec: Spec) -> SharesProof:
    """Return the proof; refuse trees that are too large."""
    only_keys(data, ("fair", "unfair", "cells", "pieces", "leaves", "nodes", "cuts"), _WHERE)
    cells, pieces = take(data, "cells", int, _WHERE), take(data, "pieces", list, _WHERE)
    if not 1 <= cells <= MAX_DIVIDED or cells & (cells - 1):
        raise CheckError(f"{_WHERE}.cells is {cells}; it must be a power of 2 up to {MAX_DIVIDED:,}")
    if not all(type(count) is int and count >= 1 for count in pieces):
        raise CheckError(f"{_WHERE}.pieces must be a list of whole numbers from 1")
    leaves, axes = take(data, "leaves", int, _WHERE), count_axes(spec)
    if not 1 <= leaves <= min(MAX_LEAVES, MAX_ENDS // max(1, axes)):
        raise CheckError(f"{_WHERE}.leaves is {leaves}; it must be 1 to {min(MAX_LEAVES, MAX_ENDS // max(1, axes)):,}")
    nodes = packed_array(data, "nodes", (2 * leaves - 1,), "<u2", _WHERE)
    return SharesProof(cells, pieces, nodes, packed_array(data, "cuts", (leaves - 1,), "<u4", _WHERE))


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
