"""Softplus: log(1 + exp(beta·z)) / beta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST
from fairmend.network.functions.curved import Curved

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 1000.0  # further out, the function is a line


class Softplus(Curved):
    """log(1 + exp(beta·z)) / beta: convex, and almost ReLU for large beta."""

    PARAMETERS = ("beta",)
    DEFAULTS = (1.0,)
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

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return sigmoid(beta·z)."""
        x = np.clip(self.beta * z, -_FAR, _FAR)
        q = np.exp(-np.abs(x))
        slope: Floats = np.where(x < 0, q, 1.0) / (1 + q)
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative."""
        s = np.clip(slope, 0.0, 1.0)
        z: Floats = (np.log(s) - np.log1p(-s)) / self.beta
        return z
