"""Tanh and sigmoid: convex below 0, concave above, steepest at 0, and symmetric around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.network.functions.base import LIBRARY, NARROW, TINY, UNIT, Function, Intervals, Lines, Precision

if TYPE_CHECKING:
    from torch import Tensor


_DERIVATIVE = 64 * UNIT  # q / (1 + q)² has q twice, at most 16 UNIT each, and four more operations


class SShaped(Function):
    """Its values lie between ``FLOOR`` and 1."""

    FLOOR: ClassVar[float]
    span = 2.0

    @abstractmethod
    def _computed(self, z: Floats) -> Floats:
        """Return f(z) within a relative error of LIBRARY."""

    @abstractmethod
    def _slope_from(self, value: Tensor) -> Tensor:
        """Return the derivative where the function has this value."""

    @abstractmethod
    def _steepness(self, z: Floats) -> Floats:
        """Return f'(z), accurate in the tails."""

    @abstractmethod
    def _where_slope_is(self, slope: Floats) -> Floats:
        """Return about the z >= 0 with f'(z) = slope: infinite for slopes <= 0, 0 for slopes too large."""

    @abstractmethod
    def _mirrored(self, intercept: Floats) -> Floats:
        """Return f(-z) + slope·z if f(z) - slope·z is the intercept."""

    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return f(z) within the error of the library."""
        y = self._computed(z)
        return y, LIBRARY * np.abs(y) + TINY

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends."""
        (low, low_error), (high, high_error) = self.value(lower), self.value(upper)
        return np.maximum(low - low_error, self.FLOOR), np.minimum(high + high_error, 1.0)

    def wide_image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends, as inference computes them, and more."""
        low, high = lower.copy(), upper.copy()
        self.apply(low)
        self.apply(high)
        return low - NARROW * (1 + np.abs(low)), high + NARROW * (1 + np.abs(high))

    def lowest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return a lower bound of g(z) = f(z) - slope * z on the interval.

        Above 0, f is concave, so g is least at an end. Below 0, f is convex, so g lies above each of its tangents: at a
        point t of [lower, 0], g(z) >= g(t) + g'(t) (z - t). This holds for every t and is sharp if g'(t) = 0, so t may
        be the rounded closed form, and the cost of its residual g'(t) is subtracted. The end 0 belongs to both sides.
        """

        def at(z: Floats, loss: Floats | float = 0.0) -> Floats:
            y, error = self.value(z)
            product = slope * z
            difference = y - product
            return difference - (error + loss + 4 * UNIT * (np.abs(product) + np.abs(difference)) + TINY)

        least = np.minimum(at(lower), at(upper))
        end = np.minimum(upper, 0.0)
        t = np.clip(-self._where_slope_is(slope), lower, end)
        steep = self._steepness(t)
        residual = steep - slope
        error = _DERIVATIVE * steep + 2 * UNIT * np.abs(residual) + TINY
        loss = np.maximum(
            np.maximum(error - residual, 0.0) * (end - t),  # z right of t, where g may fall
            np.maximum(error + residual, 0.0) * (t - lower),  # z left of t, where g may rise
        )
        return np.where(lower < 0, np.minimum(least, at(t, 1.01 * loss)), least)

    def highest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return an upper bound of f(z) - slope * z: mirror the function and the interval."""
        intercept = self._mirrored(self.lowest(slope, -upper, -lower))
        bound: Floats = intercept + 4 * UNIT * np.abs(intercept)
        return bound

    def slope_range(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the slope furthest from 0 and that nearest to 0."""
        steepest = np.clip(0.0, lower, upper)
        flattest = np.where(-lower > upper, lower, upper)
        flat, steep = (self._slope_of(z) for z in (flattest, steepest))
        return np.maximum(flat - NARROW, 0.0), steep + NARROW

    def _slope_of(self, z: Floats) -> Floats:
        value = z.copy()
        self.apply(value)
        return self.derivative(z, value)

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 16 units of 1: libraries are that accurate."""
        return np.full(least.shape, 16 * precision.unit + precision.tiny)

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
