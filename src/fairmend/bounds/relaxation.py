"""Linear relaxations of activations: two lines that enclose the function on an interval.

ReLU follows CROWN (Zhang et al., 2018), and LeakyReLU is its convex combination with the identity. S-shaped functions
take tangent and chord if the curvature has one sign, and the DeepPoly rule (Singh et al., 2019) if it changes. All of
it is differentiable, because step 1 trains through it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fairmend.network import Activation

__all__ = ["Lines", "apply_activation", "relax"]


class Lines(NamedTuple):
    """For z in the interval: ``lower_slope * z + lower_intercept <= f(z) <= upper_slope * z + upper_intercept``.

    All slopes are non-negative, because every supported activation is increasing.
    """

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


def apply_activation(activation: Activation, z: Tensor) -> Tensor:
    """Return f(z) for an activation f."""
    if activation.name == "relu":
        return torch.relu(z)
    if activation.name == "leaky_relu":
        return torch.nn.functional.leaky_relu(z, activation.slope)
    if activation.name == "tanh":
        return torch.tanh(z)
    if activation.name == "sigmoid":
        return torch.sigmoid(z)
    if activation.name == "identity":
        return z
    raise NotImplementedError(f"the function {activation.name} in PyTorch")


def relax(activation: Activation, lower: Tensor, upper: Tensor) -> Lines:
    """Return lines that enclose the activation on ``[lower, upper]``, elementwise."""
    if activation.name == "relu":
        return _relu(lower, upper)
    if activation.name == "leaky_relu":
        return _leaky_relu(lower, upper, activation.slope)
    if activation.name in ("tanh", "sigmoid"):
        return _s_shaped(activation, lower, upper)
    if activation.name != "identity":
        raise NotImplementedError(f"the relaxation of {activation.name}")
    one, zero = torch.ones_like(lower), torch.zeros_like(lower)
    return Lines(one, zero, one, zero)


def _relu(lower: Tensor, upper: Tensor) -> Lines:
    """Return the upper line through the end points, and the lower slope 1 if upper > -lower, else 0 (stable: exact)."""
    above, below = upper.clamp(min=0), lower.clamp(max=0)
    width = above - below
    # A unit that is 0 on the whole interval has width 0; any divisor gives it the slope 0.
    upper_slope = above / torch.where(width > 0, width, torch.ones_like(width))
    lower_slope = (above > -below).to(lower.dtype)
    return Lines(lower_slope, torch.zeros_like(lower), upper_slope, -upper_slope * below)


def _leaky_relu(lower: Tensor, upper: Tensor, slope: float) -> Lines:
    """Return the lines of LeakyReLU, which is ``slope * z + (1 - slope) * ReLU(z)``."""
    rest = 1 - slope
    relu = _relu(lower, upper)
    return Lines(
        slope + rest * relu.lower_slope,
        relu.lower_intercept,
        slope + rest * relu.upper_slope,
        rest * relu.upper_intercept,
    )


def _s_shaped(activation: Activation, lower: Tensor, upper: Tensor) -> Lines:
    """Return the lines of tanh or sigmoid: convex below 0, concave above, steepest at 0."""
    middle = (lower + upper) / 2
    at_lower, at_upper, at_middle = (apply_activation(activation, z) for z in (lower, upper, middle))
    slope_lower, slope_upper, slope_middle = (
        _derivative(activation, value) for value in (at_lower, at_upper, at_middle)
    )
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


def _derivative(activation: Activation, value: Tensor) -> Tensor:
    """Return the derivative of tanh or sigmoid at the point where the function has this ``value``."""
    return 1 - value * value if activation.name == "tanh" else value * (1 - value)
