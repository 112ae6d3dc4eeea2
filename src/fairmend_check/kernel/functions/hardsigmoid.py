"""Hardsigmoid: slope z + offset, cut off at 0 and 1."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.rounding import TINY, Array, Precision, U


class Hardsigmoid(Curve):
    """Straight between -offset / slope and (1 - offset) / slope, and constant outside."""

    bends = (0, 0, 0)

    def __init__(self, activation: Activation) -> None:
        self.slope, self.offset = activation.parameters
        ends = (-self.offset / self.slope, (1 - self.offset) / self.slope)
        slack = 64 * U * ((1 + abs(self.offset)) / self.slope) + TINY
        self.breaks = tuple(Break(end - slack, 2 * slack, (0.0, self.slope)) for end in ends)

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        line = self.slope * z
        low, high = enclosed(line + self.offset, 4 * U * (np.abs(line) + abs(self.offset)))
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Return the slope between the ends, else 0."""
        value = self.slope * z + self.offset
        slope = np.where((value >= 0) & (value <= 1), self.slope, 0.0)
        return slope, slope

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of 1 and of the offset."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(np.full(low.shape, 8 * kind.u * (1 + abs(self.offset)) + 4 * kind.tiny), size, kind.largest)
