"""Which share of all people is treated equally, and which unequally: proven for each leaf of a certificate.

In a leaf there is a linear form g of the unprotected columns, and for each piece of the protected values numbers with
``g(x) + a <= lead <= g(x) + b`` for everyone in the leaf, where the lead is the output of class 1, or the second output
minus the first. So class 1 is proven where g is above a threshold, and class 0 where it is below another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairmend_check.blindness import dependent_columns
from fairmend_check.bounds import input_forms, leads
from fairmend_check.errors import CheckError
from fairmend_check.inference_error import output_errors
from fairmend_check.model import Model
from fairmend_check.people import People
from fairmend_check.regions import box_work
from fairmend_check.rounding import TINY, Array, down, gamma, up
from fairmend_check.spec import Spec
from fairmend_check.split_tree import NOTHING, Leaves
from fairmend_check.tally import Tally, axis_terms, is_exact
from fairmend_check.threshold import Threshold

Whole = NDArray[np.int64]

MAX_WORK = 10**13  # multiplications for the bounds of all leaves: about two hours
_NUMBERS, _MOST_LEAVES = 2**19, 2**11  # in the columns of the leaves that are checked at once
_ROUNDED = 600  # terms are rounded to this part of what stays open in a leaf; so with six terms, 1 % more stays open


@dataclass
class Proven:
    """How many cells of all people are treated equally, and unequally: at least so many of all ``cells``."""

    cells: int
    fair: int = 0
    unfair: int = 0


def prove_shares(
    model: Model, spec: Spec, people: People, leaves: Leaves, progress: Callable[[int, int], None] | None = None
) -> Proven:
    """Return what can be proven of the leaves, which together are all people."""
    proven = Proven(people.cells)
    if _is_blind(model, spec, people):
        proven.fair = people.cells
        return proven
    rows = np.flatnonzero(leaves.claim != NOTHING)
    if len(rows) * people.pieces * box_work(model) > MAX_WORK:
        raise CheckError("certificate.shares: there are more boxes to check than the limit for this model")
    prover = _Prover(model, spec, people)
    step = max(1, min(_MOST_LEAVES, _NUMBERS // (people.pieces * max(model.widths))))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        found = prover.prove(leaves.first[part], leaves.last[part])
        sizes = [math.prod(size) for size in (leaves.last[part] - leaves.first[part] + 1).tolist()]
        proven.fair += _sum_cells(found.fair, found.exact, sizes)
        proven.unfair += _sum_cells(found.unfair, found.exact, sizes)
        if progress is not None:
            progress(min(start + step, len(rows)), len(rows))
    return proven


def _is_blind(model: Model, spec: Spec, people: People) -> bool:
    """Return whether the outputs depend on no column in which similar people differ."""
    varying = [axis for axis in people.axes if axis.reach] + list(people.protected)
    columns = [column for axis in varying for column in range(axis.columns.start, axis.columns.stop)]
    first = np.zeros((1, len(people.axes)), np.int64)
    lower, upper = people.hulls(first, np.array([[axis.cells - 1 for axis in people.axes]], np.int64))
    sizes = np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)
    depends, overflows = dependent_columns(model, columns, sizes)
    return not (depends.any() or overflows.any())


def _sum_cells(found: Array, exact: NDArray[np.bool_], sizes: list[int]) -> int:
    """Return the sum of numbers of cells, given as such where they are exact, else as lower bounds of shares."""
    numbers = zip(found.tolist(), exact.tolist(), sizes, strict=True)
    return sum(int(count) if whole else math.floor(Fraction(count) * size) for count, whole, size in numbers if count)


@dataclass(frozen=True, eq=False)
class _Found:
    """What is proven of leaves (leaves,): numbers of cells where these are ``exact``, else shares."""

    fair: Array
    unfair: Array
    exact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Side:
    """One of two directions: the lead of a class over the other is at least A·x + c, and ``least`` in all of the box.

    A is (leaves * pieces, inputs), the others (leaves, pieces). The class is proven where its lead is above ``need``.
    """

    A: Array
    c: Array
    least: Array
    need: Array


class _Prover:
    """Proves leaves of one model and spec."""

    def __init__(self, model: Model, spec: Spec, people: People) -> None:
        self._model, self._people = model, people
        self._threshold = Threshold.of(spec.threshold, model.dtype)
        both = [leads(model, np.array([label]))[0] for label in (1, 0)]
        self._forms = np.concatenate(both)  # the lead of class 1 and that of class 0

    def prove(self, first: Whole, last: Whole) -> _Found:
        """Return what can be proven of boxes first..last (leaves, axes)."""
        sides = self._sides(first, last)
        proven = [side.least > side.need for side in sides]
        fair = np.asarray(proven[0].all(axis=1) | proven[1].all(axis=1))
        unfair = np.asarray(proven[0].any(axis=1) & proven[1].any(axis=1))
        found = _Found(fair.astype(np.float64), unfair.astype(np.float64), np.zeros(len(first), np.bool_))
        rest = np.flatnonzero(~(fair | unfair))
        if len(rest) and self._people.axes:
            self._count(first[rest], last[rest], [_subset(side, rest) for side in sides], found, rest)
        return found

    def _sides(self, first: Whole, last: Whole) -> list[_Side]:
        """Return the bounds of the leads of class 1 and of class 0."""
        lower, upper = self._people.hulls(first, last)
        forms = np.broadcast_to(self._forms, (len(lower), *self._forms.shape))
        found = input_forms(self._model, forms, lower, upper)
        shape = len(first), self._people.pieces
        error = output_errors(self._model, lower, upper, found.nodes, forms[:, :1])[:, 0].reshape(shape)
        sides = []
        for k, (log_odds, gap) in enumerate(
            ((self._threshold.high, self._threshold.above), (-self._threshold.low, self._threshold.below))
        ):
            side = _Side(found.A[:, k], found.c[:, k].reshape(shape), np.empty(0), up(up(error + gap) + log_odds))
            protected = self._protected_ends(side.A, inside=False)[0]
            linear = self._least(first, last, side.A, side.c, similar=True, more=protected)
            sides.append(replace(side, least=np.maximum(found.least[:, k].reshape(shape), linear)))
        return sides

    def _count(self, first: Whole, last: Whole, sides: list[_Side], found: _Found, rows: Whole) -> None:
        """Count people of leaves that are not decided as a whole, and note them in these rows of what is found."""
        people, shape = self._people, (len(first), self._people.pieces, self._model.inputs)
        g = (sides[0].A.reshape(shape).mean(axis=1) - sides[1].A.reshape(shape).mean(axis=1)) / 2
        g[:, people.protected_columns] = 0.0
        each = np.repeat(g, people.pieces, axis=0)
        everyone, someone = [], []  # what g, or its negative, must exceed for one class of all, or of someone
        for side, form in zip(sides, (each, -each), strict=True):
            rest = self._least(first, last, side.A - form, side.c, similar=False)
            farther, surely = self._similar(first, last, side.A)
            least, most = self._protected_ends(side.A, inside=False)[0], self._protected_ends(side.A, inside=True)[1]
            everyone.append(up(side.need - down(down(rest + least) - farther)).max(axis=1))
            someone.append(up(side.need - down(down(rest + most) + surely)).min(axis=1))
        exact = is_exact(first, last)
        terms = [
            axis_terms(axis, g[:, axis.columns], first[:, k], last[:, k], exact) for k, axis in enumerate(people.axes)
        ]
        tally = Tally(terms, exact, (everyone[0] + everyone[1]) / _ROUNDED)
        most = np.full(len(rows), np.inf)
        fair = tally.between(everyone[0], most) + tally.between(-most, -everyone[1])
        found.fair[rows] = np.where(exact, fair, np.minimum(fair, 1.0))
        found.unfair[rows] = tally.between(someone[0], -someone[1])
        found.exact[rows] = exact

    def _least(
        self, first: Whole, last: Whole, A: Array, c: Array, *, similar: bool, more: Array | float = 0.0
    ) -> Array:
        """Return lower bounds of A·x + c + more over the unprotected columns of boxes (leaves, pieces).

        A is (leaves * pieces, inputs). With ``similar``, x are all who are similar to people in the boxes.
        """
        people = self._people
        least, size = c + more, np.abs(c) + np.abs(more)
        for k, axis in enumerate(people.axes):
            ends = people.similar(axis, first[:, k], last[:, k]) if similar else (first[:, k], last[:, k])
            values = axis.ends(A[:, axis.columns], *(np.repeat(end, people.pieces) for end in ends))
            least = least + values.min(axis=1).reshape(c.shape)
            size = size + np.abs(values).max(axis=1).reshape(c.shape)
        return down(least - (gamma(len(people.axes) + 8) * size + TINY))

    def _protected_ends(self, A: Array, *, inside: bool) -> tuple[Array, Array]:
        """Return lower bounds of the least and of the largest protected part of forms, each (leaves, pieces)."""
        people = self._people
        least, most, size = np.zeros((3, len(A)))
        for k, axis in enumerate(people.protected):
            first, last = (np.tile(ends[:, k], len(A) // people.pieces) for ends in (people.first, people.last))
            values = axis.ends(A[:, axis.columns], first, last, inside=inside)
            least, most = least + values.min(axis=1), most + values.max(axis=1)
            size = size + np.abs(values).max(axis=1)
        slack = gamma(len(people.protected) + 8) * size + TINY
        return (down(least - slack).reshape(-1, people.pieces), down(most - slack).reshape(-1, people.pieces))

    def _similar(self, first: Whole, last: Whole, A: Array) -> tuple[Array, Array]:
        """Return by how much forms A of similar people can be lower, and are higher for someone, within tolerances.

        Each is (leaves, pieces). Someone has a value that is higher, or lower, by the tolerance, unless that is outside
        its range for people of the box.
        """
        shape = len(first), self._people.pieces
        lower, higher = np.zeros((2, *shape))
        for k, axis in enumerate(self._people.axes):
            if axis.reach:
                slope = A[:, axis.columns].reshape(shape)
                least, most = axis.steps
                rises = (last[:, k] + axis.reach < axis.cells)[:, None]
                falls = (first[:, k] >= axis.reach)[:, None]
                lower = lower + np.abs(slope) * most
                higher = higher + np.where(np.where(slope > 0, rises, falls), np.abs(slope) * least, 0.0)
        room = gamma(2 * len(self._people.axes) + 8)
        return lower * (1 + room) + TINY, np.maximum(higher * (1 - room) - TINY, 0.0)


def _subset(side: _Side, rows: Whole) -> _Side:
    pieces = side.c.shape[1]
    of_pieces = (rows[:, None] * pieces + np.arange(pieces)).ravel()
    return _Side(side.A[of_pieces], side.c[rows], side.least[rows], side.need[rows])
