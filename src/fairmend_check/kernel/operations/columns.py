"""Inputs and columns: the input row, some columns of a node, rows of a table, and several nodes in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.operations.base import (
    Bools,
    Derivatives,
    Form,
    Interval,
    Operation,
    Read,
    Terms,
    dot,
    magnitude,
    one_source,
)
from fairmend_check.kernel.rounding import TINY, Array, Precision, down, gamma, power_below, up


@dataclass(frozen=True)
class Input(Operation):
    """The row of numbers that a model reads."""

    columns: int

    def width(self, widths: Sequence[int]) -> int:
        if widths:
            raise CheckError(f"a node of the model reads {len(widths)} others, which is not what it can do")
        return self.columns

    def work(self, width: int) -> int:
        """Return nothing: it is given."""
        return 0


class Rearranging(Operation):
    """An operation that gives columns of what it reads as they are. It says where they come from; all else follows."""

    rearranges = True
    mirrors = True

    def moved(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return its numbers, from those that it reads, along the last axis."""
        raise NotImplementedError

    def returned(self, numbers: Array, widths: Sequence[int]) -> list[Array]:
        """Put its numbers back to the places that they come from, and 0 elsewhere."""
        raise NotImplementedError

    def interval(self, reads: Sequence[Interval]) -> Interval:
        low, high = (self.moved(ends) for ends in zip(*reads, strict=True))
        return low, high

    def relaxed(self, reads: Sequence[Interval]) -> list[int]:
        return [low.shape[1] for low, _ in reads]

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        return self.returned(coefficients, relaxed)

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        return self.moved(errors)

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms | None:
        """Return those of the sums that it reads: a program may move terms before it adds them up."""
        if all(read.terms is None for read in reads):
            return None
        parts = [read.parts for read in reads]
        return Terms(
            self.moved([part.additions for part in parts]),
            self.moved([part.above for part in parts]),
            self.moved([part.below for part in parts]),
            self.moved([part.unit for part in parts]),
        )

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        return list(zip(*(self.returned(part, widths) for part in derivatives), strict=True))

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return 1: they are the same numbers, elsewhere."""
        return 1.0

    def scaled(self, before: float) -> tuple[float, float]:
        """Return that it ends with the scalings before it: a program may move numbers before it scales them."""
        return before, before

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return self.moved([part.T for part in reached]).T

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        return self.moved(sizes)

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        return self.returned(weights, widths)


@dataclass(frozen=True)
class Columns(Rearranging):
    """Some columns of a node, each at most once."""

    indices: tuple[int, ...]

    def width(self, widths: Sequence[int]) -> int:
        known = range(one_source(widths))
        if not set(self.indices) <= set(known) or len(set(self.indices)) < len(self.indices):
            raise CheckError("a node of the model chooses columns that it cannot choose, or one of them twice")
        return len(self.indices)

    def moved(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return parts[0][..., self.indices]

    def returned(self, numbers: Array, widths: Sequence[int]) -> list[Array]:
        if len(self.indices) == widths[0]:  # all of them, in another order
            return [numbers.take(self._places, axis=-1)]
        whole = np.zeros((*numbers.shape[:-1], widths[0]))
        whole[..., self.indices] = numbers
        return [whole]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Where each column is among them, if all are."""
        return np.argsort(self.indices)


