"""SiLU (swish) z s(z), with the sigmoid s: concave, convex between two points, concave."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Curve, break_near, enclosed, logistic, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U

_BREAK, _SLOPE = 2.399357280515467667, 1.0998393201288669170


class Silu(Curve):
    """The second derivative is s'(z) (2 - z tanh(z / 2)), and z tanh(z / 2) rises with |z|: it is 2 at two points."""

    breaks = (
        break_near(-2.399357280515467667, -0.0998393201288669170),
        break_near(2.399357280515467667, 1.0998393201288669170),
    )
    bends = (-1, 1, -1)
    lowest = (-1.278464, -0.27846454276107380)

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        value = z * logistic(z)
        return enclosed(value, 64 * U * np.abs(value))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose s(z) (1 + z s(-z))."""
        near = np.clip(z, -1000.0, 1000.0)  # further out, nothing changes
        rise = near * logistic(-near)
        slope = logistic(near) * (1 + rise)
        return enclosed(slope, 128 * U * logistic(near) * (1 + np.abs(rise)))

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of z."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(16 * kind.u * size + 4 * kind.tiny, size, kind.largest)
