"""Linear forms below leads over boxes, and from where on they prove a lead; every bound is rounded the safe way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.bounds.enclosure import TINY, gamma
from fairmend.quantifying.cases import Cases, person_forms
from fairmend.quantifying.space import Axis, Boxes, Space


class ProtectedTerms(NamedTuple):
    """The least and the most of the protected part of a form over each piece, and its size: ``(n, pieces)``."""

    least: Floats
    most: Floats
    size: Floats


class Side(NamedTuple):
    """One lead in boxes: it is above ``need (n,)`` where its form ``A (n * pieces, width)``, ``c (n, pieces)`` is.

    The columns are those of people. ``sure (n, pieces)`` says where it is in the whole box.
    """

    A: Floats
    c: Floats
    need: Floats
    protected: ProtectedTerms
    sure: Bools

    def take(self, rows: Ints) -> Side:
        """Return some of the boxes."""
        A = self.A.reshape(*self.c.shape, self.A.shape[1])[rows].reshape(-1, self.A.shape[1])
        protected = ProtectedTerms(*(part[rows] for part in self.protected))
        return Side(A, self.c[rows], self.need[rows], protected, self.sure[rows])

    def piece(self, pieces: Ints) -> Side:
        """Return one piece of each box ``(n,)``."""
        rows, pieces = np.arange(len(pieces)), pieces
        A = self.A.reshape(*self.c.shape, self.A.shape[1])[rows, pieces]
        protected = ProtectedTerms(*(part[rows, pieces][:, None] for part in self.protected))
        return Side(A, self.c[rows, pieces][:, None], self.need, protected, self.sure[rows, pieces][:, None])


class Threshold(NamedTuple):
    """A lead is proven where the form ``g (n, width)`` of the unprotected columns is above ``value (n,)``."""

    g: Floats
    value: Floats


def make_side(space: Space, boxes: Boxes, form: tuple[Floats, Floats, Floats], need: Floats, cases: Cases) -> Side:
    """Return a lead with the form A, c above its interval's least, for all cases of boxes.

    A is ``(n * pieces, inputs)``; c, least and the cases have a row for each piece of each box as well.
    """
    A, c, least = form
    shape = len(boxes), len(A) // len(boxes)
    protected = protected_terms(space, A, cases.first, cases.last, shape)
    A, c = person_forms(space, boxes, cases, A, c)
    c = c.reshape(shape)
    linear = bound_forms(space, _ends(space, boxes, similar=True), A, c, protected.least, protected.size)
    return Side(A, c, need, protected, np.maximum(least.reshape(shape), linear) > need[:, None])


def common_threshold(space: Space, boxes: Boxes, side: Side) -> Threshold:
    """Return from where on a lead is proven for all pieces and all similar people."""
    g = side.A.reshape(*side.c.shape, side.A.shape[1]).mean(axis=1)
    g[:, space.columns] = 0.0
    rest = side.A - np.repeat(g, side.c.shape[1], axis=0)
    a = bound_forms(space, (boxes.first, boxes.last), rest, side.c, side.protected.least, side.protected.size)
    a = down(a - farther(space, side.A).reshape(a.shape)).min(axis=1)
    return Threshold(g, up(side.need - a))


def best_threshold(space: Space, boxes: Boxes, side: Side, g: Floats) -> Floats:
    """Return from which g on a lead is proven for someone of the single piece that a side has.

    One person is enough: the one with the best protected values, and the best other values within tolerances.
    """
    ends = boxes.first, boxes.last
    a = bound_forms(space, ends, side.A - g, side.c, side.protected.most, side.protected.size)[:, 0]
    return up(side.need - down(a + surely(space, boxes, side.A)))


def protected_terms(space: Space, A: Floats, first: Ints, last: Ints, shape: tuple[int, int]) -> ProtectedTerms:
    """Return the protected part of forms ``A (n * pieces, inputs)`` over cells first to last of each row."""
    least, most, size = np.zeros((3, len(A)))
    for k, axis in enumerate(space.protected):
        values = _end_values(axis, A[:, axis.columns], first[:, k], last[:, k])
        least += values.min(axis=1)
        most += values.max(axis=1)
        size += np.abs(values).max(axis=1)
    return ProtectedTerms(least.reshape(shape), most.reshape(shape), size.reshape(shape))


def _ends(space: Space, boxes: Boxes, *, similar: bool) -> tuple[Ints, Ints]:
    """Return the first and last cells of boxes; with ``similar``, of all similar people."""
    if not similar:
        return boxes.first, boxes.last
    reach = np.array([axis.reach for axis in space.axes])
    highest = np.array([axis.cells - 1 for axis in space.axes])
    return np.maximum(boxes.first - reach, 0), np.minimum(boxes.last + reach, highest)


def bound_forms(space: Space, ends: tuple[Ints, Ints], A: Floats, c: Floats, more: Floats, size: Floats) -> Floats:
    """Return lower bounds ``(n, pieces)`` of the unprotected part of forms A over cells, plus c and ``more``.

    A has a row for each piece of each box; ``size`` bounds what was added up in ``more``.
    """
    pieces = c.shape[1]
    first, last = (np.repeat(end, pieces, axis=0) if pieces > 1 else end for end in ends)
    least, sizes = np.zeros((2, len(A)))
    for k, axis in enumerate(space.axes):
        values = _end_values(axis, A[:, axis.columns], first[:, k], last[:, k])
        least += values.min(axis=1)
        sizes += np.abs(values).max(axis=1)
    least, sizes = least.reshape(c.shape) + more, sizes.reshape(c.shape) + size
    slack = gamma(2 * A.shape[1] + 16) * (sizes + np.abs(c)) + TINY
    bound = np.nextafter(least + c - slack, -np.inf)
    return np.where(np.isnan(bound), -np.inf, bound)


def farther(space: Space, A: Floats) -> Floats:
    """Return how much lower forms A can be for similar people, rounded up."""
    lower = np.zeros(len(A))
    for axis in space.axes:
        if axis.reach:
            lower += np.abs(A[:, axis.columns][:, 0]) * axis.longest_step
    return lower * (1 + gamma(len(space.axes) + 4))


def surely(space: Space, boxes: Boxes, A: Floats) -> Floats:
    """Return by how much some similar person's form is higher, for forms A ``(n, inputs)``, rounded down.

    This holds for everyone in a box that is a full tolerance away from the end of the range.
    """
    gain = np.zeros(len(boxes))
    for k, axis in enumerate(space.axes):
        if axis.surely:
            rises, falls = boxes.last[:, k] + axis.surely < axis.cells, boxes.first[:, k] >= axis.surely
            slope = A[:, axis.columns][:, 0]
            gain += np.where(np.where(slope > 0, rises, falls), np.abs(slope) * axis.sure_step, 0.0)
    return gain * (1 - gamma(len(space.axes) + 4))


def _end_values(axis: Axis, A: Floats, first: Ints, last: Ints) -> Floats:
    """Return terms A·x of an axis that hold its least and most from first to last ``(n,)``: ``(n, terms)``.

    Of a one-hot axis, these are all categories; those out of the range repeat one of its ends.
    """
    if not axis.one_hot:
        return np.stack([A[:, 0] * axis.low[first, 0], A[:, 0] * axis.high[last, 0]], 1)
    cells = np.minimum(np.maximum(np.arange(axis.cells), first[:, None]), last[:, None])
    return np.take_along_axis(A @ axis.low.T, cells, axis=1)


def down(values: Floats) -> Floats:
    """Round to the next lower number."""
    return np.asarray(np.nextafter(values, -np.inf))


def up(values: Floats) -> Floats:
    """Round to the next higher number."""
    return np.asarray(np.nextafter(values, np.inf))
