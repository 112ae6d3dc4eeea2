"""Enclose activations on intervals in float64, with every rounding error accounted for.

Assumptions: IEEE 754 arithmetic, rounded to nearest (one operation errs by at most the unit roundoff times its result,
or by the smallest number if it underflows), and ``exp`` and ``tanh`` within 8 units in the last place. An error bound
is itself a sum of non-negative products, so computing it loses no more than the factor 1 - n·UNIT for n operations.
Every bound here has at least 1 % of headroom, which covers that loss for any n that fits in memory. An overflow ends
in a number that is not finite, which becomes "no bound".
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Floats
from fairmend.network import Activation

__all__ = ["TINY", "UNIT", "enclose_image", "enclose_value", "gamma", "lower_line", "upper_line"]

UNIT = 2.0**-53
"""The unit roundoff of float64."""

TINY = 1e-290
"""More than all underflows of a layer together, and far from underflow itself, even when multiplied by UNIT."""

_LIBRARY = 24 * UNIT  # 8 units in the last place are at most 16 UNIT; the rest is for the operations around
_DERIVATIVE = 64 * UNIT  # q / (1 + q)² has q twice, at most 16 UNIT each, and four more operations


def gamma(terms: int) -> float:
    """Return a bound of n·u / (1 - n·u), the relative error of a sum of n products, in any order, fused or not."""
    return 1.01 * terms * UNIT


def enclose_value(activation: Activation, z: Floats) -> tuple[Floats, Floats]:
    """Return f(z) as computed, and its error: f(z) ± error contains the real value, even after that sum is rounded."""
    if activation.name == "tanh":
        y = np.tanh(z)
    elif activation.name == "sigmoid":
        y = 1 / (1 + np.exp(-z))  # exp may overflow where the real value is below TINY, and y is then 0
    else:
        kink = _kink(activation)
        y = np.maximum(z, 0.0) if kink == 0 else np.where(z >= 0, z, kink * z)
        exact = (z >= 0) if 0 < kink < 1 else np.ones_like(z, dtype=bool)
        return y, np.where(exact, 0.0, 4 * UNIT * np.abs(y) + TINY)
    return y, _LIBRARY * np.abs(y) + TINY


def enclose_image(activation: Activation, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return an interval that contains f([lower, upper]); every activation is increasing, so the ends decide."""
    low, low_error = enclose_value(activation, lower)
    high, high_error = enclose_value(activation, upper)
    low, high = low - low_error, high + high_error
    if activation.name in ("tanh", "sigmoid"):
        return np.maximum(low, -1.0 if activation.name == "tanh" else 0.0), np.minimum(high, 1.0)
    return low, high


def lower_line(
    activation: Activation, slope: Floats, lower: Floats, upper: Floats, least: Floats
) -> tuple[Floats, Floats]:
    """Return a slope and an intercept with ``slope * z + intercept <= f(z)`` for all real z in [lower, upper].

    The slope is the given one, whatever it is, unless a number overflows. Then the line is flat, at ``least``, a lower
    bound of f.
    """
    if activation.name in ("tanh", "sigmoid"):
        intercept = _lowest_s_shaped(activation, slope, lower, upper)
    else:
        intercept = _extreme_kinked(activation, slope, lower, upper, -1)
    return _or_flat(slope, intercept, least)


