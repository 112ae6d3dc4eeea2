"""Hard swish: z·clip(z + 3, 0, 6) / 6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import TINY, UNIT, Precision, unless_overflow
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


class Hardswish(Valley):
    """0 up to -3, a parabola up to 3, then z, with kinks at both."""

    breaks = (-3.0, 3.0)
    curvature = (0, 1, 0)
    kinked = True
    minimum = (-1.5, -0.375)
    lipschitz = 1.5

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their hard swish."""
        kind = values.dtype.type
        values *= np.clip(values * kind(1 / 6) + kind(0.5), kind(0), kind(1))

    def torch(self, z: Tensor) -> Tensor:
        """Return hard swish of z."""
        return z * (z + 3).clamp(0, 6) / 6

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the slope of the piece that z lies in."""
        import torch

        return torch.where(z < -3, torch.zeros_like(z), torch.where(z >= 3, torch.ones_like(z), (2 * z + 3) / 6))

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value, exact outside the parabola."""
        inner = np.clip(z, -3.0, 3.0)
        y = np.where(z >= 3, z, inner * (inner + 3) / 6)
        return y, np.where((z > -3) & (z < 3), 8 * UNIT * np.abs(y) + TINY, 0.0)

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return 0, (2z + 3) / 6 or 1."""
        if piece != 1:
            return np.full_like(z, piece / 2), np.zeros_like(z)
        slope: Floats = (2 * np.clip(z, -3.0, 3.0) + 3) / 6
        return slope, np.full_like(z, 8 * UNIT)

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative of the parabola."""
        return 3 * slope - 1.5

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 12 units of z, of which 2.1 were seen; nothing where z is surely below -3.

        ONNX Runtime has 1/6 in float32 even in a float64 model, if a matrix product follows.
        """
        above = np.maximum(most, 0.0)
        size = np.maximum(np.minimum(-least, 4.0), above)
        bound = np.where(most < -4, 0.0, max(12 * precision.unit, 2.0**-23) * size) + 4 * precision.tiny
        return unless_overflow(bound, np.maximum(-least, above), precision)
