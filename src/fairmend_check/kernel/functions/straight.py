"""Functions made of straight pieces: ReLU and functions like it, clip, and the hard sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.operations.base import finite, stacked
from fairmend_check.kernel.rounding import TINY, Array, Precision, U, gamma, up

_EXACT = (-1.0, 0.0, 1.0)  # slopes below 0 that no program rounds


@dataclass(frozen=True, eq=False)
class Ramp:
    """ReLU, LeakyReLU, PReLU, the identity and the absolute value: max(z, 0) + negative min(z, 0).

    ``negative`` is one number, or one for each unit (width,).
    """

    negative: Array
    ending = 1.0
    cost = 0
    pole = False
    parallel = False

    @staticmethod
    def of(activation: Activation) -> Ramp:
        """Return the function of this name."""
        if activation.name == "prelu":
            return Ramp(np.array(activation.parameters))
        fixed = {"relu": 0.0, "identity": 1.0, "abs": -1.0}
        return Ramp(np.array(fixed.get(activation.name, activation.slope)))

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the values: those at the ends, and 0 where the function falls to it and rises again."""
        left, right = self.values(lower), self.values(upper)
        falls = (self.negative < 0) & (lower < 0)
        if not falls.any():
            return left[0], right[1]
        least = np.where(upper > 0, 0.0, right[0])
        return np.where(falls, least, left[0]), np.where(falls, np.maximum(left[1], right[1]), right[1])

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the slopes."""
        left, right = np.where(lower < 0, self.negative, 1.0), np.where(upper > 0, 1.0, self.negative)
        return np.minimum(left, right), np.maximum(left, right)

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the intercepts: the ends and the kink decide."""
        (below, above), ends = slopes, stacked(lower, upper)
        leading = np.where(ends < 0, self.negative, 1.0)
        least = (-_product_above(below - leading, ends)).min(axis=0)
        most = _product_above(leading - above, ends).max(axis=0)
        kink = (lower < 0) & (upper > 0)
        return np.where(kink, np.minimum(least, 0.0), least), np.where(kink, np.maximum(most, 0.0), most)

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the chord, and on the other side the slope on the longer side of 0 (Zhang et al., CROWN, 2018)."""
        left, right = np.maximum(-lower, 0.0), np.maximum(upper, 0.0)
        share = right / np.where(left + right > 0, left + right, 1.0)
        longer, chord = (
            np.where(right > left, 1.0, self.negative),
            finite(self.negative + (1.0 - self.negative) * share),
        )
        convex = self.negative <= 1
        return np.where(convex, longer, chord), np.where(convex, chord, longer)

    def chords(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the same: the chord on one side is all that touches the function twice."""
        return self.choose_slopes(lower, upper)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return the rounding of the product with the slope; a subnormal slope or result may be taken as 0."""
        if self.negative.ndim == 0 and self.negative in _EXACT:  # nothing is rounded, and what is 0 stays 0
            return np.minimum(kind.tiny, np.maximum(high, 0.0 if self.negative == 0 else -low))
        factor = (3 * kind.u * np.abs(self.negative) + kind.tiny) * (1 + 4 * gamma(4))
        return np.asarray(factor * np.maximum(-low, 0.0) + 2 * kind.tiny)

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        if self.negative.ndim == 0 and self.negative in _EXACT:  # infinity is not multiplied by 0
            exact = np.maximum(z, 0.0) if self.negative == 0 else z if self.negative == 1 else np.abs(z)
            return exact, exact
        low, high = -_product_above(-self.negative, z), _product_above(self.negative, z)
        return np.where(z < 0, low, z), np.where(z < 0, high, z)


def _product_above(factor: Array, z: Array) -> Array:
    """Bound the product of z and a factor that is itself one rounding off from above."""
    value = factor * z
    return up(value + (4 * U * np.abs(value) + TINY))


class Clip(Curve):
    """min(max(z, low), high): ReLU6, Hardtanh, clamp."""

    bends = (0, 0, 0)

    def __init__(self, activation: Activation) -> None:
        self.low, self.high = activation.parameters
        self.breaks = tuple(Break(end, 0.0, (0.0, 1.0)) for end in activation.parameters)

    def values(self, z: Array) -> tuple[Array, Array]:
        """Return f(z), which is exact."""
        value = np.clip(z, self.low, self.high)
        return value, value

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = np.where((z >= self.low) & (z <= self.high), 1.0, 0.0)
        return slope, slope

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Nothing is rounded; a subnormal result may be taken as 0."""
        return np.minimum(kind.tiny, np.maximum(high, -low))


class Hardsigmoid(Curve):
    """slope z + offset, cut off at 0 and 1: straight between -offset / slope and (1 - offset) / slope."""

    bends = (0, 0, 0)

    def __init__(self, activation: Activation) -> None:
        self.slope, self.offset = activation.parameters
        ends = (-self.offset / self.slope, (1 - self.offset) / self.slope)
        slack = 64 * U * ((1 + abs(self.offset)) / self.slope) + TINY
        self.breaks = tuple(Break(end - slack, 2 * slack, (0.0, self.slope)) for end in ends)

    def values(self, z: Array) -> tuple[Array, Array]:
        line = self.slope * z
        low, high = enclosed(line + self.offset, 4 * U * (np.abs(line) + abs(self.offset)))
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        value = self.slope * z + self.offset
        slope = np.where((value >= 0) & (value <= 1), self.slope, 0.0)
        return slope, slope

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of 1 and of the offset."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(np.full(low.shape, 8 * kind.u * (1 + abs(self.offset)) + 4 * kind.tiny), size, kind.largest)
