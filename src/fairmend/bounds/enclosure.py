"""Enclose activations and other operations on intervals in float64, with every rounding error accounted for.

The mathematics of each function is in its own file, in `fairmend.network.functions`, and so are the assumptions about
rounding. An error bound is itself a sum of non-negative products, so computing it loses no more than the factor
1 - n·UNIT for n operations. Every bound here has at least 1 % of headroom, which covers that loss for any n that fits
in memory. An overflow ends in a number that is not finite, which becomes "no bound".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.network import Activation
from fairmend.network.functions.base import TINY, UNIT
from fairmend.network.operations import Columns, Concatenate, Lookup, Operation, Scale, Sum

__all__ = [
    "TINY",
    "UNIT",
    "Interval",
    "enclose_image",
    "enclose_operation",
    "enclose_value",
    "gamma",
    "largest",
    "lower_line",
    "upper_line",
]

Interval = tuple[Floats, Floats]
"""Lower and upper ends, each ``(pieces, units)``."""


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


def largest(lower: Floats, upper: Floats) -> Floats:
    """Return the largest absolute value in an interval; never 0, because infinity times 0 would be NaN."""
    return np.maximum(np.abs(lower), np.abs(upper)) + TINY


def enclose_operation(operation: Operation, sources: Sequence[Interval]) -> Interval:
    """Return the interval of an operation that adds, scales or copies, rounded outwards; infinite on overflow."""
    lower, upper = sources[0]
    if isinstance(operation, Concatenate):
        return np.hstack([low for low, _ in sources]), np.hstack([high for _, high in sources])
    if isinstance(operation, Columns):
        return lower[:, list(operation.indices)], upper[:, list(operation.indices)]
    if isinstance(operation, Lookup):
        low, high = operation.hull(lower[:, 0], upper[:, 0])
        return low.astype(np.float64), high.astype(np.float64)
    if isinstance(operation, Scale):
        factor, shift = operation.factor.astype(np.float64), operation.shift.astype(np.float64)
        ends = lower * factor + shift, upper * factor + shift
        slack = gamma(4) * (largest(lower, upper) * np.abs(factor) + np.abs(shift)) + TINY
        return _outwards(np.minimum(*ends) - slack, np.maximum(*ends) + slack)
    if isinstance(operation, Sum):
        sizes = np.sum([largest(low, high) for low, high in sources], axis=0)
        slack = gamma(len(sources) + 2) * sizes
        low, high = (np.sum([source[side] for source in sources], axis=0) for side in (0, 1))
        return _outwards(low - slack, high + slack)
    raise NotImplementedError(f"the interval of {operation.kind}")


def _outwards(low: Floats, high: Floats) -> Interval:
    low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
