"""Tanh and sigmoid: convex left of zero, concave right of it, and symmetric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.kernel.functions.base import Activation, finite
from fairmend_check.kernel.rounding import LIBRARY, TINY, Array, Precision, U, down, up


@dataclass(frozen=True)
class Sigmoid:
    """Tanh, or the sigmoid 1 / (1 + exp(-z))."""

    name: str

    @staticmethod
    def of(activation: Activation) -> Sigmoid:
        """Return the function of this name."""
        return Sigmoid(activation.name)

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the values: those at the ends."""
        return self._values(lower)[0], self._values(upper)[1]

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the derivative: it is even, and falls on both sides of 0."""
        nearest = np.maximum(np.maximum(lower, -upper), 0.0)
        furthest = np.maximum(upper, -lower)
        return np.maximum(self._derivative(furthest) - 128 * U, 0.0), self._derivative(nearest) + 128 * U

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the intercepts.

        f(-z) = c - f(z), so the maximum of f(z) - s z is c less the minimum over the mirrored interval.
        """
        turn = 0.0 if self.name == "tanh" else 1.0
        low = self._minimum(slopes[0], lower, upper)
        return low, up(turn - self._minimum(slopes[1], -upper, -lower))

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return chord and tangent if f bends to one side, else the flattest slope (Singh et al., DeepPoly, 2019)."""
        ends = self._curve(lower), self._curve(upper)
        width = upper - lower
        tangent = self._derivative(0.5 * lower + 0.5 * upper)
        chord = np.where(width < 1e-4, tangent, (ends[1] - ends[0]) / np.where(width < 1e-4, 1.0, width))
        flattest = np.minimum(self._derivative(lower), self._derivative(upper))
        concave, convex = lower >= 0, upper <= 0
        below = np.where(concave, chord, np.where(convex, tangent, flattest))
        above = np.where(convex, chord, np.where(concave, tangent, flattest))
        return finite(below), finite(above)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of a value up to 1."""
        return np.full(low.shape, 16 * kind.u + kind.tiny)

    def _values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        value = self._curve(z)
        slip = np.abs(value) * LIBRARY + TINY
        floor = -1.0 if self.name == "tanh" else 0.0
        return np.maximum(down(value - slip), floor), np.minimum(up(value + slip), 1.0)

    def _curve(self, z: Array) -> Array:
        """Return f(z) within a relative error of LIBRARY."""
        if self.name == "tanh":
            return np.tanh(z)
        decay = np.exp(-np.abs(z))
        return np.where(z < 0, decay, 1.0) / (1.0 + decay)

    def _derivative(self, z: Array) -> Array:
        """Return the derivative within 128 U."""
        value = self._curve(z)
        return (1 - value) * (1 + value if self.name == "tanh" else value)

    def _minimum(self, slope: Array, lower: Array, upper: Array) -> Array:
        """Return a lower bound of f(z) - slope z on lower..upper, for f convex left of 0 and concave right of it.

        On the convex part the tangent at any point is below; the point nearest to where f' equals the slope makes it
        tight, and an inexact point costs tightness only. On the concave part the ends decide.
        """
        right = np.minimum(upper, 0.0)
        touch = np.clip(-self._touching_point(slope), lower, right)
        value = self._curve(touch)
        excess = self._derivative(touch) - slope
        unsure = 128 * U + 4 * U * np.abs(excess)
        sides = (excess + unsure) * (lower - touch), (excess - unsure) * (right - touch)
        line = slope * touch
        sizes = np.abs(line) + np.abs(sides[0]) + np.abs(sides[1]) + np.abs(value)
        slip = LIBRARY * np.abs(value) + 8 * U * sizes + TINY
        convex = down((value - line + np.minimum(*sides)) - slip)
        least = np.where(lower < 0, convex, np.inf)
        for z in (np.maximum(lower, 0.0), upper):
            line = slope * z
            low = self._values(z)[0]
            end = down(low - line - (4 * U * (np.abs(line) + np.abs(low)) + TINY))
            least = np.minimum(least, np.where(upper > 0, end, np.inf))
        # Neither part covers the interval that is the single point 0.
        zero = down(self._values(np.zeros_like(lower))[0])
        return np.where((lower >= 0) & (upper <= 0), zero, least)

    def _touching_point(self, slope: Array) -> Array:
        """Return roughly the z >= 0 at which the derivative equals the slope; 0 for slopes above every derivative."""
        share = slope if self.name == "tanh" else 4 * slope
        z = np.arctanh(np.sqrt(np.clip(1 - share, 0.0, 1.0 - U)))
        return z if self.name == "tanh" else 2 * z
