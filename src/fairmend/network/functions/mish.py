"""Mish: z·tanh(softplus(z))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import LIBRARY, TINY, UNIT, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 700.0  # exp(-700) is far below TINY, and no step overflows


class Mish(Valley):
    """z·w(z) with w = tanh(log(1 + exp(z))), which is n / (n + 2) for n = exp(z) (exp(z) + 2)."""

    breaks = (-2.2563763963607931, 1.4905711794854285)
    curvature = (-1, 1, -1)
    inexact = 4 * UNIT
    minimum = (-1.1924312145154952, -0.3088434130172504)
    lipschitz = 1.09

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their Mish."""
        values *= np.tanh(np.maximum(values, 0) + np.log1p(np.exp(-np.abs(values))))

    def torch(self, z: Tensor) -> Tensor:
        """Return Mish of z."""
        return z * (z.clamp(min=0) + z.abs().neg().exp().log1p()).tanh()

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative."""
        w = (z.clamp(min=0) + z.abs().neg().exp().log1p()).tanh()
        return w + z * (1 - w * w) * z.sigmoid()

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value: z times w, all of whose terms are positive."""
        z = np.maximum(z, -_FAR)
        y: Floats = z * _weight(z)[0]
        return y, 2 * LIBRARY * np.abs(y) + TINY

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return w + z·w'."""
        z = np.clip(z, -_FAR, _FAR)
        w, slope = _weight(z)
        second = z * slope
        return w + second, 4 * LIBRARY * (w + np.abs(second)) + self.inexact * (np.abs(z) < 5) + TINY

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 24 units of z: w is off by some units of 1, in its tails as well; 4.9 were seen."""
        size = size_of(least, most)
        return unless_overflow(24 * precision.unit * size + 4 * precision.tiny, size, precision)


def _weight(z: Floats) -> tuple[Floats, Floats]:
    """Return w and w'; right of 0 both fractions are written in q = exp(-z), so that nothing overflows."""
    q = np.exp(-np.abs(z))
    n, d = q * (q + 2), 1 + 2 * q + 2 * q * q
    w = np.where(z < 0, n / (n + 2), (1 + 2 * q) / d)
    slope = np.where(z < 0, 4 * q * (1 + q) / (n + 2) ** 2, 4 * q * q * (1 + q) / d**2)
    return w, slope
