"""Rigorous bounds of a piecewise linear network from Lagrange multipliers, and intervals of its units.

For any numbers m, one for each input z of a function, adding m·(z as the network computes it - z) = 0 gives

    d·logits  =  constants times multipliers  +  a·x  +  sum over the units of  a f(z) - m z,

where a are the coefficients of a function's outputs: those of d·logits and of the multipliers of later functions, along
all paths through affine layers, sums and the like. A look-up is a constant in an interval. Each summand on the right
depends on one number only, x_k in its box or z in its interval, so the sum of their least values is a lower bound of
d·logits (Lagrangian duality). It holds for *any* multipliers: those of a solver need not be right. With the optimal
ones it equals the bound of the linear relaxation. `enclosure` states the assumptions about rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.bounds.enclosure import TINY, UNIT, enclose_image, enclose_operation, enclose_value, gamma
from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum

Interval = tuple[Floats, Floats]
"""Lowest and highest values, each ``(units,)``."""

Intervals = list[Interval]
"""The interval of the inputs of every function, in the order of the nodes."""

_LARGEST = 1e300  # sums beyond could overflow


class DualBound(NamedTuple):
    """A lower bound of d·logits, and the coefficients a of the inputs ``(inputs,)`` and of each function's outputs."""

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
    walk = _Walk(network, box, units, given)
    walk.carry(len(network.nodes) - 1, d, None)
    for i in range(len(network.nodes) - 1, -1, -1):
        if i in walk.carried:
            walk.substitute(i)
    each = np.concatenate(walk.terms)
    # fsum rounds once. A number that is not finite is no bound.
    usable = float(np.abs(each).sum()) < _LARGEST
    bound = math.nextafter(math.fsum(each), -math.inf) if usable else -math.inf
    return DualBound(bound, walk.inputs, [walk.coefficients[k] for k in range(len(units))])


class _Walk:
    """d·logits on its way back through the network, as coefficients of the nodes reached, and the terms that are done.

    Coefficients are known to ± an error, both ``(units,)``; the error is None where they are exact.
    """

    def __init__(self, network: Network, box: Interval, units: Intervals, given: Sequence[Floats] | None) -> None:
        self.network, self.box, self.units, self.given = network, box, units, given
        self.numbers = {i: k for k, i in enumerate(network.functions)}
        self.carried: dict[int, tuple[Floats, Floats | None]] = {}
        self.terms: list[Floats] = []
        self.coefficients: dict[int, Floats] = {}
        self.inputs = np.zeros(network.inputs)

    def carry(self, node: int, a: Floats, error: Floats | None) -> None:
        """Add coefficients of a node."""
        if node in self.carried:
            other, its_error = self.carried[node]
            a = a + other
            error = 1.01 * (_or_zero(error, a) + _or_zero(its_error, a) + 2 * UNIT * np.abs(a))
        self.carried[node] = (a, error)

    def substitute(self, i: int) -> None:
        """Replace the outputs of a node by its inputs, and add what is constant or least over an interval."""
        a, error = self.carried.pop(i)
        operation, sources = self.network.nodes[i].operation, self.network.nodes[i].sources
        if isinstance(operation, Input):
            self.inputs = a
            self.terms.append(_least_products(a, _or_zero(error, a), self.box))
        elif isinstance(operation, Activation):
            k = self.numbers[i]
            m = _multipliers(operation, a, self.units[k], None if self.given is None else self.given[k])
            self.terms.append(_least_of_units(operation, a, _or_zero(error, a), m, self.units[k]))
            self.coefficients[k] = a
            self.carry(sources[0], m, None)
        elif isinstance(operation, Affine):
            weight = operation.weight.astype(np.float64)
            self._constants(a, error, operation.bias.astype(np.float64))
            lost = gamma(len(a) + 2) * (np.abs(a) @ np.abs(weight)) + len(a) * TINY
            self.carry(sources[0], a @ weight, lost if error is None else lost + 1.01 * (error @ np.abs(weight)))
        elif isinstance(operation, Scale):
            factor = operation.factor.astype(np.float64)
            self._constants(a, error, operation.shift.astype(np.float64))
            product = a * factor
            lost = 2 * UNIT * np.abs(product) + TINY
            self.carry(sources[0], product, lost if error is None else lost + 1.01 * (error * np.abs(factor)))
        elif isinstance(operation, Lookup):
            ends = operation.hull(*_indices_in(self.network, sources[0], self.box))
            low, high = (end[0].astype(np.float64) for end in ends)
            self.terms.append(_least_products(a, _or_zero(error, a), (low, high)))
        else:
            self._copy(operation, sources, a, error)

    def _constants(self, a: Floats, error: Floats | None, bias: Floats) -> None:
        constant = a * bias
        lost = np.where((a == 0) | (bias == 0), 0.0, 4 * UNIT * np.abs(constant) + TINY)
        self.terms.append(constant - (lost if error is None else lost + 1.01 * (error * np.abs(bias) + TINY)))

    def _copy(self, operation: Operation, sources: Sequence[int], a: Floats, error: Floats | None) -> None:
        """Give coefficients to the sources of an operation that only adds or copies."""
        if isinstance(operation, Sum):
            for source in sources:
                self.carry(source, a, error)
        elif isinstance(operation, Concatenate):
            start = 0
            for source in sources:
                part = slice(start, start + self.network.widths[source])
                self.carry(source, a[part], None if error is None else error[part])
                start = part.stop
        elif isinstance(operation, Columns):
            whole, lost, size = np.zeros((3, self.network.widths[sources[0]]))
            np.add.at(whole, list(operation.indices), a)
            np.add.at(lost, list(operation.indices), _or_zero(error, a))
            np.add.at(size, list(operation.indices), np.abs(a))
            self.carry(sources[0], whole, 1.01 * lost + gamma(len(a)) * size)
        else:
            raise NotImplementedError(f"the dual bound of {operation.kind}")


