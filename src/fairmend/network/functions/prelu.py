"""PReLU: leaky ReLU with a learned slope for each unit, of either sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import SLACK, Lines, Precision
from fairmend.network.functions.kinked import Kinked, relax_relu

if TYPE_CHECKING:
    from torch import Tensor


class Prelu(Kinked):
    """z on positive numbers, slope·z on negative ones; the slopes are those of the units, in their order."""

    def __init__(self, *slopes: float) -> None:
        if not slopes or not np.isfinite(slopes).all():
            raise FairmendError("prelu needs a finite slope for each unit")
        self.negative = np.array(slopes)
        self.increasing = min(slopes) >= 0
        self.lipschitz = max(1.0, *map(abs, slopes))

    def apply(self, values: FloatArray) -> None:
        """Multiply negative values by the slope of their unit."""
        np.multiply(values, np.asarray(self.negative, values.dtype), out=values, where=values < 0)

    def torch(self, z: Tensor) -> Tensor:
        """Return PReLU of z (…, units)."""
        import torch

        return torch.where(z >= 0, z, z * self._tensor(z))

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of ``slope * z + (1 - slope) * ReLU(z)``; above a slope of 1, those of ReLU change sides."""
        import torch

        slope = self._tensor(lower)
        rest = 1 - slope
        relu = relax_relu(lower, upper)
        swapped = (slope > 1).expand_as(lower)
        return Lines(
            slope + rest * torch.where(swapped, relu.upper_slope, relu.lower_slope),
            rest * torch.where(swapped, relu.upper_intercept, relu.lower_intercept),
            slope + rest * torch.where(swapped, relu.lower_slope, relu.upper_slope),
            rest * torch.where(swapped, relu.lower_intercept, relu.upper_intercept),
        )

    def _tensor(self, like: Tensor) -> Tensor:
        import torch

        return torch.as_tensor(self.negative, dtype=like.dtype, device=like.device)

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return three roundings: of the slope, and of the product with it; a subnormal slope may be taken as 0."""
        factor = 3 * precision.unit * np.abs(self.negative) + precision.tiny
        return np.asarray(factor * np.maximum(-least, 0.0) * (1 + SLACK) + 2 * precision.tiny)
