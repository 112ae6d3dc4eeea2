"""The logistic sigmoid, 1 / (1 + exp(-z))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.s_shaped import SShaped

if TYPE_CHECKING:
    from torch import Tensor


class Sigmoid(SShaped):
    """1 / (1 + exp(-z))."""

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their sigmoid."""
        # exp overflows to inf for very negative values, and 1/inf = 0 is then the right answer.
        with np.errstate(over="ignore"):
            np.exp(np.negative(values, out=values), out=values)
        values += 1
        np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return sigmoid(z)."""
        return z.sigmoid()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return y (1 - y)."""
        return np.asarray(y * (1 - y))

    def _slope_from(self, value: Tensor) -> Tensor:
        return value * (1 - value)
