"""Functions with a valley below 0, z times a gate: GELU, SiLU, Mish and hardswish."""

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
        kind = values.dtype.type
        values *= kind(0.5) * (1 + _erf(values * kind(_SQRT_HALF)))

    def torch(self, z: Tensor) -> Tensor:
        return z * (0.5 + 0.5 * (z * _SQRT_HALF).erf())

    def torch_slope(self, z: Tensor) -> Tensor:
        return 0.5 + 0.5 * (z * _SQRT_HALF).erf() + z * _DENSITY * (-0.5 * z * z).exp()

    def slope_on(self, piece: int, z: Floats) -> Floats:
        z = np.clip(z, -_FAR, _FAR)
        slope: Floats = 0.5 + 0.5 * _erf(z * _SQRT_HALF) + z * (_DENSITY * np.exp(-0.5 * z * z))
        return slope


def _erf(z: FloatArray) -> FloatArray:
    from scipy.special import erf  # a slow import

    values: FloatArray = erf(z)
    return values


_GELU_TANH_FAR = 30.0  # further out, the function is a line
_LINEAR = 1.5957691216057308  # 2 √(2/π)
_CUBIC = 0.07135481627260025  # 0.044715 times that


class GeluTanh(Valley):
    """z·sigmoid(v) with v = 2 √(2/π) (z + 0.044715 z³), which is the same.

    It is convex where z v'² tanh(v/2) / (2 v' + z v'') < 1, and that quotient grows with |z|: tanh(v/2) and z do, and
    v'² / (2 v' + z v'') is (1 + x)² / (2 + 4 x) times a constant, with x = 0.134145 z².
    """

    breaks = (-1.4185040087908284, 1.4185040087908284)
    curvature = (-1, 1, -1)
    minimum = (-0.7524614220710163, -0.17004075057125405)

    def apply(self, values: FloatArray) -> None:
        kind = values.dtype.type
        with np.errstate(over="ignore"):
            values *= kind(0.5) * (1 + np.tanh(values * (kind(_LINEAR / 2) + kind(_CUBIC / 2) * values * values)))

    def torch(self, z: Tensor) -> Tensor:
        return z * (z * (_LINEAR + _CUBIC * z * z)).sigmoid()

    def torch_slope(self, z: Tensor) -> Tensor:
        s = (z * (_LINEAR + _CUBIC * z * z)).sigmoid()
        return s + z * s * (1 - s) * (_LINEAR + 3 * _CUBIC * z * z)

    def slope_on(self, piece: int, z: Floats) -> Floats:
        z = np.clip(z, -_GELU_TANH_FAR, _GELU_TANH_FAR)
        s, rest = _sigmoids(z)
        slope: Floats = s + z * s * rest * (_LINEAR + 3 * _CUBIC * z * z)
        return slope


def _sigmoids(z: Floats) -> tuple[Floats, Floats]:
    """Return sigmoid(v) and sigmoid(-v)."""
    near = np.minimum(z, _GELU_TANH_FAR)
    q = np.exp(-np.abs(near * (_LINEAR + _CUBIC * near * near)))
    low, high = q / (1 + q), 1 / (1 + q)
    return np.where(z < 0, low, high), np.where(z < 0, high, low)


_SILU_FAR = 1000.0  # further out, the function is a line


class Silu(Valley):
    """z·sigmoid(z): convex where z·tanh(z/2) < 2, concave outside; z·tanh(z/2) grows with |z|."""

    breaks = (-2.3993572805154677, 2.3993572805154677)
    curvature = (-1, 1, -1)
    minimum = (-1.2784645427610738, -0.2784645427610738)

    def apply(self, values: FloatArray) -> None:
        with np.errstate(over="ignore"):
            values /= 1 + np.exp(-values)

    def torch(self, z: Tensor) -> Tensor:
        return z * z.sigmoid()

    def torch_slope(self, z: Tensor) -> Tensor:
        s = z.sigmoid()
        return s + z * s * (1 - s)

    def slope_on(self, piece: int, z: Floats) -> Floats:
        z = np.clip(z, -_SILU_FAR, _SILU_FAR)
        q = np.exp(-np.abs(z))
        low, high = q / (1 + q), 1 / (1 + q)
        return np.asarray(np.where(z < 0, low, high) + z * low * high)


_MISH_FAR = 700.0  # further out, the function is a line


class Mish(Valley):
    """z·w(z) with w = tanh(log(1 + exp(z))), which is n / (n + 2) for n = exp(z) (exp(z) + 2)."""

    breaks = (-2.2563763963607931, 1.4905711794854285)
    curvature = (-1, 1, -1)
    minimum = (-1.1924312145154952, -0.3088434130172504)

    def apply(self, values: FloatArray) -> None:
        values *= np.tanh(np.maximum(values, 0) + np.log1p(np.exp(-np.abs(values))))

    def torch(self, z: Tensor) -> Tensor:
        return z * (z.clamp(min=0) + z.abs().neg().exp().log1p()).tanh()

    def torch_slope(self, z: Tensor) -> Tensor:
        w = (z.clamp(min=0) + z.abs().neg().exp().log1p()).tanh()
        return w + z * (1 - w * w) * z.sigmoid()

    def slope_on(self, piece: int, z: Floats) -> Floats:
        z = np.clip(z, -_MISH_FAR, _MISH_FAR)
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


class Hardswish(Valley):
    """0 up to -3, a parabola up to 3, then z, with kinks at both."""

    breaks = (-3.0, 3.0)
    curvature = (0, 1, 0)
    kinked = True
    minimum = (-1.5, -0.375)

    def apply(self, values: FloatArray) -> None:
        kind = values.dtype.type
        values *= np.clip(values * kind(1 / 6) + kind(0.5), kind(0), kind(1))

    def torch(self, z: Tensor) -> Tensor:
        return z * (z + 3).clamp(0, 6) / 6

    def torch_slope(self, z: Tensor) -> Tensor:
        import torch

        return torch.where(z < -3, torch.zeros_like(z), torch.where(z >= 3, torch.ones_like(z), (2 * z + 3) / 6))

    def slope_on(self, piece: int, z: Floats) -> Floats:
        if piece != 1:
            return np.full_like(z, piece / 2)
        slope: Floats = (2 * np.clip(z, -3.0, 3.0) + 3) / 6
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        return 3 * slope - 1.5
