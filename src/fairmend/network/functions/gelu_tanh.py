"""GELU by tanh: z·(1 + tanh(√(2/π) (z + 0.044715 z³))) / 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import TINY, UNIT, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 30.0  # the sigmoid there is far below TINY
_LINEAR = 1.5957691216057308  # 2 √(2/π)
_CUBIC = 0.07135481627260025  # 0.044715 times that
_FLOAT32 = 2.0**-25  # ONNX Runtime has the constants in float32 in every precision


class GeluTanh(Valley):
    """z·sigmoid(v) with v = 2 √(2/π) (z + 0.044715 z³), which is the same.

    It is convex where z v'² tanh(v/2) / (2 v' + z v'') < 1, and that quotient grows with |z|: tanh(v/2) and z do, and
    v'² / (2 v' + z v'') is (1 + x)² / (2 + 4 x) times a constant, with x = 0.134145 z².
    """

    breaks = (-1.4185040087908284, 1.4185040087908284)
    curvature = (-1, 1, -1)
    inexact = 4 * UNIT
    minimum = (-0.7524614220710163, -0.17004075057125405)
    lipschitz = 1.13

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their GELU."""
        kind = values.dtype.type
        with np.errstate(over="ignore"):
            values *= kind(0.5) * (1 + np.tanh(values * (kind(_LINEAR / 2) + kind(_CUBIC / 2) * values * values)))

    def torch(self, z: Tensor) -> Tensor:
        """Return GELU of z."""
        return z * (z * (_LINEAR + _CUBIC * z * z)).sigmoid()

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative."""
        s = (z * (_LINEAR + _CUBIC * z * z)).sigmoid()
        return s + z * s * (1 - s) * (_LINEAR + 3 * _CUBIC * z * z)

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value; v is off by 8 units of itself, and |v| sigmoid'(v) is below 1/4."""
        z = np.maximum(z, -_FAR)
        y: Floats = z * _sigmoids(z)[0]
        return y, 32 * UNIT * np.abs(z) + TINY

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return s + z·s·(1 - s)·v'; |z| v' <= 3 |v|, and v² sigmoid'(v) < 1/2, so all errors are some units of 1."""
        z = np.clip(z, -_FAR, _FAR)
        s, rest = _sigmoids(z)
        slope: Floats = s + z * s * rest * (_LINEAR + 3 * _CUBIC * z * z)
        return slope, np.full_like(slope, 128 * UNIT)

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 24 units of z (3.3 were seen), and the rounding of the constants to float32."""
        size = size_of(least, most)
        return unless_overflow((24 * precision.unit + _FLOAT32) * size + 4 * precision.tiny, size, precision)


def _sigmoids(z: Floats) -> tuple[Floats, Floats]:
    """Return sigmoid(v) and sigmoid(-v)."""
    near = np.minimum(z, _FAR)
    q = np.exp(-np.abs(near * (_LINEAR + _CUBIC * near * near)))
    low, high = q / (1 + q), 1 / (1 + q)
    return np.where(z < 0, low, high), np.where(z < 0, high, low)
