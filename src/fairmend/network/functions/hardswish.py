"""Hard swish: z·clip(z + 3, 0, 6) / 6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


class Hardswish(Valley):
    """0 up to -3, a parabola up to 3, then z, with kinks at both."""

    breaks = (-3.0, 3.0)
    curvature = (0, 1, 0)
    kinked = True
    minimum = (-1.5, -0.375)

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

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return 0, (2z + 3) / 6 or 1."""
        if piece != 1:
            return np.full_like(z, piece / 2)
        slope: Floats = (2 * np.clip(z, -3.0, 3.0) + 3) / 6
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative of the parabola."""
        return 3 * slope - 1.5
