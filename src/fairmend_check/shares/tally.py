"""How many people of a box are on one side of a linear form: counted exactly, or rounded down.

A linear form over a box is a sum of one term for each axis, and the terms are independent. The terms of the widest
axis are kept. Those of the others are rounded down to whole multiples of a power of 2, so that their sums are whole
numbers, and how many people have which sum follows by convolution. No number of a convolution is negative, so each
result is off by no more than its own rounding. Counts below 2^53 are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fairmend_check.kernel.rounding import TINY, Array, down, gamma, up
from fairmend_check.shares.people import Axis, Bools, Boxes, Whole

MAX_TERMS = 128  # on an axis of a box; neighbouring cells share a term where there are more
_MOST_MERGED = 256  # terms of axes that are added up without rounding
_PER_TERM = 200  # what a term costs, in multiplications
_LARGEST = 2.0**300
_MOST_AT_ONCE = 1024  # products for each box in a convolution of all boxes at once; more are faster one by one
_TOGETHER = 64  # boxes
_LEAST_SUMS, MOST_SUMS = 64, 1024  # different sums of rounded terms in a box; up to twice as many


@dataclass(frozen=True, eq=False)
class Counts:
    """How many people of boxes are treated equally, and unequally, at least (boxes,).

    Numbers of cells where ``exact``, else shares of the box.
    """

    fair: Array
    unfair: Array
    exact: Bools

    @staticmethod
    def none(boxes: int) -> Counts:
        """Return that nothing is proven of so many boxes."""
        return Counts(np.zeros(boxes), np.zeros(boxes), np.zeros(boxes, np.bool_))

    def take(self, rows: Whole | Bools | slice) -> Counts:
        """Return the counts of some of the boxes."""
        return Counts(self.fair[rows], self.unfair[rows], self.exact[rows])

    def put(self, rows: Whole, other: Counts) -> None:
        """Replace the counts of some of the boxes."""
        self.fair[rows], self.unfair[rows], self.exact[rows] = other.fair, other.unfair, other.exact

    def shares(self, boxes: Boxes) -> tuple[Array, Array]:
        """Return the shares of boxes that are treated equally, and unequally, rounded to the nearest number."""
        size = np.where(self.exact, boxes.size, 1.0)
        return self.fair / size, self.unfair / size


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a form on one axis of boxes: each from ``low`` to ``high``, and how much weight it has; (boxes, terms).

    The weight is a number of cells, or a share of the box where that would not be exact. It may be 0; such a term is
    that of a cell of the box as well. All terms are from ``least`` to ``most`` (boxes,).
    """

    low: Array
    high: Array
    weight: Array
    least: Array
    most: Array

    @staticmethod
    def of(low: Array, high: Array, weight: Array) -> Terms:
        """Return these terms."""
        return Terms(low, high, weight, np.asarray(low.min(axis=1)), np.asarray(high.max(axis=1)))

    @property
    def size(self) -> Array:
        """How large the terms of each box are (boxes,)."""
        return np.maximum(np.abs(self.least), np.abs(self.most))


def axis_terms(axis: Axis, A: Array, first: Whole, last: Whole, exact: Bools) -> Terms:
    """Return the terms A·x of an axis in boxes, for coefficients A (boxes, width) and cells first to last (boxes,).

    They are products, rounded to the nearest number.
    """
    size = last - first + 1
    if axis.blocks is None:
        count = min(MAX_TERMS, int(size.max()))
        edges = first[:, None] + size[:, None] * np.arange(count + 1) // count
    else:  # whole bands, or several of them
        begin, bands = axis.blocks.of(first), axis.blocks.of(last) - axis.blocks.of(first) + 1
        count = min(MAX_TERMS, int(bands.max()))
        numbers = begin[:, None] + bands[:, None] * np.arange(count + 1) // count
        starts = np.append(axis.blocks.start, axis.cells)
        edges = np.clip(starts[numbers], first[:, None], last[:, None] + 1)
    weight = np.diff(edges, axis=1) / np.where(exact, 1, size)[:, None]
    start = np.minimum(edges[:, :-1], last[:, None])
    stop = np.maximum(edges[:, 1:] - 1, start)
    if axis.blocks is not None and axis.one_hot:
        start, stop = axis.around(start, stop)
    if axis.one_hot:
        return _category_terms(axis.categories(A), start, stop, weight)
    low, high = axis.span(start, stop)
    ends = A * low, A * high
    return Terms.of(np.minimum(*ends), np.maximum(*ends), weight)


