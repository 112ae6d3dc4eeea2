"""GELU: z·Φ(z), with the standard normal distribution Φ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 40.0  # further out, the function is a line
_SQRT_HALF = 0.7071067811865476
_DENSITY = 0.3989422804014327  # 1 / √(2π)


class Gelu(Valley):
    """z·(1 + erf(z/√2)) / 2. Its second derivative is (2 - z²) times the density: convex between ±√2."""

    breaks = (-1.4142135623730951, 1.4142135623730951)
    curvature = (-1, 1, -1)
    minimum = (-0.7517915246935645, -0.16997120747990366)

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their GELU."""
        kind = values.dtype.type
        values *= kind(0.5) * (1 + _erf(values * kind(_SQRT_HALF)))

    def torch(self, z: Tensor) -> Tensor:
        """Return GELU of z."""
        return z * (0.5 + 0.5 * (z * _SQRT_HALF).erf())

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return Φ + z·φ."""
        return 0.5 + 0.5 * (z * _SQRT_HALF).erf() + z * _DENSITY * (-0.5 * z * z).exp()

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return Φ + z·φ."""
        z = np.clip(z, -_FAR, _FAR)
        slope: Floats = 0.5 + 0.5 * _erf(z * _SQRT_HALF) + z * (_DENSITY * np.exp(-0.5 * z * z))
        return slope


def _erf(z: FloatArray) -> FloatArray:
    from scipy.special import erf  # a slow import

    values: FloatArray = erf(z)
    return values
