"""A factor and a shift for each unit: a norm with no affine layer beside it to fold it into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend_check.kernel.norms import Norm
from fairmend_check.kernel.operations.base import (
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
from fairmend_check.kernel.rounding import TINY, Array, Precision, down, gamma, up

_SCALING = 2  # roundings beside those of the norms: its numbers are rounded to the type of the model


@dataclass(frozen=True, eq=False)
class Scale(Operation):
    """factor x + shift for each unit, both (width,); ``norm`` says how a program computes it."""

    factor: Array
    shift: Array
    norm: Norm
    arithmetic = True

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of units."""
        return one_source(widths, len(self.factor))

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose factor x + shift."""
        ends = reads[0][0] * self.factor, reads[0][1] * self.factor
        least, most = down(np.minimum(*ends) - TINY), up(np.maximum(*ends) + TINY)
        return down(least + self.shift), up(most + self.shift)

    def relaxed(self, reads: Sequence[Interval]) -> tuple[Array, Array]:
        """Return how large its terms can be, and what is lost by underflow."""
        entering = magnitude(*reads[0])
        return entering * np.abs(self.factor) + np.abs(self.shift), TINY * (1 + total(entering))

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Multiply by the factors."""
        size, underflow = relaxed
        lost = lost_in_products(coefficients, size) + underflow
        form.add_constant(coefficients @ self.shift, lost)
        return [coefficients * self.factor]

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Multiply by the sizes of the factors."""
        return errors[0] * np.abs(self.factor)

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of the norms, step by step or as one, for each unit by itself."""
        norm, size = self.norm, np.maximum(reads[0].high, -reads[0].low)
        count = norm.units(kind.u) + _SCALING * kind.u
        reach = (1 + norm.reach) * (2 + size * norm.reach + norm.size)
        own = count / (1 - count) * (size * np.abs(norm.factor) + norm.size) + 16 * kind.tiny * reach
        return own * (1 + 4 * gamma(16)), 2 * reach

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Multiply by the factors."""
        low, high, size = derivatives
        ends = low * self.factor, high * self.factor
        return [(down(np.minimum(*ends)), up(np.maximum(*ends)), up(size * np.abs(self.factor)))]

    def scaled(self, before: float) -> tuple[float, float]:
        """Return what it scales by.

        ONNX Runtime makes one factor in float32 of all scalings beside a product with a matrix, also of those that
        other nodes read as well. If the factor is too small for that, it is 0.
        """
        scaled = before * float(self.norm.reach.max())
        return scaled, scaled

    def entering(self, size: Array) -> Array:
        """Bound what the factors multiply."""
        return self.norm.grown(size)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow factors that are not 0."""
        return np.asarray(reached[0] & (self.norm.factor != 0)[:, None])

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the numbers on the way."""
        return self.entering(sizes[0])

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Multiply by the sizes of the factors."""
        return [weights * np.abs(self.factor)]