def _category_terms(values: Array, start: Whole, stop: Whole, weight: Array) -> Terms:
    """Return the terms of categories start to stop, given that of each category (boxes, categories)."""
    if (start == stop).all():
        term = np.take_along_axis(values, start, axis=1)
        return Terms.of(term, term, weight)
    # The ends of each range follow one another, and every second part between two ends is a range.
    offset = np.arange(len(values))[:, None] * values.shape[1]
    ends = np.stack([start + offset, stop + 1 + offset], axis=2).ravel()
    flat = np.append(values.ravel(), 0.0)  # the last end is behind the last value
    low, high = (find.reduceat(flat, ends)[::2].reshape(start.shape) for find in (np.minimum, np.maximum))
    return Terms.of(low, high, weight)


class Tally:
    """The values of a form in boxes: how many people have which.

    ``terms`` are those of every axis, and ``unit`` (boxes,) is to how much those that are rounded may be rounded; it is
    larger where there would be more than ``most`` sums. The terms of one axis are kept; the sum of the others is
    ``start + k unit`` to ``start + k unit + off`` for a whole number k, and ``below[:, k]`` is how many people have a
    smaller one. Counts are numbers of cells where these are ``exact``, else shares. ``work`` is what they cost, in
    multiplications.
    """

    def __init__(self, terms: list[Terms], exact: Bools, unit: Array, most: int = MOST_SUMS) -> None:
        n, merged = len(exact), _merged(terms)
        ranges = np.stack([each.most - each.least for each in merged])
        with np.errstate(all="ignore"):
            widest = int(np.nan_to_num(ranges / ranges.sum(axis=0), posinf=0.0).sum(axis=1).argmax())
        self._kept, others = merged[widest], merged[:widest] + merged[widest + 1 :]
        total = np.delete(ranges, widest, axis=0).sum(axis=0)
        self._usable = np.isfinite(total) & (total < _LARGEST)
        total = np.where(self._usable, np.maximum(total, 1 / _LARGEST), 1.0)
        largest = np.clip(np.nan_to_num(unit, nan=0.0), total / most, total / _LEAST_SUMS)
        self._unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)  # the largest power of 2 up to that
        self._start, self._off, tables = np.zeros(n), np.zeros(n), []
        for each in others:
            place, off = self._rounded(each)
            self._start, self._off = self._start + each.least, self._off + off
            tables.append(_histogram(place, each.weight))
        self._below, self._length = _convolve(tables, n)
        # All that is computed from terms, and the terms themselves, is off by some roundings of their sizes.
        sizes = np.sum([each.size for each in terms], axis=0)
        self._room = 4 * gamma(8 * len(terms) + 64) * sizes + TINY
        self.work = int((self._length**2).sum()) // 2 + _PER_TERM * sum(each.low.size for each in terms + merged)
        # A number below a sum has so many roundings: those of its weights, which are products of up to 8, their sums in
        # the histograms, a product and sums in each convolution, and a last sum. It counts twice, for both ends of a
        # difference, which is multiplied by a weight and added up once more.
        histograms = sum(each.low.shape[1] + 24 for each in others)
        operations = 2 * (2 * self._below.shape[1] + histograms) + 4 * self._kept.low.shape[1] + 64
        self._slack = np.where(exact, 0.0, gamma(operations))

    def _rounded(self, terms: Terms) -> tuple[Whole, Array]:
        """Return terms above the least in units, rounded down, and by how much the largest is rounded at most."""
        start, unit = terms.least[:, None], self._unit[:, None]
        place = np.floor((terms.low - start) / unit)
        if not self._usable.all():
            place = np.where(self._usable[:, None], place, 0.0)
        off = np.maximum((terms.high - start - place * unit).max(axis=1), 0.0)
        return place.astype(np.int64), np.where(self._usable, off, 0.0)

    def between(self, low: Array, high: Array) -> Array:
        """Return at least how many people of each box have values above ``low`` and below ``high`` (boxes,)."""
        unit, rows = self._unit[:, None], np.arange(len(low))[:, None]
        with np.errstate(all="ignore"):
            above = up(self._outwards(low, 1)[:, None] - self._kept.low - self._start[:, None])
            under = down(self._outwards(high, -1)[:, None] - self._kept.high - (self._start + self._off)[:, None])
            first = _index(np.floor(above / unit) + 1, self._length, self._usable)
            after = _index(np.ceil(under / unit), self._length, self._usable)
        count = np.where(after > first, self._below[rows, after] - self._below[rows, first], 0.0)
        total = (count * self._kept.weight).sum(axis=1)
        return np.where(self._usable, np.maximum(down(total - self._slack), 0.0) if self._slack.any() else total, 0.0)

    def _outwards(self, end: Array, side: int) -> Array:
        """Return an end with room for what is rounded in all terms, and in taking them from it."""
        return np.where(np.isinf(end), end, end + side * (self._room + gamma(32) * np.abs(end)))


