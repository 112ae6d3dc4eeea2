"""The class of a point in exact arithmetic, for networks with piecewise linear activations.

Used for the few points that are too close to a tie for rigorous float64 bounds. Every float is a whole number times a
power of two, and so are sums and products of floats, so nothing is rounded.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network import DEFAULT_THRESHOLD, Activation, Lookup, Network, Operation, predicted_classes
from fairmend.network.decision import reaches

_Exact = tuple[npt.NDArray[np.object_], int]
"""Python integers of any size, and the exponent of the power of two that multiplies them."""


def is_piecewise_linear(net: Network) -> bool:
    """Return whether every operation is made of lines, as far as exact arithmetic knows them."""
    return all(has_lines(node.operation) for node in net.nodes)


def has_lines(operation: Operation) -> bool:
    """Return whether an operation is linear, a look-up, or a function of lines: ReLU, leaky ReLU, a clip, …"""
    if isinstance(operation, Activation):
        return operation.piecewise_linear
    return operation.linear or isinstance(operation, Lookup)


def exact_classes(net: Network, points: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int64]:
    """Return the class (n,) of each point (n, inputs) in real arithmetic; the network must be piecewise linear."""
    found = [_exact(points)]
    for node in net.nodes[1:]:
        found.append(_compute(node.operation, [found[source] for source in node.sources]))
    h = found[-1]
    if net.threshold == DEFAULT_THRESHOLD:
        return predicted_classes(h[0])
    leads, scale = h[0][:, -1] - (h[0][:, 0] if net.outputs == 2 else 0), Fraction(2) ** h[1]
    return np.array([reaches(int(lead) * scale, net.threshold) for lead in leads], dtype=np.int64)


def _compute(operation: Operation, sources: list[_Exact]) -> _Exact:
    """Return an operation on exact numbers ``(points, units)``."""
    h = sources[0]
    if isinstance(operation, Activation):
        return _activate(operation, h)
    if isinstance(operation, Lookup):
        indices = np.array([[float(Fraction(int(whole)) * Fraction(2) ** h[1])] for whole in h[0][:, 0]])
        return _exact(operation.table[operation.indices(indices)])
    least = min(exponent for _, exponent in sources)
    wholes = [whole * (1 << (exponent - least)) for whole, exponent in sources]
    numbers = operation.numbers(np.empty(0))
    if numbers is None:
        return operation.combine(wholes), least
    (factor, exponent), shift = (_exact(part) for part in numbers)
    return _add((operation.combine(wholes, (factor, shift[0])), least + exponent), shift)


def _exact(values: npt.NDArray[np.floating[Any]]) -> _Exact:
    mantissa, exponent = np.frexp(values.astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    exponent = np.where(whole == 0, 0, exponent.astype(np.int64) - 53)
    least = int(exponent[whole != 0].min(initial=0)) if (whole != 0).any() else 0
    shift = np.where(whole == 0, 0, exponent - least)
    return whole.astype(object) * np.left_shift(np.ones(whole.shape, dtype=object), shift.astype(object)), least


def _add(first: _Exact, second: _Exact) -> _Exact:
    (one, other), least = _aligned(first, second)
    return one + other, least


def _aligned(first: _Exact, second: _Exact) -> tuple[tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]], int]:
    """Return the whole numbers of both, times the same power of two."""
    least = min(first[1], second[1])
    return (first[0] * (1 << (first[1] - least)), second[0] * (1 << (second[1] - least))), least


def _activate(activation: Activation, z: _Exact) -> _Exact:
    """Return the function of z: the lines of its pieces one after the other, each the maximum or minimum of two."""
    first, *others = activation.function.lines
    slope, value = np.asarray(first[0]), _line(*first, z)
    for line in others:
        (now, then), least = _aligned(value, _line(*line, z))
        value = np.where(np.asarray(line[0]) >= slope, np.maximum(now, then), np.minimum(now, then)), least
        slope = np.asarray(line[0])
    return value


def _line(slope: npt.ArrayLike, intercept: float, z: _Exact) -> _Exact:
    factor, exponent = _exact(np.atleast_1d(np.asarray(slope, np.float64)))
    product = z[0] * factor, z[1] + exponent
    return product if intercept == 0 else _add(product, _exact(np.array([intercept])))
