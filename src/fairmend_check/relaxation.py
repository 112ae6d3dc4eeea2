"""Activations on an interval: their values, and the lines of given slopes that enclose them.

For a slope s, the highest line below f on [l, u] has the intercept min f(z) - s z, the lowest above it the maximum.
Any slope gives a sound line. The intercepts are computed here and never taken from the certificate, and so are the
slopes that it does not list.
"""

from __future__ import annotations

import numpy as np

from fairmend_check.model import Activation
from fairmend_check.rounding import LIBRARY, TINY, Array, U, down, up


def value_range(activation: Activation, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Enclose the activation over intervals; all activations here are monotone."""
    return _values(activation, lower)[0], _values(activation, upper)[1]


def slope_range(activation: Activation, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Enclose the derivatives of the activation over intervals, and so its difference quotients."""
    if activation.name in ("tanh", "sigmoid"):
        # The derivative is even, and falls on both sides of 0.
        nearest = np.maximum(np.maximum(lower, -upper), 0.0)
        furthest = np.maximum(upper, -lower)
        return np.maximum(_derivative(activation, furthest) - 128 * U, 0.0), _derivative(activation, nearest) + 128 * U
    negative, positive = _pieces(activation)
    left, right = np.where(lower < 0, negative, positive), np.where(upper > 0, positive, negative)
    return np.minimum(left, right), np.maximum(left, right)


def intercepts(activation: Activation, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return intercepts of a line below and of a line above, with these slopes, on lower..upper."""
    below, above = slopes
    if activation.name in ("tanh", "sigmoid"):
        # f(-z) = c - f(z), so the maximum of f(z) - s z is c less the minimum over the mirrored interval.
        turn = 0.0 if activation.name == "tanh" else 1.0
        low = _curved_minimum(activation, below, lower, upper)
        return low, up(turn - _curved_minimum(activation, above, -upper, -lower))
    negative, positive = _pieces(activation)
    least, most = np.full(lower.shape, np.inf), np.full(lower.shape, -np.inf)
    for z in (lower, upper):
        leading = np.where(z < 0, negative, positive)
        least = np.minimum(least, _product(leading - below, z)[0])
        most = np.maximum(most, _product(leading - above, z)[1])
    kink = (lower < 0) & (upper > 0)
    return np.where(kink, np.minimum(least, 0.0), least), np.where(kink, np.maximum(most, 0.0), most)


def choose_slopes(activation: Activation, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return slopes of a line below and of a line above that are tight on lower..upper.

    ReLU has the chord above, and below it the slope on the longer side of 0 (Zhang et al., CROWN, 2018). Tanh and
    sigmoid have chord and tangent if they bend to one side, else the flattest slope (Singh et al., DeepPoly, 2019).
    """
    if activation.name in ("tanh", "sigmoid"):
        ends = _curve(activation, lower), _curve(activation, upper)
        width = upper - lower
        tangent = _derivative(activation, 0.5 * lower + 0.5 * upper)
        chord = np.where(width < 1e-4, tangent, (ends[1] - ends[0]) / np.where(width < 1e-4, 1.0, width))
        flattest = np.minimum(_derivative(activation, lower), _derivative(activation, upper))
        concave, convex = lower >= 0, upper <= 0
        below = np.where(concave, chord, np.where(convex, tangent, flattest))
        above = np.where(convex, chord, np.where(concave, tangent, flattest))
        return _finite(below), _finite(above)
    negative, positive = _pieces(activation)
    left, right = np.maximum(-lower, 0.0), np.maximum(upper, 0.0)
    share = right / np.where(left + right > 0, left + right, 1.0)
    return np.where(right > left, positive, negative), _finite(negative + (positive - negative) * share)


def _finite(slopes: Array) -> Array:
    """Return the slopes, and 0 where intervals without ends have none: any slope is sound, but NaN is no slope."""
    return np.where(np.isfinite(slopes), slopes, 0.0)


def _pieces(activation: Activation) -> tuple[float, float]:
    """Return the slopes left and right of zero."""
    return {"relu": 0.0, "leaky_relu": activation.slope, "identity": 1.0}[activation.name], 1.0


def _values(activation: Activation, z: Array) -> tuple[Array, Array]:
    """Enclose f(z)."""
    if activation.name in ("tanh", "sigmoid"):
        value = _curve(activation, z)
        slip = np.abs(value) * LIBRARY + TINY
        floor = -1.0 if activation.name == "tanh" else 0.0
        return np.maximum(down(value - slip), floor), np.minimum(up(value + slip), 1.0)
    negative, positive = _pieces(activation)
    if negative in (0.0, 1.0):  # exact, and infinity is not multiplied by 0
        exact = np.maximum(z, 0.0) if negative == 0.0 else z
        return exact, exact
    low, high = _product(np.full(z.shape, negative), z)
    return np.where(z < 0, low, z * positive), np.where(z < 0, high, z * positive)


def _product(factor: Array, z: Array) -> tuple[Array, Array]:
    """Enclose the product of z and a factor that is itself one rounding off."""
    value = factor * z
    slip = 4 * U * np.abs(value) + TINY
    return down(value - slip), up(value + slip)


def _curve(activation: Activation, z: Array) -> Array:
    """Tanh or sigmoid within a relative error of LIBRARY."""
    if activation.name == "tanh":
        return np.tanh(z)
    decay = np.exp(-np.abs(z))
    return np.where(z < 0, decay, 1.0) / (1.0 + decay)


def _derivative(activation: Activation, z: Array) -> Array:
    """Return the derivative of tanh or sigmoid within 128 U."""
    value = _curve(activation, z)
    return (1 - value) * (1 + value if activation.name == "tanh" else value)


def _curved_minimum(activation: Activation, slope: Array, lower: Array, upper: Array) -> Array:
    """Return a lower bound of f(z) - slope z on lower..upper, for f convex left of 0 and concave right of it.

    On the convex part the tangent at any point is below; the point nearest to where f' equals the slope makes it
    tight, and an inexact point costs tightness only. On the concave part the ends decide.
    """
    right = np.minimum(upper, 0.0)
    touch = np.clip(-_touching_point(activation, slope), lower, right)
    value = _curve(activation, touch)
    excess = _derivative(activation, touch) - slope
    unsure = 128 * U + 4 * U * np.abs(excess)
    sides = (excess + unsure) * (lower - touch), (excess - unsure) * (right - touch)
    line = slope * touch
    slip = LIBRARY * np.abs(value) + 8 * U * (np.abs(line) + np.abs(sides[0]) + np.abs(sides[1]) + np.abs(value)) + TINY
    convex = down((value - line + np.minimum(*sides)) - slip)
    least = np.where(lower < 0, convex, np.inf)
    for z in (np.maximum(lower, 0.0), upper):
        line = slope * z
        low = _values(activation, z)[0]
        end = down(low - line - (4 * U * (np.abs(line) + np.abs(low)) + TINY))
        least = np.minimum(least, np.where(upper > 0, end, np.inf))
    # Neither part covers the interval that is the single point 0.
    zero = down(_values(activation, np.zeros_like(lower))[0])
    return np.where((lower >= 0) & (upper <= 0), zero, least)


def _touching_point(activation: Activation, slope: Array) -> Array:
    """Return roughly the z >= 0 at which the derivative equals the slope; 0 for slopes above every derivative."""
    share = slope if activation.name == "tanh" else 4 * slope
    z = np.arctanh(np.sqrt(np.clip(1 - share, 0.0, 1.0 - U)))
    return z if activation.name == "tanh" else 2 * z
