"""Mish z tanh(log(1 + exp(z))): concave, convex between two points, concave."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Curve, break_near, enclosed, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U


class Mish(Curve):
    """With w = exp(z), f(z) = z n / (n + 2) for n = w^2 + 2 w.

    The second derivative is 4 w / (n + 2)^3 times 2 w^3 + 6 w^2 + 8 w + 4 + z (2 + 2 w - 3 w^2 - 2 w^3), which is 0 at
    two points.
    """

    breaks = (
        break_near(-2.256376396360793120, -0.11252612238946255641),
        break_near(1.490571179485428459, 1.0884981612517278612),
    )
    bends = (-1, 1, -1)
    lowest = (-1.192431, -0.30884341301725041)

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        value = z * _share(z)
        return enclosed(value, 256 * U * np.abs(value))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose n / (n + 2) + z 4 w (w + 1) / (n + 2)^2."""
        near = np.clip(z, -1000.0, 1000.0)  # further out, nothing changes
        small = np.exp(-np.abs(near))  # w left of zero, 1 / w right of it
        left = small * (small + 1) / (small * (small + 2) + 2) ** 2
        right = small**2 * (1 + small) / (1 + 2 * small + 2 * small**2) ** 2
        rise = 4 * near * np.where(near < 0, left, right)
        return enclosed(_share(near) + rise, 512 * U * (_share(near) + np.abs(rise)))

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 24 units of z."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(24 * kind.u * size + 4 * kind.tiny, size, kind.largest)


def _share(z: Array) -> Array:
    """Return n / (n + 2), in terms that do not overflow: every one is positive, so that nothing cancels."""
    small = np.exp(-np.abs(z))
    left, right = small * (small + 2), 1 + 2 * small
    return np.asarray(np.where(z < 0, left / (left + 2), right / (right + 2 * small**2)))
