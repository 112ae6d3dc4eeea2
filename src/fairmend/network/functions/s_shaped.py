"""Tanh and sigmoid: convex below 0, concave above, steepest at 0, and symmetric around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from fairmend.network.functions.base import Function, Lines

if TYPE_CHECKING:
    from torch import Tensor


class SShaped(Function):
    """A function of this shape says what its slope is where it has a value."""

    @abstractmethod
    def _slope_from(self, value: Tensor) -> Tensor:
        """Return the derivative where the function has this value."""

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return tangent and chord if the curvature has one sign, and the DeepPoly rule (Singh et al., 2019) if not."""
        import torch

        middle = (lower + upper) / 2
        at_lower, at_upper, at_middle = (self.torch(z) for z in (lower, upper, middle))
        slope_lower, slope_upper, slope_middle = (self._slope_from(value) for value in (at_lower, at_upper, at_middle))
        width = upper - lower
        narrow = width < 1e-4  # the quotient is then mostly rounding, and the derivative is as good
        chord = torch.where(
            narrow, slope_middle, (at_upper - at_lower) / torch.where(narrow, torch.ones_like(width), width)
        )
        flattest = torch.minimum(slope_lower, slope_upper)
        concave, convex = lower >= 0, upper <= 0

        def through_ends(slope: Tensor, pick: object) -> Tensor:
            return pick(at_lower - slope * lower, at_upper - slope * upper)  # type: ignore[operator, no-any-return]

        tangent = at_middle - slope_middle * middle
        lower_slope = torch.where(concave, chord, torch.where(convex, slope_middle, flattest))
        upper_slope = torch.where(convex, chord, torch.where(concave, slope_middle, flattest))
        # Concave: f minus any line is smallest at an end point. Changing curvature: f grows at least as fast as the
        # flattest slope, so f minus that line is smallest at the lower end and largest at the upper one.
        lower_intercept = torch.where(convex, tangent, through_ends(lower_slope, torch.minimum))
        upper_intercept = torch.where(concave, tangent, through_ends(upper_slope, torch.maximum))
        return Lines(lower_slope, lower_intercept, upper_slope, upper_intercept)
