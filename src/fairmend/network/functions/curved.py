"""Functions that are made of curvature pieces: between two break points each is convex, concave or linear.

A break point is a kink or an inflection point. On a concave piece, f(z) - slope·z is least at an end, and on a convex
piece where the derivative is the slope. For the greatest difference, convex and concave change places.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import Bools, Floats
from fairmend.network.functions.base import Function, Intervals, Lines
from fairmend.network.functions.least_area import least_area_lines, tangent_and_chord

if TYPE_CHECKING:
    from torch import Tensor


_TAIL = 40.0  # beyond it, a function that needs a table is a straight line, up to rounding
_ENTRIES = 1024  # of a table


class Curved(Function):
    """``breaks`` from left to right, and the sign of the ``curvature`` between them, which has one entry more."""

    breaks: tuple[float, ...] = ()
    curvature: tuple[int, ...] = (1,)

    kinked: bool = False
    """Whether the derivative jumps at a break point; if not, `slope_on` is the same for all pieces."""

    convex: bool = False
    """Whether the function is convex as a whole: all its pieces are, and its kinks as well."""

    @abstractmethod
    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return the derivative of a piece at points of it; z may be infinite."""

    @abstractmethod
    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative of a tensor, differentiable."""

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return about the point of a piece where the derivative is the slope, or the end that is nearest to that."""
        slopes, points = _table(self, piece)
        return np.interp(slope, slopes, points)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the derivative of the piece that z lies in."""
        found = self.slope_on(len(self.breaks), z)
        for piece in reversed(range(len(self.breaks) if self.kinked else 0)):
            found = np.where(z < self.breaks[piece], self.slope_on(piece, z), found)
        return found

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
            sought = sought + (slope - self.slope_on(piece, self.touching(piece, sought)))
        return self.touching(piece, sought)

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
        least = side * (self.value(best) - slope * best)
        for point in points[1:]:
            difference = side * (self.value(point) - slope * point)
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


@cache
def _table_of(kind: type[Curved], piece: int) -> Intervals:
    """Return the derivatives of a piece in increasing order, and the points that have them, densest at the ends."""
    function = kind()
    left, right = list(pairwise((-_TAIL, *function.breaks, _TAIL)))[piece]
    points = left + (right - left) * (1 - np.cos(np.linspace(0, np.pi, _ENTRIES))) / 2
    slopes = function.slope_on(piece, points)
    order = slice(None) if function.curvature[piece] > 0 else slice(None, None, -1)
    return np.maximum.accumulate(slopes[order]), points[order]


def _table(function: Curved, piece: int) -> Intervals:
    """Return the table of a function without parameters."""
    return _table_of(type(function), piece)
