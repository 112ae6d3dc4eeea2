"""Softsign: z / (1 + |z|)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import TINY, UNIT, Intervals, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Curved

if TYPE_CHECKING:
    from torch import Tensor


class Softsign(Curved):
    """z / (1 + |z|): convex below 0, concave above."""

    breaks = (0.0,)
    curvature = (1, -1)
    span = 2.0

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their softsign."""
        np.divide(values, 1 + np.abs(values), out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return softsign of z."""
        return z / (1 + z.abs())

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return 1 / (1 + |z|)²."""
        return (1 + z.abs()) ** -2

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value after two roundings."""
        z = np.clip(z, -1e300, 1e300)
        y: Floats = z / (1 + np.abs(z))
        return y, 4 * UNIT * np.abs(y) + TINY

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends."""
        low, high = super().image(lower, upper)
        return np.maximum(low, -1.0), np.minimum(high, 1.0)

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return 1 / (1 + |z|)²."""
        below = 1 + np.abs(z)
        slope: Floats = 1 / below / below
        return slope, 8 * UNIT * slope + TINY

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative."""
        size = 1 / np.sqrt(np.clip(slope, 0.0, 1.0)) - 1
        return size if piece else -size

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 16 units of the value, relatively; 2.4 were seen."""
        size = size_of(least, most)
        bound = 16 * precision.unit * np.minimum(size, 1.0) + 4 * precision.tiny
        return unless_overflow(bound, size, precision)
