"""Rigorous bounds of a piecewise linear network from Lagrange multipliers, and intervals of its units.

For any numbers m, one for each hidden unit, adding m·(weight·h + bias - z) = 0 for every layer gives

    d·logits  =  sum of biases times multipliers  +  a·x  +  sum over the units of  a f(z) - m z,

where a is the row of multipliers of the next layer times its weights (d times the head's weights after the last one).
Each summand on the right depends on one number only, x_k in its box or z in its interval, so the sum of their least
values is a lower bound of d·logits (Lagrangian duality). It holds for *any* multipliers: those of a solver need not be
right. With the optimal ones it equals the bound of the linear relaxation. `enclosure` states the assumptions about
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairmend.arrays import Floats
from fairmend.bounds.enclosure import TINY, UNIT, enclose_image, gamma
from fairmend.network import Activation, Network

__all__ = ["DualBound", "Interval", "Intervals", "dual_bound", "tightened"]

Interval = tuple[Floats, Floats]
"""Lowest and highest values, each ``(units,)``."""

Intervals = list[Interval]
"""The interval of every unit before its activation, layer by layer."""

_LARGEST = 1e300  # sums beyond could overflow


class DualBound(NamedTuple):
    """A lower bound of d·logits, and the coefficients a of the inputs ``(inputs,)`` and of each hidden layer."""

    bound: float
    inputs: Floats
    coefficients: list[Floats]


@np.errstate(all="ignore")
def dual_bound(
    network: Network, d: Floats, box: Interval, units: Intervals, given: Sequence[Floats] | None = None
) -> DualBound:
    """Return a lower bound of d·logits, d ``(outputs,)``, over the points of the box whose units lie in `units`.

    ``given`` holds multipliers, NaN where the line that encloses the activation gives one. The bound is -inf if numbers
    overflow. If d is 0, a positive bound proves that there is no such point.
    """
    terms: list[Floats] = []
    coefficients: list[Floats] = []
    m = d
    for layer in reversed(range(network.depth)):
        weight, bias = (
            part.astype(np.float64) for part in (network.affines[layer].weight, network.affines[layer].bias)
        )
        constant = m * bias
        terms.append(constant - np.where((m == 0) | (bias == 0), 0.0, 4 * UNIT * np.abs(constant) + TINY))
        a = m @ weight
        error = gamma(len(m) + 2) * (np.abs(m) @ np.abs(weight)) + len(m) * TINY
        if not layer:
            terms.append(_least_products(a, error, box))
            break
        activation = network.activations[layer - 1]
        m = _multipliers(activation, a, units[layer - 1], None if given is None else given[layer - 1])
        terms.append(_least_of_units(activation, a, error, m, units[layer - 1]))
        coefficients.append(a)
    each = np.concatenate(terms)
    # fsum rounds once. A number that is not finite is no bound.
    usable = float(np.abs(each).sum()) < _LARGEST
    bound = math.nextafter(math.fsum(each), -math.inf) if usable else -math.inf
    return DualBound(bound, a, coefficients[::-1])


@np.errstate(all="ignore")
def tightened(network: Network, box: Interval, units: Intervals) -> Intervals | None:
    """Return the intervals cut by interval arithmetic from the box on; None if one is empty: there is no such point."""
    found: Intervals = []
    low, high = box
    for affine, activation, (least, most) in zip(network.affines, network.activations, units, strict=False):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        rising, falling = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        size = np.abs(weight) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(bias)
        slack = gamma(weight.shape[1] + 4) * size + weight.shape[1] * TINY
        below = np.nextafter(rising @ low + falling @ high + bias - slack, -np.inf)
        above = np.nextafter(rising @ high + falling @ low + bias + slack, np.inf)
        low, high = np.fmax(least, below), np.fmin(most, above)  # a NaN is no bound
        if (low > high).any():
            return None
        found.append((low, high))
        low, high = enclose_image(activation, low, high)
    return found


def _multipliers(activation: Activation, a: Floats, z: Interval, given: Floats | None) -> Floats:
    """Return a times the slope of a line on the side of the activation that matters, or the given multipliers."""
    low, high = z
    kink = _slope_below(activation)
    above = (high - kink * low) / (high - low)
    across = np.where(a < 0, above, np.where(high > -low, 1.0, kink))
    m = a * np.where(low >= 0, 1.0, np.where(high <= 0, kink, across))
    m = m if given is None else np.where(np.isfinite(given), given, m)
    return np.where(np.isfinite(m), m, 0.0)


def _least_of_units(activation: Activation, a: Floats, error: Floats, m: Floats, z: Interval) -> Floats:
    """Return lower bounds of a f(z) - m z over the intervals, for coefficients known to a ± error.

    The function is linear on either side of 0, so it is least at an end or at 0.
    """
    low, high = z
    kink = _slope_below(activation)

    def at(end: Floats) -> Floats:
        steep = a * np.where(end >= 0, 1.0, kink)
        value = (steep - m) * end
        lost = 4 * UNIT * (np.abs(value) + np.abs(steep * end)) + TINY * (1 + np.abs(end))
        exact = (end == 0) | ((steep == m) & ((end >= 0) | (kink == 0) | (kink == 1)))
        return np.where(exact, 0.0, value - lost)

    least = np.minimum(at(low), at(high))
    least = np.where((low < 0) & (high > 0), np.minimum(least, 0.0), least)
    largest = np.maximum(np.maximum(high, 0.0), -kink * np.minimum(low, 0.0))
    lost = 1.01 * error * largest
    return least - np.where(lost > 0, lost + 2 * UNIT * np.abs(least) + TINY, lost)


def _least_products(a: Floats, error: Floats, x: Interval) -> Floats:
    """Return lower bounds of a·x over the intervals, for coefficients known to a ± error."""
    least = np.minimum(a * x[0], a * x[1])
    lost = error * np.maximum(np.abs(x[0]), np.abs(x[1])) + 4 * UNIT * np.abs(least) + TINY
    return least - 1.01 * lost


def _slope_below(activation: Activation) -> float:
    """Return the slope on negative numbers; on positive numbers it is 1."""
    return {"relu": 0.0, "leaky_relu": activation.slope, "identity": 1.0}[activation.name]
