"""Tanh and sigmoid: convex below 0, concave above, steepest at 0, and symmetric around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
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


class Sigmoid(SShaped):
    """1 / (1 + exp(-z))."""

    def apply(self, values: FloatArray) -> None:
        # exp overflows to inf for very negative values, and 1/inf = 0 is then the right answer.
        with np.errstate(over="ignore"):
            np.exp(np.negative(values, out=values), out=values)
        values += 1
        np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.sigmoid()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(y * (1 - y))

    def _slope_from(self, value: Tensor) -> Tensor:
        return value * (1 - value)


class Tanh(SShaped):
    """tanh(z) = 2 sigmoid(2z) - 1."""

    def apply(self, values: FloatArray) -> None:
        np.tanh(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.tanh()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(1 - y * y)

    def _slope_from(self, value: Tensor) -> Tensor:
        return 1 - value * value
