"""How many people of a box are on one side of a linear form: counted exactly, or rounded down.

A linear form over a box is a sum of one term for each axis, and the terms are independent. On one axis, the widest, all
terms are kept. Those of the others are rounded down to whole multiples of a power of 2, so that their sums are whole
numbers, and how many people have which sum follows by convolution. No number of a convolution is negative, so each
result is off by no more than its own rounding. Counts below 2^53 are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.rounding import Array, U, down, gamma, up
from fairmend_check.shares.people import Axis

Whole = NDArray[np.int64]

MAX_TERMS = 128  # on an axis of a box; neighbouring cells share a term where there are more
_MOST_MERGED = 512  # terms of axes that are added up without rounding
_PER_TERM = 200  # what a term costs, in multiplications
_EXACT = 2.0**53
_LARGEST = 2.0**300
_LEAST_SUMS, MOST_SUMS = 128, 1024  # different sums of rounded terms in a box; up to twice as many


@dataclass(frozen=True, eq=False)
class Counts:
    """How many people of boxes are treated equally, and unequally, at least (boxes,).

    Numbers of cells where ``exact``, else shares of the box.
    """

    fair: Array
    unfair: Array
    exact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a form on one axis of boxes: each from ``low`` to ``high``, and how much weight it has; (boxes, terms).

    The weight is a number of cells, or a share of the box where that would not be exact. It may be 0.
    """

    low: Array
    high: Array
    weight: Array

    def take(self, rows: NDArray[np.int64]) -> Terms:
        """Return the terms of some boxes."""
        return Terms(self.low[rows], self.high[rows], self.weight[rows])

    @property
    def least(self) -> Array:
        """The least term of each box (boxes,)."""
        return np.asarray(np.where(self.weight > 0, self.low, np.inf).min(axis=1))

    @property
    def most(self) -> Array:
        """The largest term of each box (boxes,)."""
        return np.asarray(np.where(self.weight > 0, self.high, -np.inf).max(axis=1))


def is_exact(first: Whole, last: Whole) -> NDArray[np.bool_]:
    """Return whether the cells of boxes (boxes, axes) can be counted without rounding."""
    with np.errstate(over="ignore"):
        return np.asarray(np.prod((last - first + 1).astype(np.float64), axis=1) < _EXACT)


def axis_terms(axis: Axis, A: Array, first: Whole, last: Whole, exact: NDArray[np.bool_]) -> Terms:
    """Return the terms A·x of an axis in boxes, for coefficients A (boxes, width) and cells first to last (boxes,)."""
    size = last - first + 1
    count = min(MAX_TERMS, int(size.max()))
    edges = first[:, None] + size[:, None] * np.arange(count + 1) // count
    weight = np.diff(edges, axis=1) / np.where(exact, 1, size)[:, None]
    start = np.minimum(edges[:, :-1], last[:, None])
    stop = np.maximum(edges[:, 1:] - 1, start)
    if axis.one_hot:
        return _category_terms(axis.categories(A), start, stop, weight)
    ends = A * axis.lower(start), A * axis.upper(stop)
    zero = A == 0
    low, high = np.minimum(*ends), np.maximum(*ends)
    return Terms(np.where(zero, 0.0, down(low)), np.where(zero, 0.0, up(high)), weight)


def _category_terms(values: Array, start: Whole, stop: Whole, weight: Array) -> Terms:
    """Return the terms of categories start to stop, given that of each category (boxes, categories)."""
    if (start == stop).all():
        term = np.take_along_axis(values, start, axis=1)
        return Terms(term, term, weight)
    # The ends of each range follow one another, and every second part between two ends is a range.
    offset = np.arange(len(values))[:, None] * values.shape[1]
    ends = np.stack([start + offset, stop + 1 + offset], axis=2).ravel()
    flat = np.append(values.ravel(), 0.0)  # the last end is behind the last value
    low, high = (find.reduceat(flat, ends)[::2].reshape(start.shape) for find in (np.minimum, np.maximum))
    return Terms(low, high, weight)


class Tally:
    """The values of a form in boxes: how many people have which.

    ``terms`` are those of every axis, and ``unit`` (boxes,) is to how much those that are rounded may be rounded; it is
    larger where there would be more than ``most`` sums. Counts are numbers of cells where these are ``exact``, else
    shares. ``work`` is what they cost, in multiplications.
    """

    def __init__(self, terms: list[Terms], exact: NDArray[np.bool_], unit: Array, most: int = MOST_SUMS) -> None:
        self.work = _PER_TERM * sum(each.low.size for each in terms)
        ranges = np.stack([each.most - each.least for each in terms], axis=1)
        self._boxes = len(ranges)
        widest = ranges.argmax(axis=1)
        self._parts: list[tuple[NDArray[np.int64], _Sums]] = []
        for kept in np.unique(widest):
            rows = np.flatnonzero(widest == kept)
            others = _merged([each.take(rows) for k, each in enumerate(terms) if k != kept])
            sums = _Sums(terms[kept].take(rows), others, exact[rows], unit[rows], most)
            self.work += sums.work
            self._parts.append((rows, sums))

    def between(self, low: Array, high: Array) -> Array:
        """Return at least how many people of each box have values above ``low`` and below ``high`` (boxes,)."""
        found = np.zeros(self._boxes)
        for rows, sums in self._parts:
            found[rows] = sums.between(low[rows], high[rows])
        return found


