"""Functions that clip a line: clip(gain·z + offset, low, high) with a positive gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, Floats
from fairmend.network.functions.base import TINY, UNIT, Function, Intervals, Lines

if TYPE_CHECKING:
    from torch import Tensor


class Clipped(Function):
    """Flat at ``low`` up to the first knot, steep up to the second, flat at ``high`` after it.

    The knots are rounded, and off by up to ``inexact``; a clip of z itself has exact ones. Either end may be infinite.
    """

    piecewise_linear = True

    def __init__(self, gain: float, offset: float, low: float, high: float) -> None:
        self.gain, self.offset, self.low, self.high = gain, offset, low, high
        self.lipschitz = gain
        self.span = (high - low) * (1 + 4 * UNIT)
        self.knots = (low - offset) / gain, (high - offset) / gain
        self._exact = gain == 1 and offset == 0
        self.inexact = 0.0 if self._exact else 8 * UNIT * (abs(low) + abs(high) + abs(offset)) / gain

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

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return f(z), exact if it is z itself that is clipped."""
        if self._exact:
            return np.clip(z, self.low, self.high), np.zeros(np.shape(z))
        product = self.gain * z
        y = np.clip(product + self.offset, self.low, self.high)
        # Where the line is far outside, the value is exact; elsewhere the product is no larger than this.
        return y, 4 * UNIT * (np.abs(y) + 2 * abs(self.offset)) + TINY

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends."""
        (least, low_error), (most, high_error) = self.value(lower), self.value(upper)
        return np.maximum(least - low_error, self.low), np.minimum(most + high_error, self.high)

    def wide_image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the image itself if no value is rounded."""
        return self.image(lower, upper) if self._exact else super().wide_image(lower, upper)

    def lowest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return the least difference: at an end, or at the first knot, where the slope grows."""
        ends = np.minimum(self._at(slope, lower, -1), self._at(slope, upper, -1))
        inside, knot = self._at_knot(slope, lower, upper, 0, -1)
        return np.where(inside, np.minimum(ends, knot), ends)

    def highest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return the greatest difference: at an end, or at the second knot, where the slope falls."""
        ends = np.maximum(self._at(slope, lower, 1), self._at(slope, upper, 1))
        inside, knot = self._at_knot(slope, lower, upper, 1, 1)
        return np.where(inside, np.maximum(ends, knot), ends)

    def _at(self, slope: Floats, z: Floats, side: int) -> Floats:
        """Return a lower (``side`` -1) or upper (1) bound of f(z) - slope·z."""
        y, error = self.value(z)
        product = slope * z
        rounded = np.where((slope == 0) | (slope == 1), 0.0, 4 * UNIT * np.abs(product) + TINY)
        bound: Floats = y - product
        return bound + side * (error + rounded + 4 * UNIT * np.abs(bound))

    def _at_knot(self, slope: Floats, lower: Floats, upper: Floats, which: int, side: int) -> tuple[Bools, Floats]:
        """Return whether a knot may be in the interval, and a bound of the difference there."""
        knot, y = self.knots[which], (self.low, self.high)[which]
        inside = (lower < knot + self.inexact) & (knot - self.inexact < upper)
        product = slope * knot
        error = np.abs(slope) * self.inexact + 4 * UNIT * (np.abs(product) + abs(y)) + TINY
        return inside, y - product + side * error

    def slope_range(self, lower: Floats, upper: Floats) -> Intervals:
        """Return 0 or the gain where the whole interval has it, else both."""
        first, second = self.knots
        off = self.inexact
        steep = (lower >= first + off) & (upper <= second - off)
        flat = (upper <= first - off) | (lower >= second + off)
        return np.where(steep, self.gain, 0.0), np.where(flat, 0.0, self.gain)

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
