"""Softplus: log(1 + exp(beta·z)) / beta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import LIBRARY, MOST, TINY, UNIT, Precision, size_of, unless_overflow
from fairmend.network.functions.curved import Curved

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 1000.0  # exp(-1000) is far below TINY

_THRESHOLD = 19.0  # from beta·z = 20 on, PyTorch computes z
_CUT = 2.1e-9  # log(1 + exp(-20)), rounded up: what that loses, times beta
_EXPONENT = 700.0  # in float64, ONNX Runtime computes exp(z) itself, which overflows from 709 on


class Softplus(Curved):
    """log(1 + exp(beta·z)) / beta: convex, and almost ReLU for large beta."""

    PARAMETERS = ("beta",)
    convex = True

    def __init__(self, beta: float) -> None:
        if not 1 / MOST <= beta <= MOST:
            raise FairmendError(f"softplus({beta:g}): beta must lie between {1 / MOST:.0e} and {MOST:.0e}")
        self.beta = beta

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their softplus."""
        beta = values.dtype.type(self.beta)
        values *= beta
        tail = np.log1p(np.exp(-np.abs(values)))
        np.maximum(values, 0, out=values)
        values += tail
        values /= beta

    def torch(self, z: Tensor) -> Tensor:
        """Return softplus of z."""
        x = self.beta * z
        return (x.clamp(min=0) + x.abs().neg().exp().log1p()) / self.beta

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return sigmoid(beta·z)."""
        return (self.beta * z).sigmoid()

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the value: a sum of two positive terms, of which the exponential feels the rounding of beta·z."""
        x = self.beta * z
        near = np.clip(x, -_FAR, _FAR)
        tail = np.log1p(np.exp(-np.abs(near)))
        y: Floats = (np.maximum(x, 0.0) + tail) / self.beta
        return y, 2 * LIBRARY * y + 2 * UNIT * np.abs(near) * tail / self.beta + TINY

    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return sigmoid(beta·z)."""
        x = np.clip(self.beta * z, -_FAR, _FAR)
        q = np.exp(-np.abs(x))
        slope: Floats = np.where(x < 0, q, 1.0) / (1 + q)
        return slope, (LIBRARY + 2 * UNIT * np.abs(x)) * slope + TINY

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative."""
        s = np.clip(slope, 0.0, 1.0)
        z: Floats = (np.log(s) - np.log1p(-s)) / self.beta
        return z

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 16 units of the value and of 1 / beta (2.1 were seen), and what PyTorch's threshold cuts off."""
        cut = np.where(self.beta * most > _THRESHOLD, _CUT / self.beta, 0.0)
        bound = 16 * precision.unit * (np.maximum(most, 0.0) + 1 / self.beta) + cut + 4 * precision.tiny
        if precision.unit == UNIT:
            bound = np.where(self.beta * most > _EXPONENT, np.inf, bound)
        return unless_overflow(bound, size_of(least, most) * max(1.0, self.beta), precision)
