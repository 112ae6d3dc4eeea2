"""GELU by tanh, z (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (z + 0.044715 z^3): concave, convex, concave."""

from __future__ import annotations

import math

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Curve, break_near, enclosed, logistic, unless_large
from fairmend_check.kernel.rounding import LIBRARY, Array, Precision, U

_FACTOR, _CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715
_BREAK, _SLOPE = 1.418504008790828355, 1.1289930686587717655


class GeluTanh(Curve):
    """f(z) = z s(2 u), with the sigmoid s.

    With a = 3 0.044715 z^2 and k = sqrt(2 / pi), the second derivative has the sign of 1 + 2 a - k z tanh(u) (1 + a)^2.
    This is 0 at two points, because k z tanh(u) rises with |z|, and (1 + 2 a) / (1 + a)^2 falls.
    """

    breaks = (break_near(-_BREAK, 1 - _SLOPE), break_near(_BREAK, _SLOPE))
    bends = (-1, 1, -1)
    lowest = (-0.752461, -0.17004075057125406)

    def __init__(self, activation: Activation) -> None:
        pass

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        double, relative = _exponent(np.clip(z, -40.0, 40.0))  # further out, nothing changes
        value = z * logistic(double)
        return enclosed(value, np.abs(value) * relative)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose s(2 u) + z s(2 u) s(-2 u) 2 u'."""
        near = np.clip(z, -40.0, 40.0)
        double, relative = _exponent(near)
        share = logistic(double)
        rise = near * share * logistic(-double) * _FACTOR * (1 + 3 * _CUBIC * near**2)
        return enclosed(share + rise, 2 * relative * (share + np.abs(rise)))

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 24 units of z; some frameworks have the constants in float32."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large((24 * kind.u + 2.0**-25) * size + 4 * kind.tiny, size, kind.largest)


def _exponent(z: Array) -> tuple[Array, Array]:
    """Return 2 u, and the relative error that its rounding and that of `exp` bring into a sigmoid of it."""
    double = _FACTOR * (z + _CUBIC * z**3)
    return double, 2 * LIBRARY + 16 * U * (1 + np.abs(double))
