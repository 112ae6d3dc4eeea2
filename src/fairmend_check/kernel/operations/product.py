"""Products of two nodes: gates, attention scores, and what attention gives with them.

With a in the interval of middle p and radius r, and b in that of q and s, the product a b is q a + p b - p q, but for
(a - p)(b - q), which is at most r s in size. Both planes that follow are parallel to the tangent plane in the middle,
and as close in the middle as those of McCormick (1976).
"""

from __future__ import annotations

import math
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
    Nonlinear,
    Read,
    Terms,
    dot,
    finite,
    length,
    magnitude,
    once,
    total,
)
from fairmend_check.kernel.rounding import TINY, Array, Precision, ball, down, gamma, up

_ROUNDINGS = 8  # of a product, beside one for each term
_REACH = 2.0**80  # of larger factors, nothing is proven


@dataclass(frozen=True, eq=False)
class Planes:
    """Parallel planes around sums of products: slopes by a (..., groups, columns, length), by b (..., rows, length).

    Of elementwise products, both are (..., width). The planes are ``off`` from the one with the constant ``middle``
    (boxes, width), with what rounding can change in it; ``underflow`` (boxes, 1) is what is lost in coefficients that
    underflow.
    """

    by_a: Array
    by_b: Array
    middle: Array
    off: Array
    underflow: Array


