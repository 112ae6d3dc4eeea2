"""Hardswish z min(max(z + 3, 0), 6) / 6: zero, a parabola from -3 to 3, then z."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U


class Hardswish(Curve):
    """z (z + 3) / 6 between -3 and 3."""

    breaks = (Break(-3.0, 0.0, (-0.5, 0.0)), Break(3.0, 0.0, (1.0, 1.5)))
    bends = (0, 1, 0)
    lowest = (-1.5, -0.375)

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        near = np.clip(z, -3.0, 3.0)
        low, high = enclosed(near * (near + 3) / 6, 8 * U * np.abs(near * (np.abs(near) + 3)))
        inside = np.abs(z) < 3
        return np.where(inside, low, np.maximum(z, 0.0)), np.where(inside, high, np.maximum(z, 0.0))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose f'(z)."""
        low, high = enclosed((2 * z + 3) / 6, 8 * U * (np.abs(z) + 3))
        straight = np.where(z > 0, 1.0, 0.0)
        inside = np.abs(z) < 3
        return np.where(inside, low, straight), np.where(inside, high, straight)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 12 units of z, where the result is not 0; ONNX Runtime has 1/6 in float32 even in float64 models."""
        size = np.maximum(np.abs(low), np.abs(high))
        left, right = np.minimum(np.maximum(-low, 0.0), 4.0), np.maximum(high, 0.0)
        bound = np.where(high < -4, 0.0, max(12 * kind.u, 2.0**-23) * np.maximum(left, right) + 4 * kind.tiny)
        return unless_large(bound, size, kind.largest)
