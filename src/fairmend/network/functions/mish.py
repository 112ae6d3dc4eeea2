"""Mish: z·tanh(softplus(z))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.curved import Valley

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 700.0  # further out, the function is a line


class Mish(Valley):
    """z·w(z) with w = tanh(log(1 + exp(z))), which is n / (n + 2) for n = exp(z) (exp(z) + 2)."""

    breaks = (-2.2563763963607931, 1.4905711794854285)
    curvature = (-1, 1, -1)
    minimum = (-1.1924312145154952, -0.3088434130172504)

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

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return w + z·w'."""
        z = np.clip(z, -_FAR, _FAR)
        w, slope = _weight(z)
        second = z * slope
        return w + second


def _weight(z: Floats) -> tuple[Floats, Floats]:
    """Return w and w'; right of 0 both fractions are written in q = exp(-z), so that nothing overflows."""
    q = np.exp(-np.abs(z))
    n, d = q * (q + 2), 1 + 2 * q + 2 * q * q
    w = np.where(z < 0, n / (n + 2), (1 + 2 * q) / d)
    slope = np.where(z < 0, 4 * q * (1 + q) / (n + 2) ** 2, 4 * q * q * (1 + q) / d**2)
    return w, slope