class _Sums:
    """Sums of terms of boxes: one term that is kept, and others whose sums are multiples of ``unit``.

    The sum of the others is at least ``low + k unit`` and at most ``high + k unit`` for a whole number k, and
    ``below[:, k]`` is how many people have a smaller one.
    """

    def __init__(self, kept: Terms, others: list[Terms], exact: NDArray[np.bool_], unit: Array, most_sums: int) -> None:
        n = len(exact)
        self._kept = kept
        self._low, self._high = np.zeros(n), np.zeros(n)
        starts = [each.least for each in others]
        total = np.sum([each.most - start for each, start in zip(others, starts, strict=True)], axis=0) + np.zeros(n)
        self._usable = np.isfinite(total) & (total < _LARGEST)
        total = np.where(self._usable & (total > 0), total, 1.0)
        most = np.clip(np.nan_to_num(unit, nan=0.0), total / most_sums, total / _LEAST_SUMS)
        self._unit = np.ldexp(1.0, np.frexp(most)[1] - 1)  # the largest power of 2 up to that
        tables = []
        for each, start in zip(others, starts, strict=True):
            place, off = self._rounded(each, start)
            self._low, self._high = down(self._low + start), up(up(self._high + start) + off)
            tables.append(_histogram(place, each.weight))
        self._below, self._length = _convolve(tables, n)
        self.work = int((self._length**2).sum()) // 2 + _PER_TERM * sum(each.low.size for each in others)  # at most
        # A number below a sum has so many roundings: those of its weights, which are products of up to 9, their sums in
        # the histograms, a product and sums in each convolution, and a last sum. It counts twice, for both ends of a
        # difference, which is multiplied by a weight and added up once more.
        histograms = sum(each.low.shape[1] + 24 for each in others)
        operations = 2 * (2 * self._below.shape[1] + histograms) + 4 * kept.low.shape[1] + 16
        self._slack = np.where(exact, 0.0, gamma(operations))

    def _rounded(self, terms: Terms, start: Array) -> tuple[Whole, Array]:
        """Return terms above start in units, rounded down, and by how much the largest is rounded at most."""
        there = (terms.weight > 0) & self._usable[:, None]
        unit = self._unit[:, None]
        low = np.where(there, np.maximum((terms.low - start[:, None]) * (1 - 4 * U), 0.0), 0.0)
        high = np.where(there, up(terms.high - start[:, None]), 0.0)
        place = np.floor(low / unit)
        return place.astype(np.int64), up(high - place * unit).max(axis=1, where=there, initial=0.0)

    def between(self, low: Array, high: Array) -> Array:
        """Return at least how many people have sums above ``low`` and below ``high`` (boxes,)."""
        unit, rows = self._unit[:, None], np.arange(len(low))[:, None]
        with np.errstate(all="ignore"):
            above = up(up(low[:, None] - self._kept.low) - self._low[:, None]) / unit
            under = down(down(high[:, None] - self._kept.high) - self._high[:, None]) / unit
        first = _index(np.floor(above) + 1, self._length, self._usable)
        after = _index(np.ceil(under), self._length, self._usable)
        count = np.where(after > first, self._below[rows, after] - self._below[rows, first], 0.0)
        total = (count * self._kept.weight).sum(axis=1)
        return np.where(self._usable, np.maximum(down(total - self._slack), 0.0) if self._slack.any() else total, 0.0)


def _merged(terms: list[Terms]) -> list[Terms]:
    """Return terms with those of small axes added up, as long as they are not many: each rounding costs accuracy."""
    found: list[Terms] = []
    for each in sorted(terms, key=lambda terms: terms.low.shape[1]):
        if found and found[-1].low.shape[1] * each.low.shape[1] <= _MOST_MERGED:
            each = _sums_of_two(found.pop(), each)
        found.append(each)
    return found


def _sums_of_two(one: Terms, other: Terms) -> Terms:
    """Return all sums of a term of one axis and a term of another."""
    shape = len(one.low), -1
    low = down(one.low[:, :, None] + other.low[:, None, :]).reshape(shape)
    high = up(one.high[:, :, None] + other.high[:, None, :]).reshape(shape)
    return Terms(low, high, (one.weight[:, :, None] * other.weight[:, None, :]).reshape(shape))


def _index(place: Array, length: Whole, usable: NDArray[np.bool_]) -> Whole:
    """Return a place among the sums, from 0 to length (boxes,); of what is not a number, the first."""
    ends = length[:, None].astype(np.float64)
    return np.where(usable[:, None], np.clip(np.nan_to_num(place, nan=0.0), 0.0, ends), 0.0).astype(np.int64)


def _histogram(place: Whole, weight: Array) -> tuple[Array, Whole]:
    """Return how much weight is at each place (boxes, places), and the number of places that each box needs."""
    n, places = len(place), int(place.max()) + 1
    flat = (np.arange(n)[:, None] * places + place).ravel()
    table: Array = np.asarray(np.bincount(flat, weight.ravel(), n * places), np.float64)
    return table.reshape(n, places), place.max(axis=1) + 1


def _convolve(tables: list[tuple[Array, Whole]], n: int) -> tuple[Array, Whole]:
    """Return how much weight is below each sum of one place of each table (boxes, sums), and how many sums there are.

    A sum of places is at most the sum of the tables' last places.
    """
    lengths = np.sum([length - 1 for _, length in tables], axis=0, dtype=np.int64) + np.ones(n, np.int64)
    below = np.zeros((n, int(lengths.max()) + 1))
    for box in range(n):
        sums = np.ones(1)
        for table, length in tables:
            if length[box] > 1 or table[box, 0] != 1.0:
                sums = np.convolve(sums, table[box, : length[box]])
        np.cumsum(sums, out=below[box, 1 : len(sums) + 1])
        below[box, len(sums) + 1 :] = below[box, len(sums)]
    return below, lengths
