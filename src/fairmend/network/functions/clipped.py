"""Functions that clip a line: clip(gain·z + offset, low, high) with a positive gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.network.functions.base import Function, Lines

if TYPE_CHECKING:
    from torch import Tensor


class Clipped(Function):
    """Flat at ``low`` up to the first knot, steep up to the second, flat at ``high`` after it.

    Either end may be infinite.
    """

    piecewise_linear = True

    def __init__(self, gain: float, offset: float, low: float, high: float) -> None:
        self.gain, self.offset, self.low, self.high = gain, offset, low, high
        self.knots = (low - offset) / gain, (high - offset) / gain

    @property
    def lines(self) -> Sequence[tuple[npt.ArrayLike, float]]:
        """The flat line, the steep one, and the flat one, as far as they exist."""
        steep = (self.gain, self.offset)
        left = [(0.0, self.low)] if np.isfinite(self.low) else []
        right = [(0.0, self.high)] if np.isfinite(self.high) else []
        return [*left, steep, *right]

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the gain between the ends."""
        return np.where((self.low < y) & (y < self.high), self.gain, 0.0)

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of least area: each passes through a knot, or through the end that is beyond it."""
        import torch

        first, second = self.knots
        left, right = lower.clamp(min=first), upper.clamp(max=second)
        middle = (lower + upper) / 2
        at_lower, at_upper, at_left, at_right = (self.torch(z) for z in (lower, upper, left, right))
        at_middle = self.torch(middle)
        steep = self.gain * ((self.low < at_middle) & (at_middle < self.high)).to(lower.dtype)

        def slope(rise: Tensor, run: Tensor) -> Tensor:
            narrow = run < 1e-4  # the quotient is then mostly rounding
            return torch.where(narrow, steep, rise / torch.where(narrow, torch.ones_like(run), run))

        flat = torch.zeros_like(lower)
        lower_slope = torch.where(middle > left, slope(at_upper - at_left, upper - left), flat)
        upper_slope = torch.where(middle < right, slope(at_right - at_lower, right - lower), flat)
        below = torch.minimum(at_left - lower_slope * left, at_upper - lower_slope * upper)
        above = torch.maximum(at_right - upper_slope * right, at_lower - upper_slope * lower)
        return Lines(
            lower_slope,
            torch.minimum(below, at_lower - lower_slope * lower),
            upper_slope,
            torch.maximum(above, at_upper - upper_slope * upper),
        )
