"""SiLU (swish): z·sigmoid(z)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import LIBRARY, TINY, UNIT, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 1000.0  # exp(-1000) is far below TINY


class Silu(Valley):
    """z·sigmoid(z): convex where z·tanh(z/2) < 2, concave outside; z·tanh(z/2) grows with |z|."""

    breaks = (-2.3993572805154677, 2.3993572805154677)
    curvature = (-1, 1, -1)
    inexact = 4 * UNIT
    minimum = (-1.2784645427610738, -0.2784645427610738)
    lipschitz = 1.1

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their SiLU."""
        with np.errstate(over="ignore"):
            values /= 1 + np.exp(-values)

    def torch(self, z: Tensor) -> Tensor:
        """Return SiLU of z."""
        return z * z.sigmoid()

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative."""
        s = z.sigmoid()
        return s + z * s * (1 - s)

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value: z times the sigmoid."""
        z = np.maximum(z, -_FAR)
        q = np.exp(-np.abs(z))
        y: Floats = z * (np.where(z < 0, q, 1.0) / (1 + q))
        return y, LIBRARY * np.abs(y) + TINY

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return s + z·s·(1 - s) with the sigmoid s."""
        z = np.clip(z, -_FAR, _FAR)
        q = np.exp(-np.abs(z))
        low, high = q / (1 + q), 1 / (1 + q)
        first, second = np.where(z < 0, low, high), z * low * high
        return first + second, 2 * LIBRARY * (first + np.abs(second)) + self.inexact * (np.abs(z) < 5) + TINY

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 16 units of z: a library's sigmoid is off by some units of 1, in its tails as well; 3.2 were seen."""
        size = size_of(least, most)
        return unless_overflow(16 * precision.unit * size + 4 * precision.tiny, size, precision)
