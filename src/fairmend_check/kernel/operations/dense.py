"""The affine layer W x + b, perhaps with norms that are folded into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend_check.kernel.norms import Fold
from fairmend_check.kernel.operations.base import (
    PER_UNIT,
    Bools,
    Derivatives,
    Form,
    Interval,
    Operation,
    Read,
    Terms,
    lost_in_products,
    magnitude,
    one_source,
    total,
)
from fairmend_check.kernel.rounding import TINY, Array, Precision, affine, ball, gamma, power_below

_FOLDING = 8  # roundings of a folded layer beside its products and its norms


@dataclass(eq=False)
class Products:
    """What the products of an affine layer need: the sums of the sizes of its terms, and what underflow can lose.

    ``used`` are the units that the last forms used, with their weights; others mostly use the same.
    """

    size: Array
    underflow: Array
    used: Bools
    weight: Array


@dataclass(frozen=True, eq=False)
class Dense(Operation):
    """W x + b: weight (out, in), bias (out,). ``fold`` has its parts if norms are folded into it."""

    weight: Array
    bias: Array
    fold: Fold | None = None
    arithmetic = True

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of units."""
        one_source(widths, self.weight.shape[1], "layer")
        return len(self.weight)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose W x + b."""
        return affine(self.weight, self.bias, *reads[0])

    def relaxed(self, reads: Sequence[Interval]) -> Products:
        """Return how large its terms can be."""
        entering = magnitude(*reads[0])
        size = entering @ np.abs(self.weight).T + np.abs(self.bias)
        return Products(size, TINY * (1 + total(entering)), np.ones(len(self.weight), dtype=np.bool_), self.weight)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Multiply by the weights."""
        used = coefficients.any(axis=(0, 1))  # units that are surely off need no product
        if (used != relaxed.used).any():
            relaxed.used, relaxed.weight = used, self.weight[used]
        coefficients, weight = coefficients[:, :, used], relaxed.weight
        lost = lost_in_products(coefficients, relaxed.size[:, used]) + relaxed.underflow
        form.add_constant(coefficients @ self.bias[used], lost)
        boxes, forms, width = coefficients.shape
        return [(coefficients.reshape(boxes * forms, width) @ weight).reshape(boxes, forms, weight.shape[1])]

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Multiply by the sizes of the weights."""
        return np.asarray(errors[0] @ np.abs(self.weight).T)

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms:
        """Return the terms of the layer; those that are surely 0 are added exactly.

        Of the others, every partial sum lies between the sum of all negative and the sum of all positive terms, and
        each addition is off by at most half a unit in the last place of the larger one.
        """
        fold, weight, read = self.fold, np.abs(self.weight), reads[0]
        n = weight.shape[1]
        above, below = np.maximum(read.high, 0.0), np.maximum(-read.low, 0.0)
        size = np.maximum(above, below)
        if fold is not None:
            inner = (size * np.abs(fold.before.factor) + fold.before.size) @ np.abs(fold.weight).T + np.abs(fold.bias)
            leaving = (inner * np.abs(fold.after.factor) + fold.after.size) * (1 + 4 * gamma(n + 16))
            return Terms(np.full((1, 1), n + 1.0), leaving, leaving, kind.u * leaving)
        outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
        additions = (size > 0).sum(axis=1, keepdims=True)  # the bias is a term as well
        g = (additions + 1) * kind.u / (1 - (additions + 1) * kind.u)  # n is at most 2^20, so n u stays well below 1
        whole = ((above + below) @ weight.T + np.abs(self.bias)) * outward  # P + N
        apart, slip = (above - below) @ self.weight.T + self.bias, (outward - 1) * whole  # P - N
        most, least = (np.minimum(whole, (whole + sign * apart + slip) / 2) for sign in (1, -1))
        # 1 + 2 g covers the errors in the partial sums themselves.
        return Terms(additions, most, least, kind.u * power_below((1 + 2 * g) * np.maximum(most, least)))

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of the products and of the sum, and the largest partial sum.

        Scalings right before the layer may be computed after it: then its sums are larger or smaller by as much as
        these scale, and what underflows there is multiplied by it.
        """
        assert terms is not None
        low, high = reads[0].low, reads[0].high
        if self.fold is not None:
            return _folded_rounding(self.fold, terms, low, high, kind, scaled)
        n = low.shape[1]
        outward = 1 + 4 * gamma(n + 8)
        whole = (terms.above + terms.below) * outward
        flushed = kind.tiny * scaled * (magnitude(low, high).sum(axis=1, keepdims=True) + 4 * (n + 1))
        g = (n + 1) * kind.u / (1 - (n + 1) * kind.u)
        return (terms.additions * terms.unit + kind.u * whole + flushed) * outward, scaled * whole * (1 + g) + flushed

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Multiply by the weights."""
        low, high, _ = derivatives
        used = low.any(axis=(0, 1)) | high.any(axis=(0, 1))  # units that are surely off need no product
        low, high, weight = low[:, :, used], high[:, :, used], self.weight[used]
        n = len(weight)
        mid, radius = ball(low, high)
        # The spread of the radius, what products with the middle lose, and the roundings of the two differences.
        slack = radius + gamma(n + 8) * np.abs(mid)
        spread = (slack @ np.abs(weight)) * (1 + 2 * gamma(n + 8)) + TINY
        centre = mid @ weight
        less, more = centre - spread, centre + spread
        return [(less, more, np.maximum(more, -less))]

    def scaled(self, before: float) -> tuple[float, float]:
        """Return what the norms beside it scale by."""
        if self.fold is None:
            return before, 1.0
        after = float(self.fold.after.reach.max())
        return before * float(self.fold.before.reach.max()) * after, after

    def entering(self, size: Array) -> Array:
        """Bound what the weights multiply, after a norm before the layer."""
        return size if self.fold is None else self.fold.before.grown(size)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow weights that are not 0; those that are stored count, as a norm may multiply by 0 what was infinite."""
        fold = self.fold
        used = self.weight != 0 if fold is None else (fold.weight != 0) & (fold.before.factor != 0)
        return np.asarray(used.astype(np.float64) @ reached[0].astype(np.float64) > 0)

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the sum of all terms."""
        entering, fold = self.entering(sizes[0]), self.fold
        if fold is None:
            return np.asarray(2 * (np.abs(self.weight) @ entering + np.abs(self.bias)))
        inner = 2 * (np.abs(fold.weight) @ entering + np.abs(fold.bias))
        return np.asarray(2 * (inner * fold.after.reach + fold.after.size))

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Return the sizes of the weights of each number."""
        return [np.abs(self.weight).sum(axis=0)]

    def work(self, width: int) -> int:
        """Return the products, and what inputs and outputs cost."""
        return self.weight.size + PER_UNIT * sum(self.weight.shape)

    @property
    def stored(self) -> list[Array]:
        """Weights and biases as they are in the file."""
        kept = self.fold or self
        return [kept.weight, kept.bias]


def _folded_rounding(
    fold: Fold, terms: Terms, low: Array, high: Array, kind: Precision, scaled: float
) -> tuple[Array, Array]:
    """Return the roundings of a layer and the norms beside it, computed step by step or folded.

    Each step is off by as many units as it has roundings, in all terms that it adds up, and the numbers of the folded
    layer are rounded once more. No number on the way is above ``reach``, and a subnormal number that is taken as 0 is
    multiplied by no more than that.
    """
    n = fold.weight.shape[1]
    size = magnitude(low, high)
    count = (n + _FOLDING) * kind.u + fold.before.units(kind.u) + fold.after.units(kind.u)
    weights = 1 + np.abs(fold.weight).sum(axis=1) + np.abs(fold.bias)
    beside = (1 + fold.before.reach.max()) * (1 + fold.after.reach.max()) * weights
    wide = size * fold.before.reach + fold.before.size
    reach = scaled * beside * (1 + n + wide.sum(axis=1, keepdims=True)) + fold.after.size
    return (count / (1 - count) * terms.above + 16 * kind.tiny * reach) * (1 + 4 * gamma(n + 16)), 2 * reach
