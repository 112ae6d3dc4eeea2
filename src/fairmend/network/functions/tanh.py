"""The hyperbolic tangent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.s_shaped import SShaped

if TYPE_CHECKING:
    from torch import Tensor


class Tanh(SShaped):
    """tanh(z) = 2 sigmoid(2z) - 1."""

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their tanh."""
        np.tanh(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return tanh(z)."""
        return z.tanh()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return 1 - y²."""
        return np.asarray(1 - y * y)

    def _slope_from(self, value: Tensor) -> Tensor:
        return 1 - value * value
