"""Functions that are made of curvature pieces: between two break points each is convex, concave or linear.

A break point is a kink or an inflection point. On a concave piece, f(z) - slope·z is least at an end. On a convex piece
it lies above each of its tangents: at any point t of the piece, g(z) >= g(t) + g'(t) (z - t). This holds for every t
and is sharp if g'(t) = 0, so t need not be exact: what its residual g'(t) can cost is subtracted. For the greatest
difference, convex and concave change places. Nothing is sampled.

An irrational break point b is known up to ``inexact``, d for short. A number z of a piece as computed is then at most d
away from the number z' of the true piece that is nearest, and a tangent point t from t'. So g(z) is at least
g(z') - (L + |slope|) d, where L is the Lipschitz constant, g(t') differs from g(t) by no more than that, and z' - t'
from z - t by 2 d: 4 (L + |slope|) d together. The derivatives at t and t' differ by less than d, because |f''| < 1 near
those points; the error of each derivative includes that.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import Bools, Floats
from fairmend.network.functions.base import TINY, UNIT, Function, Intervals, Lines, below
from fairmend.network.functions.least_area import least_area_lines, tangent_and_chord

if TYPE_CHECKING:
    from torch import Tensor


_WIDER = 2.0**-33  # far below any rounding in float32, and above what the checker's own enclosures lose
_TAIL = 40.0  # beyond it, a function that needs a table is a straight line, up to rounding
_ENTRIES = 1024  # of a table


class Curved(Function):
    """``breaks`` from left to right, and the sign of the ``curvature`` between them, which has one entry more."""

    breaks: tuple[float, ...] = ()
    curvature: tuple[int, ...] = (1,)
    inexact: float = 0.0
    """How far the break points may be off."""

    kinked: bool = False
    """Whether the derivative jumps at a break point; if not, `slope_on` is the same for all pieces."""

    convex: bool = False
    """Whether the function is convex as a whole: all its pieces are, and its kinks as well."""

    @abstractmethod
    def slope_on(self, piece: int, z: Floats) -> tuple[Floats, Floats]:
        """Return the derivative of a piece at points of it, and a bound of its error; z may be infinite."""

    @abstractmethod
    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative of a tensor, differentiable."""

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return about the point of a piece where the derivative is the slope, or the end that is nearest to that."""
        slopes, points = _table(self, piece)
        return np.interp(slope, slopes, points)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the derivative of the piece that z lies in."""
        found = self.slope_on(len(self.breaks), z)[0]
        for piece in reversed(range(len(self.breaks) if self.kinked else 0)):
            found = np.where(z < self.breaks[piece], self.slope_on(piece, z)[0], found)
        return found

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends."""
        (low, low_error), (high, high_error) = self.value(lower), self.value(upper)
        return low - low_error, high + high_error

    def wide_image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the image, widened by more than the checker's error in computing such functions."""
        low, high = self.image(lower, upper)
        return low - _WIDER * (1 + np.abs(low)), high + _WIDER * (1 + np.abs(high))

    def lowest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return a lower bound of f(z) - slope·z."""
        return self._extreme(slope, lower, upper, 1)

    def highest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return an upper bound of f(z) - slope·z."""
        return -self._extreme(slope, lower, upper, -1)

    def _extreme(self, slope: Floats, lower: Floats, upper: Floats, side: int) -> Floats:
        """Return a lower bound of ``side`` times the difference f(z) - slope·z."""

        def at(z: Floats, loss: Floats | float = 0.0) -> Floats:
            y, error = self.value(z)
            product = slope * z
            difference = y - product
            return side * difference - (error + loss + 4 * UNIT * (np.abs(product) + np.abs(difference)) + TINY)

        least = np.minimum(at(lower), at(upper))
        for point in self._corners(side):
            inside = (lower < point) & (point < upper)
            least = np.where(inside, np.minimum(least, at(np.full_like(lower, point))), least)
        for piece, left, right, inside in self._pieces(lower, upper):
            if side * self.curvature[piece] > 0:
                t = np.clip(self._polished(piece, slope), left, right)
                steep, error = self.slope_on(piece, t)
                residual = side * (steep - slope)
                error = error + 2 * UNIT * np.abs(residual) + TINY
                loss = np.maximum(
                    np.maximum(error - residual, 0.0) * (right - t),  # z right of t, where the difference may fall
                    np.maximum(error + residual, 0.0) * (t - left),  # z left of t, where it may rise
                )
                least = np.where(inside, np.minimum(least, at(t, 1.01 * loss)), least)
        return least - 4.04 * self.inexact * (self.lipschitz + np.abs(slope)) if self.inexact else least

    def _corners(self, side: int) -> list[float]:
        """Return the break points that no piece with tangents ends in: the difference may be least there."""
        bends = [side * sign for sign in self.curvature]
        return [point for point, *beside in zip(self.breaks, bends, bends[1:], strict=False) if max(beside) <= 0]

    def _pieces(self, lower: Floats, upper: Floats) -> list[tuple[int, Floats, Floats, Bools]]:
        """Return for each piece its part of the interval, and whether that is not empty."""
        parts = []
        for piece, (start, end) in enumerate(pairwise((-np.inf, *self.breaks, np.inf))):
            left, right = np.clip(lower, start, end), np.clip(upper, start, end)
            parts.append((piece, left, right, (lower <= end) & (upper >= start)))
        return parts

    def _polished(self, piece: int, slope: Floats) -> Floats:
        """Return the touching point more accurately: look up the slope plus what the first one misses, twice."""
        sought = slope
        for _ in range(2):
            sought = sought + (slope - self.slope_on(piece, self.touching(piece, sought))[0])
        return self.touching(piece, sought)

    def slope_range(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the extremes of the derivative, which is monotone on each piece: the ends decide."""
        flat, steep = np.full_like(lower, np.inf), np.full_like(lower, -np.inf)
        for piece, left, right, inside in self._pieces(lower, upper):
            for z in (left, right):
                slope, error = self.slope_on(piece, z)
                flat = np.where(inside, np.minimum(flat, slope - error), flat)
                steep = np.where(inside, np.maximum(steep, slope + error), steep)
        flat, steep = flat - _WIDER, steep + _WIDER
        return np.maximum(flat, 0.0) if self.increasing else flat, steep

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of least area."""
        return tangent_and_chord(self, lower, upper) if self.convex else least_area_lines(self, lower, upper)

    def touch(self, slope: Floats, lower: Floats, upper: Floats, side: int, *, polished: bool = False) -> Floats:
        """Return about the point of the interval where ``side`` times the difference f(z) - slope·z is least."""
        touching = self._polished if polished else self.touching
        points = [lower, upper, *(np.clip(point, lower, upper) for point in self._corners(side))]
        for piece, left, right, inside in self._pieces(lower, upper):
            if side * self.curvature[piece] > 0:
                t = np.clip(touching(piece, slope), left, right)
                points.append(np.where(inside, t, lower))
        best: Floats = points[0]
        least = side * (self.value(best)[0] - slope * best)
        for point in points[1:]:
            difference = side * (self.value(point)[0] - slope * point)
            best, least = np.where(difference < least, point, best), np.minimum(difference, least)
        return best


class Valley(Curved):
    """A function without parameters that falls up to its ``minimum``, (where, value), and rises from there."""

    minimum: tuple[float, float]
    increasing = False

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values at the ends, and the minimum if it lies between them."""
        import torch

        left, right = self.torch(lower), self.torch(upper)
        where, value = self.minimum
        inside = (lower <= where) & (where <= upper)
        return torch.minimum(left, right).masked_fill(inside, value), torch.maximum(left, right)

    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return the values at the ends, and the minimum if it may lie between them."""
        (left, left_error), (right, right_error) = self.value(lower), self.value(upper)
        low = np.minimum(below(left, left_error), below(right, right_error))
        high = np.maximum(left + left_error, right + right_error)
        where, value = self.minimum
        near = (lower <= where + 1e-9) & (where - 1e-9 <= upper)
        return np.where(near, np.minimum(low, value - 8 * UNIT), low), high


@cache
def _table_of(kind: type[Curved], piece: int) -> Intervals:
    """Return the derivatives of a piece in increasing order, and the points that have them, densest at the ends."""
    function = kind()
    left, right = list(pairwise((-_TAIL, *function.breaks, _TAIL)))[piece]
    points = left + (right - left) * (1 - np.cos(np.linspace(0, np.pi, _ENTRIES))) / 2
    slopes = function.slope_on(piece, points)[0]
    order = slice(None) if function.curvature[piece] > 0 else slice(None, None, -1)
    return np.maximum.accumulate(slopes[order]), points[order]


def _table(function: Curved, piece: int) -> Intervals:
    """Return the table of a function without parameters."""
    return _table_of(type(function), piece)
