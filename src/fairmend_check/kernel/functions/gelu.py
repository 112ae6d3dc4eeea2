"""GELU z P(z), with the normal distribution P: concave, convex between two points, concave."""

from __future__ import annotations

import math

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Curve, break_near, enclosed, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U

_SLOPE = 1.1289041451851547863  # at the square root of 2


class Gelu(Curve):
    """The second derivative is p(z) (2 - z^2), with the density p."""

    breaks = (break_near(-math.sqrt(2), 1 - _SLOPE), break_near(math.sqrt(2), _SLOPE))
    bends = (-1, 1, -1)
    lowest = (-0.751791, -0.16997120747990367)

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z); `math.erfc` is accurate to 32 units, and the rounding of z / sqrt(2) costs 2 z^2 units more."""
        value = z * _normal(z)
        return enclosed(value, np.abs(value) * (128 + 8 * np.minimum(np.abs(z), 1e3) ** 2) * U)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose P(z) + z p(z)."""
        near = np.clip(z, -60.0, 60.0)  # further out, nothing changes
        share, rise = _normal(near), near * _density(near)
        return enclosed(share + rise, (128 + 8 * near**2) * U * (share + np.abs(rise)))

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) and f'(z) to six digits (Abramowitz and Stegun, 7.1.26), much faster than with `math.erfc`."""
        near = np.clip(z, -60.0, 60.0)
        t = 1 / (1 + 0.3275911 * np.abs(near) / math.sqrt(2))
        series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        tail = 0.5 * series * np.exp(-0.5 * near**2)
        share = np.where(near < 0, tail, 1 - tail)
        return z * share, share + near * _density(near)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 32 units of z."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(32 * kind.u * size + 4 * kind.tiny, size, kind.largest)


_erfc = np.frompyfunc(math.erfc, 1, 1)


def _normal(z: Array) -> Array:
    return 0.5 * np.asarray(_erfc(z * -math.sqrt(0.5)), dtype=np.float64)


def _density(z: Array) -> Array:
    return np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
