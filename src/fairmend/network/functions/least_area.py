"""The lines of least area: the tightest pair of lines around a curve on an interval, differentiable in its ends.

The area below a line over [l, u] is its value at the middle m times the width. So the best lower line is the one that
supports the convex hull of the curve at m. It is the tangent at m if the curve lies above that; else it touches the
curve at two points z1 <= m <= z2, each an end or a point whose tangent it is. The upper line is the mirror image.

These points are searched for in NumPy, without gradients. The gradient of the line is exact nevertheless: the slope
(f(z2) - f(z1)) / (z2 - z1) does not change to first order if a point at which the line is a tangent moves along the
curve, so only the ends carry gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats
from fairmend.network.functions.base import Lines

if TYPE_CHECKING:
    from torch import Tensor

    from fairmend.network.functions.curved import Curved


_STEPS = 12  # each replaces a touching point by a better one, as Newton's method does
_NARROW = 1e-4  # a quotient over less is mostly rounding, and the derivative is as good


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


def tangent_and_chord(function: Curved, lower: Tensor, upper: Tensor) -> Lines:
    """Return the lines of a convex function: the tangent at the middle below, the chord above."""
    import torch

    middle = (lower + upper) / 2
    at_lower, at_upper, at_middle = (function.torch(z) for z in (lower, upper, middle))
    slope, width = function.torch_slope(middle), upper - lower
    narrow = width < _NARROW
    chord = torch.where(narrow, slope, (at_upper - at_lower) / torch.where(narrow, torch.ones_like(width), width))
    above = torch.maximum(at_lower - chord * lower, at_upper - chord * upper)
    return Lines(slope, at_middle - slope * middle, chord, above)


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
    narrow = upper - lower < _NARROW
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