def upper_line(
    activation: Activation, slope: Floats, lower: Floats, upper: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Return a slope and an intercept with ``f(z) <= slope * z + intercept``; see `lower_line`."""
    if activation.name in ("tanh", "sigmoid"):
        # tanh(-z) = 0 - tanh(z) and sigmoid(-z) = 1 - sigmoid(z): mirror the function and the interval.
        mirrored = _lowest_s_shaped(activation, slope, -upper, -lower)
        intercept = -mirrored if activation.name == "tanh" else 1 - mirrored
        intercept = intercept + 4 * UNIT * np.abs(intercept)
    else:
        intercept = _extreme_kinked(activation, slope, lower, upper, 1)
    return _or_flat(slope, intercept, most)


def _kink(activation: Activation) -> float:
    """Return the slope on negative numbers; on positive numbers it is 1."""
    return {"relu": 0.0, "leaky_relu": activation.slope, "identity": 1.0}[activation.name]


def _or_flat(slope: Floats, intercept: Floats, level: Floats) -> tuple[Floats, Floats]:
    usable = np.isfinite(slope) & np.isfinite(intercept)
    return np.where(usable, slope, 0.0), np.where(usable, intercept, level)


def _extreme_kinked(activation: Activation, slope: Floats, lower: Floats, upper: Floats, side: int) -> Floats:
    """Return a lower (``side`` -1) or upper (1) bound of f(z) - slope * z, which is linear on either side of 0."""

    def at(z: Floats) -> Floats:
        # As a product, the difference keeps its relative accuracy: one rounding in the factor, one in the product and
        # one when the error is added. A computed difference is 0 only if it is exactly 0.
        factor = np.where(z >= 0, 1.0, _kink(activation)) - slope
        product = factor * z
        error = np.where((factor == 0) | (z == 0), 0.0, 4 * UNIT * np.abs(product) + TINY)
        bound: Floats = product + side * error
        return bound

    if side > 0:  # f is convex, and so is the difference: its maximum is at an end
        return np.maximum(at(lower), at(upper))
    at_ends = np.minimum(at(lower), at(upper))
    return np.where((lower < 0) & (upper > 0), np.minimum(at_ends, 0.0), at_ends)


def _lowest_s_shaped(activation: Activation, slope: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return a lower bound of g(z) = f(z) - slope * z on the interval, for f = tanh or sigmoid.

    Above 0, f is concave, so g is least at an end. Below 0, f is convex, so g lies above each of its tangents: at a
    point t of [lower, 0], g(z) >= g(t) + g'(t) (z - t). This holds for every t and is sharp if g'(t) = 0, so t may be
    the rounded closed form, and the cost of its residual g'(t) is subtracted. The end 0 belongs to both sides.
    """

    def at(z: Floats, loss: Floats | float = 0.0) -> Floats:
        y, error = enclose_value(activation, z)
        product = slope * z
        difference = y - product
        return difference - (error + loss + 4 * UNIT * (np.abs(product) + np.abs(difference)) + TINY)

    least = np.minimum(at(lower), at(upper))
    end = np.minimum(upper, 0.0)
    t = np.clip(-_where_slope_is(activation, slope), lower, end)
    steep = _derivative(activation, t)
    residual = steep - slope
    error = _DERIVATIVE * steep + 2 * UNIT * np.abs(residual) + TINY
    loss = np.maximum(
        np.maximum(error - residual, 0.0) * (end - t),  # z right of t, where g may fall
        np.maximum(error + residual, 0.0) * (t - lower),  # z left of t, where g may rise
    )
    return np.where(lower < 0, np.minimum(least, at(t, 1.01 * loss)), least)


def _derivative(activation: Activation, z: Floats) -> Floats:
    """Return f'(z), accurate in the tails: sigmoid'(z) = q / (1 + q)² with q = exp(-|z|), tanh'(z) = 4 sigmoid'(2z)."""
    tanh = activation.name == "tanh"
    q = np.exp(-np.abs(2 * z if tanh else z))
    slope: Floats = q / ((1 + q) * (1 + q))
    return 4 * slope if tanh else slope


def _where_slope_is(activation: Activation, slope: Floats) -> Floats:
    """Return an approximation of the z >= 0 with f'(z) = slope: infinite for slopes <= 0, 0 for slopes too large."""
    tanh = activation.name == "tanh"
    s = np.clip(slope / 4 if tanh else slope, 0.0, 0.25)
    z: Floats = -np.log(2 * s / (1 - 2 * s + np.sqrt(1 - 4 * s)))
    return z / 2 if tanh else z