@dataclass(frozen=True)
class Product(Nonlinear):
    """Σ_t a[g, m, t] b[g, n, t] for all g, m, n: of two nodes a (groups, rows, length), b (groups, columns, length).

    That is a product of matrices a bᵀ for each group; with groups alone, it is elementwise.
    """

    groups: int
    rows: int = 1
    columns: int = 1
    length: int = 1
    arithmetic = mirrors = True
    reads = 2

    def width(self, widths: Sequence[int]) -> int:
        """Return how many sums there are."""
        sizes = self.groups, self.rows, self.columns, self.length
        wanted = [self.groups * self.rows * self.length, self.groups * self.columns * self.length]
        if min(sizes) < 1 or list(widths) != wanted:
            raise CheckError(f"a product of {wanted[0]} and {wanted[1]} numbers reads {list(widths)}")
        return self.groups * self.rows * self.columns

    def words(self, read: Sequence[str]) -> str:
        """Return what it computes."""
        first, second = (
            f"{name} as ({self.groups}, {rows}, {self.length})"
            for name, rows in zip(read, (self.rows, self.columns), strict=True)
        )
        sums = f"({self.groups}, {self.rows}, {self.columns})"
        return f"the products of {first} and {second}, summed over the last axis: {sums}"

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose every product by those of the ends, and add them up."""
        (a, a_most), (b, b_most) = ([self._split(end, side) for end in ends] for side, ends in enumerate(reads))
        corners = [first[:, :, :, None] * second[:, :, None] for first in (a, a_most) for second in (b, b_most)]
        least, most = (choose(choose(*corners[:2]), choose(*corners[2:])) for choose in (np.minimum, np.maximum))
        low, high = down(least - TINY), up(most + TINY)  # nan is infinite
        if self.length == 1:
            return _flat(low[..., 0]), _flat(high[..., 0])
        slip = gamma(self.length) * magnitude(low, high).sum(axis=4)
        return _flat(down(low.sum(axis=4) - slip)), _flat(up(high.sum(axis=4) + slip))

    def at_points(self, reads: Sequence[Array], sizes: Sequence[Array]) -> tuple[Array, Array]:
        """Return the sums, which are off by roundings of sums of this size."""
        return self._sums(*reads), 2 * gamma(self.length + 4) * self._sums(*sizes) + TINY

    def relaxed(self, reads: Sequence[Interval]) -> Planes:
        """Return the tangent planes in the middle, moved by what the product can differ from them."""
        (p, r), (q, s) = (ball(*ends) for ends in reads)
        sizes = [magnitude(*ends) for ends in reads]
        middle, off, size = self._sums(p, q), self._sums(r, s), self._sums(*sizes)
        units = gamma(2 * middle.shape[1] + self.rows + self.columns + self.length + 16)
        off = up(off + units * (off + 8 * size) + TINY)  # nan becomes infinite
        underflow = TINY * (1 + total(sizes[0]) + total(sizes[1]))
        if not self._elementwise:
            p, q = self._split(p, 0), self._split(q, 1)
        return Planes(finite(q)[:, None], finite(p)[:, None], finite(-middle), off, underflow)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Replace every product by its planes."""
        planes: Planes = relaxed
        coefficients = once(coefficients)
        forms, width = coefficients.shape[1:]
        lost = dot(np.abs(coefficients), planes.off) * (1 + gamma(width + 8))
        form.add_constant(dot(coefficients, planes.middle), lost + planes.underflow)
        if self._elementwise:
            return [coefficients * planes.by_a, coefficients * planes.by_b]
        each = coefficients.reshape(len(coefficients), forms, self.groups, self.rows, self.columns)
        by_a, by_b = each @ planes.by_a, each.swapaxes(3, 4) @ planes.by_b
        return [_flat(part, 2) for part in (by_a, by_b)]

    @property
    def _elementwise(self) -> bool:
        """Whether each number is the product of two."""
        return self.rows == self.columns == self.length == 1

    def slopes(self, reads: Sequence[Interval]) -> Sequence[Interval]:
        """Return the factors: each is the derivative by the other."""
        return reads

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Return what the errors of one factor make of the other; ``slopes`` enclose what is exact and computed."""
        a, b = (magnitude(*ends) for ends in slopes)
        found = self._sums(errors[0], b) + self._sums(a, errors[1])
        none = (self._sums(errors[0], np.ones_like(b)) == 0) & (self._sums(np.ones_like(a), errors[1]) == 0)
        return np.where(none, 0.0, up(found * (1 + 4 * gamma(self.length + 8)) + TINY))  # nan becomes infinite

    def rounding(self, reads: Sequence[Interval], kind: Precision, scaled: float) -> Array:
        """Return the roundings of all products and of their sum, in any order; scalings of the factors may be in it."""
        a, b = (magnitude(*ends) for ends in reads)
        whole, units = self._sums(a, b), (self.length + _ROUNDINGS) * kind.u
        flushed = self._sums(a, np.ones_like(b)) + self._sums(np.ones_like(a), b) + 4 * self.length
        bound = units / (1 - units) * whole + kind.tiny * scaled * flushed
        fits = (4 * scaled * (whole + flushed) < kind.largest) & (self._reach(reads, scaled) <= _REACH)[:, None]
        return np.where(fits, np.where(whole == 0, 0.0, bound * (1 + 4 * gamma(self.length + 8))), np.inf)

    def ends(self, reads: Sequence[Interval], scaled: float) -> float:
        """Return what its factors scale by: of several factors, a program may multiply any two first."""
        return float(np.fmin(self._reach(reads, scaled).max(), _REACH))

    def _reach(self, reads: Sequence[Interval], scaled: float) -> Array:
        """Return four times the largest factors, and those before them, that are above 1 (boxes,)."""
        a, b = (np.maximum(magnitude(*ends).max(axis=1), 1.0) for ends in reads)
        return np.asarray(4 * scaled * a * b)

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms | None:
        """Return the terms of the sums, each off by no more than `rounding` counts for it."""
        if self.length == 1:
            return None
        whole = self._sums(*(np.maximum(read.high, -read.low) for read in reads))
        size = whole * (1 + 4 * gamma(self.length + 8))
        return Terms(np.full((1, 1), self.length - 1.0), size, size, kind.u * whole)

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Multiply by the other factor, and add up."""
        found: list[Derivatives] = []
        low, high, size = (part.reshape(*part.shape[:2], self.groups, self.rows, self.columns) for part in derivatives)
        mid, radius = ball(low, high)
        for side in (0, 1):
            other = slopes[1 - side]
            p, r = (self._split(part, 1 - side)[:, None] for part in ball(*other))
            most = self._split(magnitude(*other), 1 - side)[:, None]
            turned = [part.swapaxes(3, 4) if side else part for part in (mid, radius, size)]
            n, centre = turned[0].shape[4], turned[0] @ p
            spread = (np.abs(turned[0]) + turned[1]) @ r + turned[1] @ np.abs(p)
            slip = gamma(n + 8) * (np.abs(turned[0]) @ np.abs(p) + spread) + TINY
            below, above = down(centre - spread - 2 * slip), up(centre + spread + 2 * slip)  # nan becomes infinite
            whole = up((turned[2] @ most) * (1 + 4 * gamma(n + 8)) + TINY)
            found.append((_flat(below, 2), _flat(above, 2), _flat(whole, 2)))
        return found

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return the largest norm of the other factors: of one number, its size; of a matrix, less than Frobenius'."""
        other = self._split(magnitude(*slopes[1 - side]), 1 - side)
        return np.asarray(length(_flat(other, 2)).max(axis=1))

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Return what reaches any factor."""
        columns = reached[0].shape[1]
        a, b = (np.asarray(part.reshape(self.groups, -1, self.length, columns).any(axis=2)) for part in reached)
        return np.asarray((a[:, :, None] | b[:, None]).reshape(-1, columns))

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Add up the products of the sizes."""
        found = 2 * self._sums(*(part[None] for part in sizes))[0]
        return np.where(found <= largest / 64, found, np.inf)  # nan too

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Give both factors of a product its weight."""
        each = weights.reshape(self.groups, self.rows, self.columns)
        parts = each.sum(axis=2), each.sum(axis=1)
        return [np.repeat(part.reshape(-1), self.length) for part in parts]

    def work(self, width: int) -> int:
        """Return four multiplications for each term, and what its outputs cost."""
        return super().work(width) + 4 * width * self.length

    def _split(self, values: Array, side: int) -> Array:
        """Return the numbers of a (boxes, groups, rows, length), or of b (boxes, groups, columns, length)."""
        return values.reshape(len(values), self.groups, (self.rows, self.columns)[side], self.length)

    def _sums(self, a: Array, b: Array) -> Array:
        """Return the sums of products (boxes, width), as computed."""
        if self._elementwise:
            return a * b
        return _flat(self._split(a, 0) @ self._split(b, 1).swapaxes(2, 3))


def _flat(values: Array, kept: int = 1) -> Array:
    """Return all axes but the first ones as one."""
    return values.reshape(*values.shape[:kept], math.prod(values.shape[kept:]))
