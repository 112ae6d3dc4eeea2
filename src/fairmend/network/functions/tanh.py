"""The hyperbolic tangent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.s_shaped import SShaped
from fairmend.network.functions.sigmoid import steepness, where_slope_is

if TYPE_CHECKING:
    from torch import Tensor


class Tanh(SShaped):
    """tanh(z) = 2 sigmoid(2z) - 1."""

    FLOOR = -1.0

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

    def _computed(self, z: Floats) -> Floats:
        return np.tanh(z)

    def _steepness(self, z: Floats) -> Floats:
        return 4 * steepness(2 * z)

    def _where_slope_is(self, slope: Floats) -> Floats:
        return where_slope_is(slope / 4) / 2

    def _mirrored(self, intercept: Floats) -> Floats:
        return -intercept
