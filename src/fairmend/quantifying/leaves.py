"""The boxes that a quantification has so far: they cover all people, and none overlap."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, nextafter, prod

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.quantifying.decide import Decided
from fairmend.quantifying.space import Boxes

_FEW = 2**20  # cells, of a box in which they may be decided one by one
_UNIT = float(np.finfo(np.float64).eps) / 2
_SMALLEST = 0.01  # of the undecided shares of a round: boxes that wait


class Leaves:
    """Boxes and what is proven about each; arrays grow as boxes are split."""

    def __init__(self, boxes: Boxes, shares: Floats, decided: Decided) -> None:
        self.count = 0
        self._axes = boxes.first.shape[1]
        self._first, self._last = (np.empty((0, self._axes), np.int64) for _ in range(2))
        self._numbers = np.empty((0, 4))  # share, fair, unfair (of the box), error of inference
        self._axis = np.empty((0, 1), np.int64)
        self._add(boxes, shares, decided)

    @property
    def boxes(self) -> Boxes:
        """All boxes."""
        return Boxes(self._first[: self.count], self._last[: self.count])

    @property
    def shares(self) -> Floats:
        """The share of each box among all people."""
        return self._numbers[: self.count, 0]

    @property
    def fair(self) -> Floats:
        """The share of each box that is proven to be treated equally."""
        return self._numbers[: self.count, 1]

    @property
    def unfair(self) -> Floats:
        """The share of each box that is proven to be treated unequally."""
        return self._numbers[: self.count, 2]

    @property
    def error(self) -> Floats:
        """A bound of the error of inference over each box."""
        return self._numbers[: self.count, 3]

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

    def replace(self, rows: Ints, boxes: Boxes, shares: Floats, decided: Decided) -> None:
        """Replace each of some boxes by both of its halves: all first halves, then all second halves."""
        n = len(rows)
        self._set(rows, boxes.take(slice(0, n)), shares[:n], decided, slice(0, n))
        self._add(boxes.take(slice(n, None)), shares[n:], decided, slice(n, None))

    def update(self, rows: Ints, decided: Decided) -> None:
        """Store what is now proven about some boxes."""
        self._set(rows, self.boxes.take(rows), self.shares[rows], decided, slice(None))

    def improve(self, rows: Ints, decided: Decided) -> None:
        """Store larger proven shares of some boxes."""
        better = decided.fair + decided.unfair > self.fair[rows] + self.unfair[rows]
        kept = rows[better]
        self._set(kept, self.boxes.take(kept), self.shares[kept], decided, better)

    @property
    def complete(self) -> bool:
        """Whether nothing is open: each box is decided as a whole, or everyone in it one by one."""
        small = (self.boxes.last - self.boxes.first + 1.0).prod(axis=1) <= _FEW
        listed = small & (self.fair + self.unfair > 1 - 4 * _UNIT)
        return bool(np.all((self.fair == 1) | (self.unfair == 1) | listed))

    def totals(self) -> tuple[float, float]:
        """Return lower bounds of the shares of all people who are treated equally, and unequally.

        A share is a product of one quotient for each axis, and each of the few operations on it is rounded once.
        """
        if self.complete:
            fair, unfair = (self._people(part) for part in (self.fair, self.unfair))
            return _round_down(Fraction(fair, fair + unfair)), _round_down(Fraction(unfair, fair + unfair))
        room = 1 - (4 * self._axes + 16) * _UNIT
        return fsum(self.shares * self.fair) * room, fsum(self.shares * self.unfair) * room

    def _people(self, shares: Floats) -> int:
        """Return the number of cells that shares of each box are: all, none, or a whole number of few cells."""
        sizes = (self.boxes.last - self.boxes.first + 1).tolist()
        parts = zip(shares.tolist(), sizes, strict=True)
        return sum(prod(size) if share == 1 else round(share * prod(size)) for share, size in parts if share)

    def _add(self, boxes: Boxes, shares: Floats, decided: Decided, part: slice = slice(None)) -> None:
        start, self.count = self.count, self.count + len(boxes)
        if self.count > len(self._first):
            room = max(1024, 2 * self.count)
            self._first, self._last = _grown(self._first, room), _grown(self._last, room)
            self._numbers, self._axis = _grown(self._numbers, room), _grown(self._axis, room)
        self._set(np.arange(start, self.count), boxes, shares, decided, part)

    def _set(self, rows: Ints, boxes: Boxes, shares: Floats, decided: Decided, part: slice | Bools) -> None:
        self._first[rows], self._last[rows] = boxes.first, boxes.last
        self._numbers[rows] = np.stack([shares, decided.fair[part], decided.unfair[part], decided.error[part]], 1)
        self._axis[rows, 0] = decided.axis[part]


def _round_down(share: Fraction) -> float:
    nearest = float(share)
    return nearest if nearest <= share else nextafter(nearest, 0.0)


def _grown(array: np.ndarray, rows: int) -> np.ndarray:
    larger = np.empty((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
