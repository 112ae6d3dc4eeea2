"""The boxes that a quantification has so far: they cover all people, and none overlap."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.quantifying.decide import Decided
from fairmend_check.shares.people import Boxes
from fairmend_check.shares.prove import Proven
from fairmend_check.shares.tally import Counts

_SMALLEST = 0.01  # of the undecided shares of a round: boxes that wait


class Leaves:
    """Boxes and what is proven about each; arrays grow as boxes are split. All people are the box ``everyone``."""

    def __init__(self, everyone: Boxes, decided: Decided) -> None:
        self.count, self._everyone = 0, everyone
        self._cells = (everyone.last - everyone.first + 1).astype(np.float64)
        self._first, self._last = (np.empty((0, everyone.first.shape[1]), np.int64) for _ in range(2))
        self._numbers = np.empty((0, 7))  # share; people who are fair, unfair, whether exact; these as shares; error
        self._axis = np.empty((0, 1), np.int64)
        self._add(everyone, decided)

    @property
    def boxes(self) -> Boxes:
        """All boxes."""
        return Boxes(self._first[: self.count], self._last[: self.count])

    @property
    def counts(self) -> Counts:
        """How many people of each box are proven to be treated equally, and unequally."""
        fair, unfair, exact = self._numbers[: self.count, 1:4].T
        return Counts(fair, unfair, exact > 0)

    @property
    def shares(self) -> Floats:
        """The share of each box among all people, roughly."""
        return self._numbers[: self.count, 0]

    @property
    def fair(self) -> Floats:
        """The share of each box that is proven to be treated equally, roughly."""
        return self._numbers[: self.count, 4]

    @property
    def unfair(self) -> Floats:
        """The share of each box that is proven to be treated unequally, roughly."""
        return self._numbers[: self.count, 5]

    @property
    def error(self) -> Floats:
        """A bound of the error of inference over each box."""
        return self._numbers[: self.count, 6]

    @property
    def axis(self) -> Ints:
        """Where to split each box; -1 for a single cell."""
        return self._axis[: self.count, 0]

    @property
    def open(self) -> Floats:
        """The share of all people who are undecided in each box."""
        return np.asarray(self.shares * np.maximum(1.0 - self.fair - self.unfair, 0.0))

    @property
    def open_count(self) -> int:
        """How many boxes are undecided and can be split."""
        return int(np.count_nonzero((self.axis >= 0) & (self.open > 0)))

    def widest_open(self, most: int) -> Ints:
        """Return the boxes that can be split with the largest undecided shares, at most so many.

        The smallest of them that have less than a hundredth of their shares together are left out: they take as long.
        """
        open_shares = np.where(self.axis >= 0, self.open, 0.0)
        most = min(most, self.count)
        largest = np.argpartition(-open_shares, most - 1)[:most]
        largest = largest[np.argsort(-open_shares[largest], kind="stable")]
        shares = open_shares[largest]
        before = np.cumsum(shares) - shares
        return np.sort(largest[(shares > 0) & (before < (1 - _SMALLEST) * shares.sum())])

    def replace(self, rows: Ints, boxes: Boxes, decided: Decided) -> None:
        """Replace each of some boxes by both of its halves: all first halves, then all second halves."""
        n = len(rows)
        self._set(rows, boxes.take(slice(0, n)), decided, slice(0, n))
        self._add(boxes.take(slice(n, None)), decided, slice(n, None))

    def update(self, rows: Ints, decided: Decided) -> None:
        """Store what is now proven about some boxes."""
        self._set(rows, self.boxes.take(rows), decided, slice(None))

    def improve(self, rows: Ints, decided: Decided) -> None:
        """Store larger proven shares of some boxes."""
        boxes = self.boxes.take(rows)
        fair, unfair = decided.counts.shares(boxes)
        better = fair + unfair > self.fair[rows] + self.unfair[rows]
        self._set(rows[better], boxes.take(better), decided, better)

    def totals(self) -> tuple[float, float, float]:
        """Return lower bounds of the shares of all people who are treated equally, and unequally, and the rest."""
        proven = Proven(self._everyone.cells[0])
        proven.add(self.counts, self.boxes)
        fair, unfair = (_round_down(Fraction(people, proven.cells)) for people in (proven.fair, proven.unfair))
        return fair, unfair, 0.0 if proven.fair + proven.unfair == proven.cells else 1.0 - (fair + unfair)

    def _add(self, boxes: Boxes, decided: Decided, part: slice = slice(None)) -> None:
        start, self.count = self.count, self.count + len(boxes)
        if self.count > len(self._first):
            room = max(1024, 2 * self.count)
            self._first, self._last = _grown(self._first, room), _grown(self._last, room)
            self._numbers, self._axis = _grown(self._numbers, room), _grown(self._axis, room)
        self._set(np.arange(start, self.count), boxes, decided, part)

    def _set(self, rows: Ints, boxes: Boxes, decided: Decided, part: slice | Bools) -> None:
        self._first[rows], self._last[rows] = boxes.first, boxes.last
        shares, counts = np.prod((boxes.last - boxes.first + 1) / self._cells, axis=1), decided.counts.take(part)
        numbers = shares, counts.fair, counts.unfair, counts.exact, *counts.shares(boxes), decided.error[part]
        self._numbers[rows] = np.stack(numbers, 1)
        self._axis[rows, 0] = decided.axis[part]


def _round_down(share: Fraction) -> float:
    nearest = float(share)
    return nearest if nearest <= share else math.nextafter(nearest, 0.0)


def _grown(array: np.ndarray, rows: int) -> np.ndarray:
    larger = np.empty((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
