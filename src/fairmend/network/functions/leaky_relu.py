"""Leaky ReLU: z on positive numbers, slope·z on negative ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import Lines
from fairmend.network.functions.kinked import Kinked, relax_relu

if TYPE_CHECKING:
    from torch import Tensor


class LeakyRelu(Kinked):
    """The maximum of z and slope·z; their minimum if the slope is above 1."""

    DEFAULTS = (0.01,)

    def __init__(self, slope: float) -> None:
        if not 0 <= slope < np.inf:
            raise FairmendError(f"leaky_relu has slope {slope}; it must be a number from 0 on")
        self.negative = slope
        self._slope = slope

    def apply(self, values: FloatArray) -> None:
        """Multiply negative values by the slope."""
        pick = np.maximum if self._slope <= 1 else np.minimum
        pick(values, values * values.dtype.type(self._slope), out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return leaky ReLU of z."""
        from torch.nn.functional import leaky_relu

        return leaky_relu(z, self._slope)

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of ``slope * z + (1 - slope) * ReLU(z)``; above a slope of 1, those of ReLU change sides."""
        slope, rest = self._slope, 1 - self._slope
        relu = relax_relu(lower, upper)
        if slope > 1:
            relu = Lines(relu.upper_slope, rest * relu.upper_intercept, relu.lower_slope, relu.lower_intercept)
        else:
            relu = Lines(relu.lower_slope, relu.lower_intercept, relu.upper_slope, rest * relu.upper_intercept)
        return Lines(
            slope + rest * relu.lower_slope,
            relu.lower_intercept,
            slope + rest * relu.upper_slope,
            relu.upper_intercept,
        )