def _merged(terms: list[Terms]) -> list[Terms]:
    """Return terms with those of small axes added up, as long as they are not many: each rounding costs accuracy."""
    found: list[Terms] = []
    for each in sorted(terms, key=lambda terms: terms.low.shape[1]):
        if found and found[-1].low.shape[1] * each.low.shape[1] <= _MOST_MERGED:
            each = _sums_of_two(found.pop(), each)
        found.append(each)
    return found


def _sums_of_two(one: Terms, other: Terms) -> Terms:
    """Return all sums of a term of one axis and a term of another.

    Rounding keeps the order of sums, so the least of them is that of the least terms, bit for bit.
    """
    pairs = ((one.low, other.low, np.add), (one.high, other.high, np.add), (one.weight, other.weight, np.multiply))
    low, high, weight = (both(mine[:, :, None], his[:, None]).reshape(len(mine), -1) for mine, his, both in pairs)
    return Terms(low, high, weight, one.least + other.least, one.most + other.most)


def _index(place: Array, length: Whole, usable: Bools) -> Whole:
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

    A sum of places is at most the sum of the tables' last places. What is behind the last sum of a box has no meaning.
    """
    lengths = np.sum([length - 1 for _, length in tables], axis=0, dtype=np.int64) + np.ones(n, np.int64)
    below = np.empty((n, int(lengths.max()) + 1))
    below[:, 0] = 0.0
    order = np.argsort(lengths, kind="stable")  # boxes with as many sums together
    for start in range(0, n, _TOGETHER):
        boxes = order[start : start + _TOGETHER]
        some = [(table[boxes, : length[boxes].max()], length[boxes]) for table, length in tables]
        for box, sums in zip(boxes.tolist(), _sums(some, len(boxes)), strict=True):
            np.cumsum(sums, out=below[box, 1 : len(sums) + 1])
    return below, lengths


def _sums(tables: list[tuple[Array, Whole]], n: int) -> Iterator[Array]:
    """Return how much weight each sum of one place of each table has, box by box.

    Short tables are convolved for all boxes at once.
    """
    left = sorted(tables, key=_places)
    while len(left) > 1 and _places(left[0]) * _places(left[1]) <= _MOST_AT_ONCE:
        (one, length), (other, more) = left[:2]
        left = sorted([*left[2:], (_convolve_rows(other, one), length + more - 1)], key=_places)
    ends = [length.tolist() for _, length in left]
    for box in range(n):
        sums = left[0][0][box, : ends[0][box]] if left else np.ones(1)
        for (table, _), stops in zip(left[1:], ends[1:], strict=True):
            sums = np.convolve(sums, table[box, : stops[box]])
        yield sums


def _places(table: tuple[Array, Whole]) -> int:
    return int(table[0].shape[1])


def _convolve_rows(long: Array, short: Array) -> Array:
    """Return the convolution of each row of one table with that of another."""
    places = short.shape[1]
    padded = np.zeros((len(long), long.shape[1] + 2 * places - 2))
    padded[:, places - 1 : places - 1 + long.shape[1]] = long
    windows = sliding_window_view(padded, places, axis=1)
    return np.asarray(np.einsum("bsp,bp->bs", windows, np.ascontiguousarray(short[:, ::-1])))
