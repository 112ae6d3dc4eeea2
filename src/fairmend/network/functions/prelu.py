"""PReLU: leaky ReLU with a learned slope for each unit, of either sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import Lines
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
