"""The inputs, some columns of a node, and the row of a table that an input names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from fairmend_check.kernel.rounding import TINY, Array, Precision, gamma


@dataclass(frozen=True)
class Input(Operation):
    """The row of numbers that a model reads."""

    columns: int

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of columns."""
        if widths:
            raise CheckError(f"a node of the model reads {len(widths)} others, which is not what it can do")
        return self.columns

    def work(self, width: int) -> int:
        """Return nothing: it is given."""
        return 0


@dataclass(frozen=True)
class Columns(Operation):
    """Some columns of a node, each at most once."""

    indices: tuple[int, ...]
    rearranges = True

    def width(self, widths: Sequence[int]) -> int:
        """Return how many columns it chooses."""
        known = range(one_source(widths))
        if not set(self.indices) <= set(known) or len(set(self.indices)) < len(self.indices):
            raise CheckError("a node of the model chooses columns that it cannot choose, or one of them twice")
        return len(self.indices)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Choose the ends."""
        return reads[0][0][:, self.indices], reads[0][1][:, self.indices]

    def relaxed(self, reads: Sequence[Interval]) -> int:
        """Return how wide the node is that it reads."""
        return int(reads[0][0].shape[1])

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Put the coefficients where the columns are."""
        return [self._placed(coefficients, relaxed)]

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Choose the errors."""
        return errors[0][:, self.indices]

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Put the derivatives where the columns are."""
        low, high, size = (self._placed(part, widths[0]) for part in derivatives)
        return [(low, high, size)]

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Choose what reaches the columns."""
        return reached[0][list(self.indices)]

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Choose the sizes."""
        return sizes[0][list(self.indices)]

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Put the weights where the columns are."""
        return [self._placed(weights[None, None], widths[0])[0, 0]]

    def _placed(self, part: Array, width: int) -> Array:
        whole = np.zeros((*part.shape[:2], width))
        whole[:, :, self.indices] = part
        return whole


@dataclass(frozen=True, eq=False)
class Lookup(Operation):
    """Row k of the table (rows, width), where the node that it reads is a column of inputs with the whole number k."""

    table: Array

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of the table."""
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
        """Return its interval."""
        return self.interval(reads)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Take the least values over its interval, which depend on nothing else."""
        low, high = relaxed
        added = dot(np.maximum(coefficients, 0.0), low) + dot(np.minimum(coefficients, 0.0), high)
        lost = gamma(2 * coefficients.shape[2] + 4) * dot(np.abs(coefficients), magnitude(low, high))
        form.add_constant(added, lost + TINY)
        return []

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Return no error: the number of a row is exact."""
        return np.zeros((len(errors[0]), self.table.shape[1]))

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return that a subnormal number in the table may be read as 0."""
        size = np.broadcast_to(np.abs(self.table).max(axis=0), (len(reads[0].low), self.table.shape[1]))
        return np.minimum(kind.tiny, size), size

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Return none: the number of a row is exact."""
        return []

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow columns of the table in which rows differ."""
        return np.asarray(reached[0] & (self.table != self.table[0]).any(axis=0)[:, None])

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Return the largest number of each column."""
        return np.asarray(np.abs(self.table).max(axis=0))

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Return how much the rows differ, in terms of the weights."""
        return [np.atleast_1d(np.ptp(self.table, axis=0) @ weights / len(self.table))]

    @property
    def stored(self) -> list[Array]:
        """The table."""
        return [self.table]
