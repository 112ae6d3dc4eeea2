"""SiLU (swish): z·sigmoid(z)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 1000.0  # further out, the function is a line


class Silu(Valley):
    """z·sigmoid(z): convex where z·tanh(z/2) < 2, concave outside; z·tanh(z/2) grows with |z|."""

    breaks = (-2.3993572805154677, 2.3993572805154677)
    curvature = (-1, 1, -1)
    minimum = (-1.2784645427610738, -0.2784645427610738)

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

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return s + z·s·(1 - s) with the sigmoid s."""
        z = np.clip(z, -_FAR, _FAR)
        q = np.exp(-np.abs(z))
        low, high = q / (1 + q), 1 / (1 + q)
        return np.asarray(np.where(z < 0, low, high) + z * low * high)
