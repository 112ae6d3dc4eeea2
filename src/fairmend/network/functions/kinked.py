"""Functions with a kink at 0: ``negative * z`` on negative numbers, z on the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.network.functions.base import Function, Lines

if TYPE_CHECKING:
    from torch import Tensor


class Kinked(Function):
    """``negative`` is the slope on negative numbers: a number, or one for each unit."""

    piecewise_linear = True
    negative: float | Floats = 0.0

    @property
    def lines(self) -> Sequence[tuple[npt.ArrayLike, float]]:
        """The two sides of 0."""
        return (self.negative, 0.0), (1.0, 0.0)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the slope on the side of 0."""
        return np.where(z > 0, 1.0, self.negative)

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values at the ends, and 0 if the function turns there."""
        import torch

        left, right = self.torch(lower), self.torch(upper)
        if self.increasing:
            return left, right
        low = torch.minimum(left, right)
        around = (lower < 0) & (upper > 0)
        return torch.where(around, low.clamp(max=0), low), torch.maximum(left, right)


def relax_relu(lower: Tensor, upper: Tensor) -> Lines:
    """Return the upper line through the end points, and the lower slope 1 if upper > -lower, else 0 (stable: exact)."""
    import torch

    above, under = upper.clamp(min=0), (-lower).clamp(min=0)  # the parts of the interval on both sides of 0
    width = above + under
    # A unit that is 0 on the whole interval has width 0; any divisor gives it the slope 0.
    upper_slope = above / (width + (width == 0))
    lower_slope = (above > under).to(lower.dtype)
    return Lines(lower_slope, torch.zeros_like(lower), upper_slope, upper_slope * under)