def _or_zero(error: Floats | None, a: Floats) -> Floats:
    return np.zeros_like(a) if error is None else error


def _indices_in(network: Network, node: int, box: Interval) -> Interval:
    """Return which row numbers a look-up reads over the box: a node that copies one column of the input."""
    low, high = box
    path = [network.nodes[node]]
    while path[-1].sources:
        path.append(network.nodes[path[-1].sources[0]])
    for step in reversed(path[:-1]):
        if not isinstance(step.operation, Columns):
            return np.full(1, -np.inf), np.full(1, np.inf)
        low, high = (end[list(step.operation.indices)] for end in (low, high))
    return low, high


@np.errstate(all="ignore")
def tightened(network: Network, box: Interval, units: Intervals) -> Intervals | None:
    """Return the intervals cut by interval arithmetic from the box on; None if one is empty: there is no such point."""
    found: Intervals = []
    known: list[Interval] = []
    for i, node in enumerate(network.nodes[:-1]):
        operation = node.operation
        if isinstance(operation, Activation):
            least, most = units[len(found)]
            low, high = known[node.sources[0]]
            low, high = np.fmax(least, low), np.fmin(most, high)  # a NaN is no bound
            if (low > high).any():
                return None
            found.append((low, high))
            known.append(enclose_image(operation, low, high))
        else:
            known.append(box if i == 0 else _enclose(operation, [known[source] for source in node.sources]))
    return found


def _enclose(operation: Operation, sources: Sequence[Interval]) -> Interval:
    """Return the interval of an operation, rounded outwards; it may be NaN if numbers overflow."""
    low, high = sources[0]
    if isinstance(operation, Affine):
        weight, bias = operation.weight.astype(np.float64), operation.bias.astype(np.float64)
        rising, falling = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        size = np.abs(weight) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(bias)
        slack = gamma(weight.shape[1] + 4) * size + weight.shape[1] * TINY
        below = np.nextafter(rising @ low + falling @ high + bias - slack, -np.inf)
        above = np.nextafter(rising @ high + falling @ low + bias + slack, np.inf)
        return below, above
    lower, upper = enclose_operation(operation, [(low[None], high[None]) for low, high in sources])
    return lower[0], upper[0]


