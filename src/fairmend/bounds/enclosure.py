"""Enclose activations on intervals in float64, with every rounding error accounted for.

The mathematics of each function is in its own file, in `fairmend.network.functions`, and so are the assumptions about
rounding. An error bound is itself a sum of non-negative products, so computing it loses no more than the factor
1 - n·UNIT for n operations. Every bound here has at least 1 % of headroom, which covers that loss for any n that fits
in memory. An overflow ends in a number that is not finite, which becomes "no bound".
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Floats
from fairmend.network import Activation
from fairmend.network.functions.base import TINY, UNIT

__all__ = ["TINY", "UNIT", "enclose_image", "enclose_value", "gamma", "lower_line", "upper_line"]


def gamma(terms: int) -> float:
    """Return a bound of n·u / (1 - n·u), the relative error of a sum of n products, in any order, fused or not."""
    return 1.01 * terms * UNIT


def enclose_value(activation: Activation, z: Floats) -> tuple[Floats, Floats]:
    """Return f(z) as computed, and its error: f(z) ± error contains the real value, even after that sum is rounded."""
    return activation.function.value(z)


def enclose_image(activation: Activation, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return an interval that contains f([lower, upper])."""
    return activation.function.image(lower, upper)


def lower_line(
    activation: Activation, slope: Floats, lower: Floats, upper: Floats, least: Floats
) -> tuple[Floats, Floats]:
    """Return a slope and an intercept with ``slope * z + intercept <= f(z)`` for all real z in [lower, upper].

    The slope is the given one, whatever it is, unless a number overflows. Then the line is flat, at ``least``, a lower
    bound of f.
    """
    return _or_flat(slope, activation.function.lowest(slope, lower, upper), least)


def upper_line(
    activation: Activation, slope: Floats, lower: Floats, upper: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Return a slope and an intercept with ``f(z) <= slope * z + intercept``; see `lower_line`."""
    return _or_flat(slope, activation.function.highest(slope, lower, upper), most)


def _or_flat(slope: Floats, intercept: Floats, level: Floats) -> tuple[Floats, Floats]:
    usable = np.isfinite(slope) & np.isfinite(intercept)
    return np.where(usable, slope, 0.0), np.where(usable, intercept, level)
