"""Functions that are made of curvature pieces: between two break points each is convex, concave or linear.

A break point is a kink or an inflection point. On a concave piece, f(z) - slope·z is least at an end, and on a convex
piece where the derivative is the slope. For the greatest difference, convex and concave change places.

The lines of least area: the tightest pair of lines around a curve on an interval, differentiable in its ends.

The area below a line over [l, u] is its value at the middle m times the width. So the best lower line is the one that
supports the convex hull of the curve at m. It is the tangent at m if the curve lies above that; else it touches the
curve at two points z1 <= m <= z2, each an end or a point whose tangent it is. The upper line is the mirror image.

These points are searched for in NumPy, without gradients. The gradient of the line is exact nevertheless: the slope
(f(z2) - f(z1)) / (z2 - z1) does not change to first order if a point at which the line is a tangent moves along the
curve, so only the ends carry gradients.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats
from fairmend.network.functions.base import NARROW, Function, Intervals, Lines, slope_of_chord

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
        slopes, points = _table_of(type(self), piece)
        return np.interp(slope, slopes, points)

    def derivative(self, z: Floats, y: Floats) -> Floats:
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
        import torch

        left, right = self.torch(lower), self.torch(upper)
        where, value = self.minimum
        inside = (lower <= where) & (where <= upper)
        return torch.minimum(left, right).masked_fill(inside, value), torch.maximum(left, right)


class Bent(Function):
    """A function that bends to one side all over: ``bend`` is 1 for a convex one, -1 for a concave one."""

    bend: int = 1

    @abstractmethod
    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the derivative of a tensor, differentiable."""

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        return tangent_and_chord(self, lower, upper, bend=self.bend)


@cache
def _table_of(kind: type[Curved], piece: int) -> Intervals:
    """Return the derivatives of a piece in increasing order, and the points that have them, densest at the ends.

    The function has no parameters.
    """
    function = kind()
    left, right = list(pairwise((-_TAIL, *function.breaks, _TAIL)))[piece]
    points = left + (right - left) * (1 - np.cos(np.linspace(0, np.pi, _ENTRIES))) / 2
    slopes = function.slope_on(piece, points)
    order = slice(None) if function.curvature[piece] > 0 else slice(None, None, -1)
    return np.maximum.accumulate(slopes[order]), points[order]


_STEPS = 12  # each replaces a touching point by a better one, as Newton's method does


class _Touch(NamedTuple):
    """Where a line touches the curve.

    Its slope is that at the middle if ``parallel``, else that from ``left`` to ``right``. It meets the curve at the
    middle if ``central``, else at ``z``.
    """

    parallel: Bools
    central: Bools
    left: Floats
    right: Floats
    z: Floats


def tangent_and_chord(function: Curved | Bent, lower: Tensor, upper: Tensor, *, bend: int = 1) -> Lines:
    """Return the lines of a convex function: the tangent at the middle below, the chord above; concave: ``bend`` -1."""
    import torch

    middle = (lower + upper) / 2
    at_lower, at_upper, at_middle = (function.torch(z) for z in (lower, upper, middle))
    slope = function.torch_slope(middle)
    chord = slope_of_chord(at_upper - at_lower, upper - lower, slope)
    ends = at_lower - chord * lower, at_upper - chord * upper
    tangent = at_middle - slope * middle
    if bend > 0:
        return Lines(slope, tangent, chord, torch.maximum(*ends))
    return Lines(chord, torch.minimum(*ends), slope, tangent)


def least_area_lines(function: Curved, lower: Tensor, upper: Tensor) -> Lines:
    """Return the lines of least area around any curve."""
    middle = (lower + upper) / 2
    low, high, centre = (z.detach().cpu().numpy().astype(np.float64) for z in (lower, upper, middle))
    tangent = function.torch(middle), function.torch_slope(middle)
    with np.errstate(all="ignore"):
        below, above = (_search(function, low, high, centre, side) for side in (1, -1))
    return Lines(
        *_line(function, lower, upper, middle, tangent, below), *_line(function, lower, upper, middle, tangent, above)
    )


def _line(
    function: Curved, lower: Tensor, upper: Tensor, middle: Tensor, tangent: tuple[Tensor, Tensor], touch: _Touch
) -> tuple[Tensor, Tensor]:
    """Return the slope and the intercept, with gradients of the ends."""
    import torch

    def tensor(values: Floats | Bools) -> Tensor:
        return torch.as_tensor(values, device=lower.device)

    def point(z: Floats) -> Tensor:
        inner = tensor(z).to(lower.dtype)
        return torch.where(inner == lower, lower, torch.where(inner == upper, upper, inner))

    left, right, z = point(touch.left), point(touch.right), point(touch.z)
    width = right - left
    parallel = tensor(touch.parallel) | (width <= 0)
    rise = function.torch(right) - function.torch(left)
    slope = torch.where(parallel, tangent[1], rise / torch.where(parallel, torch.ones_like(width), width))
    intercept = torch.where(tensor(touch.central), tangent[0] - slope * middle, function.torch(z) - slope * z)
    return slope, intercept


def _search(function: Curved, lower: Floats, upper: Floats, middle: Floats, side: int) -> _Touch:
    """Return where the line below (``side`` 1) or above (-1) touches the curve.

    The middle is that of the tensors, however it is rounded: beside a kink, another middle has another slope.
    """
    slope = function.derivative(middle, middle)
    lowest = function.touch(slope, lower, upper, side, polished=True)
    gap = _difference(function, slope, middle, side) - _difference(function, slope, lowest, side)
    supports = gap <= 1e-12 * (1 + np.abs(middle))
    narrow = upper - lower < NARROW
    parallel, left, right = supports | narrow, lower.copy(), upper.copy()
    others = ~parallel
    left[others], right[others], lowest[others] = _two_points(function, lower[others], upper[others], side)
    return _Touch(parallel, supports, left, right, lowest)


def _two_points(function: Curved, lower: Floats, upper: Floats, side: int) -> tuple[Floats, Floats, Floats]:
    """Return the touching points left and right of the middle, and where the line through them is closest."""
    left, right, closest = lower.copy(), upper.copy(), lower.copy()
    going = np.arange(lower.size)
    for _ in range(_STEPS):
        start, end, low, high = left[going], right[going], lower[going], upper[going]
        slope = (function.value(end) - function.value(start)) / (end - start)
        z = function.touch(slope, low, high, side)
        closest[going] = z
        gain = _difference(function, slope, start, side) - _difference(function, slope, z, side)
        better, before = gain > 1e-14, z <= (low + high) / 2
        left[going[better & before]] = z[better & before]
        right[going[better & ~before]] = z[better & ~before]
        going = going[better]
        if not going.size:
            break
    return left, right, closest


def _difference(function: Curved, slope: Floats, z: Floats, side: int) -> Floats:
    difference: Floats = side * (function.value(z) - slope * z)
    return difference
