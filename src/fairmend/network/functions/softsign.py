"""Softsign: z / (1 + |z|)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Curved

if TYPE_CHECKING:
    from torch import Tensor


class Softsign(Curved):
    """z / (1 + |z|): convex below 0, concave above."""

    breaks = (0.0,)
    curvature = (1, -1)

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their softsign."""
        np.divide(values, 1 + np.abs(values), out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return softsign of z."""
        return z / (1 + z.abs())

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return 1 / (1 + |z|)²."""
        return (1 + z.abs()) ** -2

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return 1 / (1 + |z|)²."""
        below = 1 + np.abs(z)
        slope: Floats = 1 / below / below
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative."""
        size = 1 / np.sqrt(np.clip(slope, 0.0, 1.0)) - 1
        return size if piece else -size
