"""Functions with a kink at 0: ``negative * z`` on negative numbers, z on the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.network.functions.base import NARROW, TINY, UNIT, Function, Intervals, Lines, below

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

    @cached_property
    def _exact(self) -> bool:
        """Whether no value is rounded."""
        return bool(np.all((self.negative == 0) | (np.asarray(self.negative) == 1)))

    @cached_property
    def _convex(self) -> bool:
        return bool(np.all(np.asarray(self.negative) <= 1))

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the slope on the side of 0."""
        return np.where(z > 0, 1.0, self.negative)

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return f(z), exact where nothing is multiplied."""
        y = np.maximum(z, 0.0) if np.ndim(self.negative) == 0 and self.negative == 0 else self._product(z)
        return y, np.zeros_like(y) if self._exact else np.where(z >= 0, 0.0, 4 * UNIT * np.abs(y) + TINY)

    def _product(self, z: Floats) -> Floats:
        return np.where(z >= 0, z, self.negative * z)

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends, and 0 if the function turns there."""
        ends = [self.value(lower), self.value(upper)]
        if self.increasing:
            return ends[0][0] - ends[0][1], ends[1][0] + ends[1][1]
        low = np.minimum(below(*ends[0]), below(*ends[1]))
        high = np.maximum(ends[0][0] + ends[0][1], ends[1][0] + ends[1][1])
        around = (lower < 0) & (upper > 0)
        return np.where(around, np.minimum(low, 0.0), low), high

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values at the ends, and 0 if the function turns there."""
        import torch

        left, right = self.torch(lower), self.torch(upper)
        if self.increasing:
            return left, right
        low = torch.minimum(left, right)
        around = (lower < 0) & (upper > 0)
        return torch.where(around, low.clamp(max=0), low), torch.maximum(left, right)

    def wide_image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the image itself if no value is rounded."""
        if self.increasing:
            low, high = lower.copy(), upper.copy()
            self.apply(low)
            self.apply(high)
        else:
            low, high = self.image(lower, upper)
        if self._exact:
            return low, high
        return low - NARROW * (1 + np.abs(low)), high + NARROW * (1 + np.abs(high))

    def lowest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return the least difference: at an end, or at 0."""
        at_ends = np.minimum(self._at(slope, lower, -1), self._at(slope, upper, -1))
        return np.where((lower < 0) & (upper > 0), np.minimum(at_ends, 0.0), at_ends)

    def highest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return the greatest difference: at an end, or at 0 if the function is concave."""
        at_ends = np.maximum(self._at(slope, lower, 1), self._at(slope, upper, 1))
        if self._convex:  # and so is the difference
            return at_ends
        return np.where((lower < 0) & (upper > 0), np.maximum(at_ends, 0.0), at_ends)

    def _at(self, slope: Floats, z: Floats, side: int) -> Floats:
        """Return a lower (``side`` -1) or upper (1) bound of f(z) - slope * z.

        As a product, the difference keeps its relative accuracy: one rounding in the factor, one in the product and
        one when the error is added. A computed difference is 0 only if it is exactly 0.
        """
        factor = np.where(z >= 0, 1.0, self.negative) - slope
        product = factor * z
        error = np.where((factor == 0) | (z == 0), 0.0, 4 * UNIT * np.abs(product) + TINY)
        bound: Floats = product + side * error
        return bound

    def slope_range(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the slopes on the sides of 0 that the interval has."""
        left, right = np.where(lower < 0, self.negative, 1.0), np.where(upper > 0, 1.0, self.negative)
        return np.minimum(left, right), np.maximum(left, right)


def relax_relu(lower: Tensor, upper: Tensor) -> Lines:
    """Return the upper line through the end points, and the lower slope 1 if upper > -lower, else 0 (stable: exact)."""
    import torch

    above, under = upper.clamp(min=0), (-lower).clamp(min=0)  # the parts of the interval on both sides of 0
    width = above + under
    # A unit that is 0 on the whole interval has width 0; any divisor gives it the slope 0.
    upper_slope = above / (width + (width == 0))
    lower_slope = (above > under).to(lower.dtype)
    return Lines(lower_slope, torch.zeros_like(lower), upper_slope, upper_slope * under)
