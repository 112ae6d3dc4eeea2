"""GELU: z·Φ(z), with the standard normal distribution Φ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import TINY, UNIT, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 40.0  # Φ(-40) and its density are far below TINY
_SQRT_HALF = 0.7071067811865476
_DENSITY = 0.3989422804014327  # 1 / √(2π)


class Gelu(Valley):
    """z·(1 + erf(z/√2)) / 2. Its second derivative is (2 - z²) times the density: convex between ±√2."""

    breaks = (-1.4142135623730951, 1.4142135623730951)
    curvature = (-1, 1, -1)
    inexact = 4 * UNIT
    minimum = (-0.7517915246935645, -0.16997120747990366)
    lipschitz = 1.13

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

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value; Φ is off by half of what erf is, and by the rounding of z/√2."""
        z = np.maximum(z, -_FAR)
        y: Floats = z * (0.5 + 0.5 * _erf(z * _SQRT_HALF))
        return y, 32 * UNIT * np.abs(z) + TINY

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return Φ + z·φ; |z| φ and |z|³ φ are below 1/2, so all errors are some units of 1."""
        z = np.clip(z, -_FAR, _FAR)
        slope: Floats = 0.5 + 0.5 * _erf(z * _SQRT_HALF) + z * (_DENSITY * np.exp(-0.5 * z * z))
        return slope, np.full_like(slope, 64 * UNIT)

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 32 units of z: 1 + erf cancels below 0, and a library's erf is off by some units; 5.9 were seen."""
        size = size_of(least, most)
        return unless_overflow(32 * precision.unit * size + 4 * precision.tiny, size, precision)


def _erf(z: FloatArray) -> FloatArray:
    from scipy.special import erf  # a slow import

    values: FloatArray = erf(z)
    return values
