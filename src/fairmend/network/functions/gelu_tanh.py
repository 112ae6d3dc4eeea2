"""GELU by tanh: z·(1 + tanh(√(2/π) (z + 0.044715 z³))) / 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 30.0  # further out, the function is a line
_LINEAR = 1.5957691216057308  # 2 √(2/π)
_CUBIC = 0.07135481627260025  # 0.044715 times that


class GeluTanh(Valley):
    """z·sigmoid(v) with v = 2 √(2/π) (z + 0.044715 z³), which is the same.

    It is convex where z v'² tanh(v/2) / (2 v' + z v'') < 1, and that quotient grows with |z|: tanh(v/2) and z do, and
    v'² / (2 v' + z v'') is (1 + x)² / (2 + 4 x) times a constant, with x = 0.134145 z².
    """

    breaks = (-1.4185040087908284, 1.4185040087908284)
    curvature = (-1, 1, -1)
    minimum = (-0.7524614220710163, -0.17004075057125405)

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

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return s + z·s·(1 - s)·v'."""
        z = np.clip(z, -_FAR, _FAR)
        s, rest = _sigmoids(z)
        slope: Floats = s + z * s * rest * (_LINEAR + 3 * _CUBIC * z * z)
        return slope


def _sigmoids(z: Floats) -> tuple[Floats, Floats]:
    """Return sigmoid(v) and sigmoid(-v)."""
    near = np.minimum(z, _FAR)
    q = np.exp(-np.abs(near * (_LINEAR + _CUBIC * near * near)))
    low, high = q / (1 + q), 1 / (1 + q)
    return np.where(z < 0, low, high), np.where(z < 0, high, low)
