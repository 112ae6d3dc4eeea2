"""Which share of a box is proven to be treated equally, and which unequally.

In each box there is one linear form g of the unprotected columns, and for each piece p of the protected values two
numbers with ``g(x) + a_p <= lead(x, p) <= g(x) + b_p`` for every person x of the box. So class 1 is proven for piece p
where g is above a threshold, class 0 where g is below another, and the shares are counted from the distribution of g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmend.arrays import Floats, Ints
from fairmend.bounds.enclosure import TINY, gamma
from fairmend.bounds.inference import closing_error, lead_error
from fairmend.network import Network
from fairmend.network.decision import enclose_log_odds
from fairmend.quantify.count import BINS, Terms, distribution
from fairmend.quantify.forms import LeadForms, lead_forms
from fairmend.quantify.space import Axis, Boxes, Space

__all__ = ["Decided", "Decider"]

_SEGMENTS = 128  # of a feature in a box; more values are counted in groups
_ROUGHNESS = 150  # how many bins the slab should be wide at least


@dataclass(frozen=True, eq=False)
class Decided:
    """What is proven about boxes: shares of each box, and what to do next; all ``(n,)``.

    ``fair`` and ``unfair`` are lower bounds of shares. ``axis`` is where to split, or -1; ``error`` bounds the error of
    inference over the box.
    """

    fair: Floats
    unfair: Floats
    axis: Ints
    error: Floats

    @property
    def open(self) -> Floats:
        """The share of each box that is undecided."""
        return np.maximum(1.0 - self.fair - self.unfair, 0.0)


class ProtectedTerms(NamedTuple):
    """The least and most of the protected part of a form over each piece, and a bound of its size: ``(n, pieces)``.

    ``at_most (n, pieces, protected axes)`` are the cells where it is most.
    """

    least: Floats
    most: Floats
    size: Floats
    at_most: Ints


class Decider:
    """Decides boxes of a space for a network with two classes."""

    def __init__(self, network: Network, space: Space, *, counting: bool = True, bins: int = BINS) -> None:
        self.network, self.space, self.counting, self.bins = network, space, counting, bins
        low, high = enclose_log_odds(network.threshold)
        closing = closing_error(network, np.array([0, 1]))  # a program may decide on probabilities of its own
        self._above = float(np.nextafter(high + closing[1], np.inf))
        self._below = float(np.nextafter(low - closing[0], -np.inf))

    def root_error(self) -> float:
        """Return a bound of the error of inference for all people."""
        return float(self._error_over(self.space.root())[0])

    def _error_over(self, boxes: Boxes) -> Floats:
        low, high = self.space.with_pieces(*self.space.hull(boxes, similar=True))
        classes = np.ones(len(low), np.int64)
        error = lead_error(self.network, low, high, classes, thorough=True)
        return np.asarray(error.reshape(len(boxes), -1).max(axis=1))

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of inference over each ``(n,)``."""
        space = self.space
        lower, upper = space.hull(boxes, similar=True)
        forms = lead_forms(self.network, *space.with_pieces(lower, upper))
        least, most = self._lead_bounds(boxes, forms)
        above, below = _up(self._above + error), _down(self._below - error)
        positive, negative = least > above[:, None], most < below[:, None]
        all_fair = positive.all(axis=1) | negative.all(axis=1)
        all_unfair = positive.any(axis=1) & negative.any(axis=1)
        fair, unfair = np.where(all_fair, 1.0, 0.0), np.where(all_unfair, 1.0, 0.0)
        rest = np.flatnonzero(~(all_fair | all_unfair))
        axis, slab = self._axis(boxes, forms, lower, upper), np.full(len(rest), np.inf)
        if len(rest) and self.counting:
            some = _take(forms, rest, space.pieces)
            fair[rest], unfair[rest], slab = self._count(boxes.take(rest), some, above[rest], below[rest])
        tighter = error.copy()
        tighter[rest] = self._tighter(boxes.take(rest), error[rest], slab)
        cells = np.flatnonzero((axis == -1) & (tighter < 0.9 * error))
        if len(cells):  # they are not split, so this is the last time that they are decided
            again = self.decide(boxes.take(cells), tighter[cells])
            fair[cells], unfair[cells], tighter[cells] = again.fair, again.unfair, again.error
        return Decided(fair, unfair, axis, tighter)

    def witnesses(self, boxes: Boxes) -> tuple[Ints, Ints]:
        """Return the protected cells with the highest and the lowest lead in each box, each ``(n, protected axes)``."""
        forms = lead_forms(self.network, *self.space.with_pieces(*self.space.hull(boxes, similar=True)))
        rows = np.arange(len(boxes))
        cells = []
        for A, c, sign in ((forms.A_low, forms.c_low, 1), (forms.A_high, forms.c_high, -1)):
            ends = self._protected_terms(sign * A)
            lead = self._least(boxes, sign * A, sign * c, ends, similar=False) + (ends.most - ends.least).ravel()
            piece = lead.reshape(len(boxes), -1).argmax(axis=1)
            cells.append(ends.at_most[rows, piece])
        return cells[0], cells[1]

    def _lead_bounds(self, boxes: Boxes, forms: LeadForms) -> tuple[Floats, Floats]:
        """Return bounds of the lead of all similar people in each box, each ``(n, pieces)``."""
        low, high = self._protected_terms(forms.A_low), self._protected_terms(-forms.A_high)
        least = np.maximum(forms.least, self._least(boxes, forms.A_low, forms.c_low, low, similar=True))
        most = np.minimum(forms.most, -self._least(boxes, -forms.A_high, -forms.c_high, high, similar=True))
        return least.reshape(len(boxes), -1), most.reshape(len(boxes), -1)

    def _protected_terms(self, A: Floats) -> ProtectedTerms:
        """Return the ends of the protected part of forms A ``(n * pieces, inputs)``."""
        space, n = self.space, len(A) // self.space.pieces
        least, most, size = np.zeros((3, n, space.pieces))
        at_most = np.zeros((n, space.pieces, len(space.protected)), np.int64)
        for k, axis in enumerate(space.protected):
            first, last = (np.tile(ends[:, k], n) for ends in (space.first, space.last))
            values, cells = _end_values(axis, A[:, axis.columns], first, last)
            for total, part in ((least, values.min(axis=1)), (most, values.max(axis=1))):
                total += part.reshape(n, -1)
            size += np.abs(values).max(axis=1).reshape(n, -1)
            place = values.argmax(axis=1)[:, None]
            at_most[:, :, k] = np.take_along_axis(cells, place, axis=1).reshape(n, -1)
        return ProtectedTerms(least, most, size, at_most)

    def _least(self, boxes: Boxes, A: Floats, c: Floats, protected: ProtectedTerms, *, similar: bool) -> Floats:
        """Return lower bounds ``(n * pieces,)`` of forms A·x + c over each box with each piece."""
        space = self.space
        least, size = protected.least.ravel().copy(), protected.size.ravel().copy()
        for k, axis in enumerate(space.axes):
            first, last = boxes.first[:, k], boxes.last[:, k]
            if similar and axis.reach:
                first, last = np.maximum(first - axis.reach, 0), np.minimum(last + axis.reach, axis.cells - 1)
            ends = (np.repeat(end, space.pieces) for end in (first, last))
            values = _end_values(axis, A[:, axis.columns], *ends)[0]
            least += values.min(axis=1)
            size += np.abs(values).max(axis=1)
        slack = gamma(2 * A.shape[1] + 16) * (size + np.abs(c)) + TINY
        bound = np.nextafter(least + c - slack, -np.inf)
        return np.where(np.isnan(bound), -np.inf, bound)

    def _count(self, boxes: Boxes, forms: LeadForms, above: Floats, below: Floats) -> tuple[Floats, Floats, Floats]:
        """Return shares that are fair and unfair, and the width of the slab of g in between."""
        space, n = self.space, len(boxes)
        shape = (n, space.pieces, -1)
        g = (forms.A_low.reshape(shape).mean(axis=1) + forms.A_high.reshape(shape).mean(axis=1)) / 2
        g[:, space.columns] = 0.0
        each = np.repeat(g, space.pieces, axis=0)
        low, high = self._protected_terms(forms.A_low), self._protected_terms(-forms.A_high)
        a = self._least(boxes, forms.A_low - each, forms.c_low, low, similar=False).reshape(n, -1)
        b = -self._least(boxes, each - forms.A_high, -forms.c_high, high, similar=False).reshape(n, -1)
        lower, higher = self._similar(forms, n)
        all_positive = np.nextafter(above - _down((a - lower).min(axis=1)), np.inf)
        all_negative = np.nextafter(below - _up((b + higher).max(axis=1)), -np.inf)
        gain, fall = self._sure_steps(boxes, forms)
        # One person of a piece is enough to show unequal treatment: the one with the best protected values.
        best = _down(_down(a + _down(low.most - low.least)) + gain).max(axis=1)
        worst = _up(_up(b - _down(high.most - high.least)) - fall).min(axis=1)
        some_positive, some_negative = np.nextafter(above - best, np.inf), np.nextafter(below - worst, -np.inf)
        slab = all_positive - all_negative
        fair, unfair = np.zeros((2, n))
        for bins, part in self._precision(boxes, g, slab):
            values = distribution(self._terms(boxes.take(part), g[part]), bins)
            fair[part] = values.above(all_positive[part]) + values.below(all_negative[part])
            unfair[part] = values.between(some_positive[part], some_negative[part])
        return fair, unfair, slab

    def _precision(self, boxes: Boxes, g: Floats, slab: Floats) -> list[tuple[int, Ints]]:
        """Return numbers of bins and the boxes that need them: more, where bins would be wide beside the slab."""
        lower, upper = self.space.hull(boxes, similar=False)
        values = (np.abs(g) * (upper - lower)).sum(axis=1)
        coarse = values * _ROUGHNESS > self.bins * slab
        parts = [(self.bins, np.flatnonzero(~coarse)), (4 * self.bins, np.flatnonzero(coarse))]
        return [(bins, part) for bins, part in parts if len(part)]

    def _similar(self, forms: LeadForms, n: int) -> tuple[Floats, Floats]:
        """Return how much lower, and higher, the forms can be for similar people, each ``(n, pieces)``, rounded up."""
        lower, higher = np.zeros((2, len(forms.A_low)))
        for axis in self.space.axes:
            if axis.reach:
                lower += np.abs(forms.A_low[:, axis.columns][:, 0]) * axis.longest_step
                higher += np.abs(forms.A_high[:, axis.columns][:, 0]) * axis.longest_step
        room = 1 + gamma(len(self.space.axes) + 4)
        return (lower * room).reshape(n, -1), (higher * room).reshape(n, -1)

    def _sure_steps(self, boxes: Boxes, forms: LeadForms) -> tuple[Floats, Floats]:
        """Return by how much some similar person's lead is above the lower form, and below the upper one.

        This holds for everyone in a box that is a full tolerance away from the end of the range.
        """
        n = len(boxes)
        gain, fall = np.zeros((2, n, self.space.pieces))
        for k, axis in enumerate(self.space.axes):
            if axis.surely:
                up = (boxes.last[:, k] + axis.surely < axis.cells)[:, None]
                down = (boxes.first[:, k] >= axis.surely)[:, None]
                A = forms.A_low[:, axis.columns].reshape(n, -1)
                gain += np.where(np.where(A > 0, up, down), np.abs(A) * axis.sure_step, 0.0)
                A = forms.A_high[:, axis.columns].reshape(n, -1)
                fall += np.where(np.where(A > 0, down, up), np.abs(A) * axis.sure_step, 0.0)
        room = 1 - gamma(len(self.space.axes) + 4)
        return gain * room, fall * room

    def _terms(self, boxes: Boxes, g: Floats) -> list[Terms]:
        return [self._axis_terms(boxes, k, g) for k in range(len(self.space.axes))]

    def _axis_terms(self, boxes: Boxes, k: int, g: Floats) -> Terms:
        """Return the terms of g on one axis, in segments of cells."""
        axis = self.space.axes[k]
        first, size = boxes.first[:, k : k + 1], (boxes.last - boxes.first)[:, k : k + 1] + 1
        segments = min(_SEGMENTS, int(size.max()))
        edges = first + size * np.arange(segments + 1) // segments
        start, end = edges[:, :-1], edges[:, 1:]
        weight = (end - start) / size
        stop = np.maximum(end - 1, start)
        stop = np.minimum(stop, axis.cells - 1)
        start = np.minimum(start, axis.cells - 1)
        A = g[:, axis.columns]
        if not axis.one_hot:
            ends = A * axis.low[start, 0], A * axis.high[stop, 0]
            return Terms(np.minimum(*ends), np.maximum(*ends), weight)
        if segments < int(size.max()):  # a group of categories
            values = A @ axis.low.T
            groups = np.arange(axis.cells)
            among = (groups >= start[:, :, None]) & (groups <= stop[:, :, None])
            low = np.where(among, values[:, None], np.inf).min(axis=2)
            return Terms(low, np.where(among, values[:, None], -np.inf).max(axis=2), weight)
        term = np.take_along_axis(A @ axis.low.T, start, axis=1)
        return Terms(term, term, weight)

    def _tighter(self, boxes: Boxes, error: Floats, slab: Floats) -> Floats:
        """Return the error of inference, computed again for single cells and where it makes up much of the slab."""
        again = np.flatnonzero((8 * error > slab) | (boxes.first == boxes.last).all(axis=1))
        if len(again):
            error = error.copy()
            error[again] = np.minimum(error[again], self._error_over(boxes.take(again)))
        return error

    def _axis(self, boxes: Boxes, forms: LeadForms, lower: Floats, upper: Floats) -> Ints:
        """Return the axis that adds most to the distance between the forms; -1 for a box of a single cell."""
        n = len(boxes)
        widths = upper - lower
        loose = forms.looseness.reshape(n, self.space.pieces, -1).mean(axis=1) * widths
        steep = np.abs(forms.A_low).reshape(n, self.space.pieces, -1).mean(axis=1) * widths
        column_scores = loose + 1e-9 * steep + 1e-300
        score = np.stack([column_scores[:, axis.columns].sum(axis=1) for axis in self.space.axes], 1)
        splits = boxes.last > boxes.first
        return np.where(splits.any(axis=1), np.where(splits, score, -1.0).argmax(axis=1), -1)


def _end_values(axis: Axis, A: Floats, first: Ints, last: Ints) -> tuple[Floats, Ints]:
    """Return terms A·x of an axis that hold its least and most from first to last ``(n,)``, and the cells they are of.

    Both are ``(n, terms)``. Of a one-hot axis, these are all categories; those out of the range repeat one of its ends.
    """
    if not axis.one_hot:
        return np.stack([A[:, 0] * axis.low[first, 0], A[:, 0] * axis.high[last, 0]], 1), np.stack([first, last], 1)
    cells = np.minimum(np.maximum(np.arange(axis.cells), first[:, None]), last[:, None])
    return np.take_along_axis(A @ axis.low.T, cells, axis=1), cells


def _down(values: Floats) -> Floats:
    return np.asarray(np.nextafter(values, -np.inf))


def _up(values: Floats) -> Floats:
    return np.asarray(np.nextafter(values, np.inf))


def _take(forms: LeadForms, boxes: Ints, pieces: int) -> LeadForms:
    rows = (boxes[:, None] * pieces + np.arange(pieces)).ravel()
    return LeadForms(*(part[rows] for part in vars(forms).values()))