@dataclass(frozen=True)
class Concatenate(Rearranging):
    """The columns of two or more nodes, one node after the other."""

    def width(self, widths: Sequence[int]) -> int:
        _several(widths)
        return sum(widths)

    def moved(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(parts, axis=-1)

    def returned(self, numbers: Array, widths: Sequence[int]) -> list[Array]:
        return np.split(numbers, np.cumsum(widths)[:-1], axis=-1)


@dataclass(frozen=True, eq=False)
class Lookup(Operation):
    """Row k of the table (rows, width), where the node that it reads is a column of inputs with the whole number k."""

    table: Array

    def width(self, widths: Sequence[int]) -> int:
        one_source(widths, 1)
        return int(self.table.shape[1])

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose the rows whose numbers are in an interval; there is no bound outside the table."""
        first, last = np.floor(reads[0][0][:, 0]), np.ceil(reads[0][1][:, 0])
        inside = (first >= 0) & (last < len(self.table))
        shape = len(first), self.table.shape[1]
        least, most = np.full(shape, -np.inf), np.full(shape, np.inf)
        ends = np.stack([first, last], axis=1)[inside].astype(np.int64)
        for start, stop in np.unique(ends, axis=0):
            rows = self.table[start : stop + 1]
            same = np.flatnonzero((first == start) & (last == stop))
            least[same], most[same] = rows.min(axis=0), rows.max(axis=0)
        return least, most

    def relaxed(self, reads: Sequence[Interval]) -> Interval:
        return self.interval(reads)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Take the least values over its interval, which depend on nothing else."""
        low, high = relaxed
        added = dot(np.maximum(coefficients, 0.0), low) + dot(np.minimum(coefficients, 0.0), high)
        lost = gamma(2 * coefficients.shape[2] + 4) * dot(np.abs(coefficients), magnitude(low, high))
        form.add_constant(added, lost + TINY)
        return []

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Return no error: the number of a row is exact."""
        return np.zeros((len(errors[0]), self.table.shape[1]))

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return that a subnormal number in the table may be read as 0."""
        size = np.broadcast_to(np.abs(self.table).max(axis=0), (len(reads[0].low), self.table.shape[1]))
        return np.minimum(kind.tiny, size), size

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Return none: the number of a row is exact."""
        return []

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow columns of the table in which rows differ."""
        return np.asarray(reached[0] & (self.table != self.table[0]).any(axis=0)[:, None])

    def signed(self, reached: Sequence[Bools]) -> Bools:
        """Follow columns of the table that hold a zero, of which the other one may be in another row."""
        return np.asarray(reached[0] & (self.table == 0).any(axis=0)[:, None])

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        return np.asarray(np.abs(self.table).max(axis=0))

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Return how much the rows differ, in terms of the weights."""
        return [np.atleast_1d(np.ptp(self.table, axis=0) @ weights / len(self.table))]

    @property
    def stored(self) -> list[Array]:
        return [self.table]


@dataclass(frozen=True)
class Sum(Operation):
    """The sum of two or more nodes of one width."""

    arithmetic = mirrors = True

    def width(self, widths: Sequence[int]) -> int:
        if _several(widths) != {widths[0]}:
            other = next(width for width in widths if width != widths[0])
            raise CheckError(f"a node of the model reads {widths[0]} of {other} values")
        return widths[0]

    def interval(self, reads: Sequence[Interval]) -> Interval:
        low, high = reads[0]
        for less, more in reads[1:]:
            low, high = down(low + less), up(high + more)
        return low, high

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        return [coefficients] * int(relaxed)

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        return np.asarray(sum(errors))

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms:
        """Return the terms of the sum: those of its parts.

        A program may add up the terms of an affine layer, or of a sum, and the other parts of the sum in one go, so
        that an addition in the layer is off by as much as one in the sum.
        """
        parts = [read.parts for read in reads]
        additions = np.asarray(len(parts) - 1 + sum(part.additions for part in parts))
        count, outward = (additions + 1) * kind.u, 1 + 4 * gamma(len(parts) + 8)
        ends = zip(*((part.above, part.below) for part in parts), strict=True)
        above, below = (np.asarray(sum(each)) * outward for each in ends)
        g = np.where(count < 0.5, count / (1 - count), np.inf)
        return Terms(additions, above, below, kind.u * power_below((1 + 2 * g) * np.maximum(above, below)))

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of a sum in any order: each addition is off by half a unit of a partial sum."""
        assert terms is not None
        parts = [read.parts for read in reads]
        merged = sum(part.additions * np.maximum(terms.unit - part.unit, 0.0) for part in parts)
        size = terms.above + terms.below
        own = ((len(reads) - 1) * terms.unit + merged + 2 * len(reads) * kind.tiny) * (1 + 4 * gamma(len(reads) + 8))
        enough = (terms.additions + 1) * kind.u < 0.5
        return np.where(size == 0, 0.0, own), np.where(enough, 2 * size, np.inf)

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        return [derivatives] * len(widths)

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return 1: they are the same."""
        return 1.0

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.asarray(np.logical_or.reduce(reached))

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        return np.asarray(2 * sum(sizes))


def _several(widths: Sequence[int]) -> set[int]:
    if len(widths) < 2:
        raise CheckError(f"a node of the model reads {len(widths)} others, which is not what it can do")
    return set(widths)
