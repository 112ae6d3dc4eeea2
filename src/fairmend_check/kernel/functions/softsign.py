"""Softsign z / (1 + |z|): convex left of zero, concave right of it."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U


class Softsign(Curve):
    """The second derivative is -2 sign(z) / (1 + |z|)^3."""

    breaks = (Break(0.0, 0.0, (1.0, 1.0)),)
    bends = (1, -1)
    reach = 2.0**24

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        value = z / (1 + np.abs(z))
        return enclosed(value, 8 * U * np.abs(value))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose 1 / (1 + |z|)^2."""
        slope = 1 / (1 + np.abs(z)) ** 2
        return enclosed(slope, 16 * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the value."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(16 * kind.u * np.minimum(size, 1.0) + 4 * kind.tiny, size, kind.largest)