@np.errstate(all="ignore")
def line_slopes(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return slopes of lines below and above a piecewise linear function on intervals of any shape."""
    kink = _slope_below(activation)
    if kink is None:
        return _relaxed_slopes(activation, low, high)
    on_one_side = np.where(low >= 0, 1.0, kink)
    crosses = (low < 0) & (high > 0)
    below = np.where(high > -low, 1.0, kink)
    above = (high - kink * low) / (high - low)
    return np.where(crosses, below, on_one_side), np.where(crosses, np.nan_to_num(above), on_one_side)


def _relaxed_slopes(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the slopes of the relaxation that step 1 trains with; any slopes will do."""
    import torch

    lines = activation.function.relax(torch.tensor(low), torch.tensor(high))
    below, above = (np.nan_to_num(slope.numpy()) for slope in (lines.lower_slope, lines.upper_slope))
    return below, above


def knots_of(activation: Activation, width: int) -> Floats:
    """Return where a piecewise linear function changes its slope, ``(knots, units)``; infinite where it does not.

    A knot that is not a float64 number is rounded.
    """
    lines = activation.function.lines
    slopes = np.array([np.broadcast_to(np.asarray(slope, np.float64), width) for slope, _ in lines])
    change, step = np.diff(slopes, axis=0), np.diff([intercept for _, intercept in lines])[:, None]
    return np.where(change == 0, np.inf, np.divide(0.0 - step, change, out=np.zeros_like(change), where=change != 0))


def _multipliers(activation: Activation, a: Floats, z: Interval, given: Floats | None) -> Floats:
    """Return a times the slope of a line on the side of the activation that matters, or the given multipliers."""
    below, above = line_slopes(activation, *z)
    m = a * np.where(a < 0, above, below)
    m = m if given is None else np.where(np.isfinite(given), given, m)
    return np.where(np.isfinite(m), m, 0.0)


def _least_of_units(activation: Activation, a: Floats, error: Floats, m: Floats, z: Interval) -> Floats:
    """Return lower bounds of a f(z) - m z over the intervals, for coefficients known to a ± error.

    The function is linear between its knots, so it is least at an end or at a knot.
    """
    low, high = z
    kink = _slope_below(activation)
    if kink is None:
        least, largest = _least_with_knots(activation, a, m, z)
    else:
        least = np.minimum(_least_beside_0(kink, a, m, low), _least_beside_0(kink, a, m, high))
        least = np.where((low < 0) & (high > 0), np.minimum(least, 0.0), least)
        largest = np.maximum(np.maximum(high, 0.0), -kink * np.minimum(low, 0.0))
    lost = 1.01 * error * largest
    return least - np.where(lost > 0, lost + 2 * UNIT * np.abs(least) + TINY, lost)


def _least_beside_0(kink: float, a: Floats, m: Floats, end: Floats) -> Floats:
    """Return a lower bound of a f(z) - m z at an end, for f with a kink at 0 only."""
    steep = a * np.where(end >= 0, 1.0, kink)
    value = (steep - m) * end
    lost = 4 * UNIT * (np.abs(value) + np.abs(steep * end)) + TINY * (1 + np.abs(end))
    exact = (end == 0) | ((steep == m) & ((end >= 0) | (kink == 0) | (kink == 1)))
    return np.where(exact, 0.0, value - lost)


def _least_with_knots(activation: Activation, a: Floats, m: Floats, z: Interval) -> tuple[Floats, Floats]:
    """Return a lower bound of a f(z) - m z, and the largest |f|.

    A knot may be rounded: next to it, the difference changes by no more than |a| times the steepest slope plus |m|.
    """
    low, high = z
    steep = np.abs(a) * activation.function.lipschitz + np.abs(m)

    def at(point: Floats, off: Floats) -> Floats:
        value, error = enclose_value(activation, point)
        value, product = a * value, m * point
        lost = 4 * UNIT * (np.abs(value) + np.abs(product)) + np.abs(a) * error + steep * off
        return value - product - 1.01 * lost - TINY * (1 + np.abs(point))

    none = np.zeros_like(low)
    least = np.minimum(at(low, none), at(high, none))
    for knot in knots_of(activation, len(low)):
        off = 8 * UNIT * np.abs(knot) + TINY
        near = np.isfinite(knot) & (low - off <= knot) & (knot <= high + off)
        least = np.minimum(least, at(np.where(near, np.clip(knot, low, high), low), np.where(near, 2 * off, 0.0)))
    below, above = enclose_image(activation, low, high)
    return least, np.maximum(np.abs(below), np.abs(above))


def _least_products(a: Floats, error: Floats, x: Interval) -> Floats:
    """Return lower bounds of a·x over the intervals, for coefficients known to a ± error."""
    least = np.minimum(a * x[0], a * x[1])
    lost = error * np.maximum(np.abs(x[0]), np.abs(x[1])) + 4 * UNIT * np.abs(least) + TINY
    return least - 1.01 * lost


def _slope_below(activation: Activation) -> float | None:
    """Return the slope on negative numbers of a function that is z on positive ones and convex; else None."""
    return {"relu": 0.0, "leaky_relu": activation.slope if activation.slope <= 1 else None, "identity": 1.0}.get(
        activation.name
    )
