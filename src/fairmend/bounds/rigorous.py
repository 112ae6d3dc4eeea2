"""Rigorous bounds of a network over boxes: they hold in real arithmetic, for the weights as stored.

The same backward substitution as in `linear`, in NumPy float64 (`substitution`). The slopes of the relaxations are
free: any numbers give a sound bound, and good ones a tight bound. Intercepts are computed here. `enclosure` states the
assumptions about rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.bounds.enclosure import (
    TINY,
    Interval,
    enclose_image,
    enclose_operation,
    enclose_value,
    gamma,
    largest,
    lower_line,
    upper_line,
)
from fairmend.bounds.pieces import MAX_ENTRIES, batch_size, batches, exact_boxes, exact_rows, run_batches, widest_layer
from fairmend.bounds.substitution import (
    Known,
    Layer,
    Lines,
    Rows,
    both_signs,
    lower_bounds,
    over_box,
)
from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of the lower and upper lines of one elementwise function, each ``(pieces, units)``."""

    lower: Floats
    upper: Floats


Choice = Callable[[int, Floats, Floats], Slopes]
"""Returns the slopes of a function, by its number among the functions, on an interval of its inputs."""


def rigorous_bounds(
    network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike, slopes: Sequence[Slopes] | None = None
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of each logit over the boxes ``(pieces, inputs)``: each ``(pieces, outputs)``.

    Without ``slopes``, `choose_slopes` chooses them. If numbers overflow, a bound is infinite, and never NaN.
    """
    return bounds_and_layers(network, lower, upper, slopes)[:2]


@np.errstate(all="ignore")
def bounds_and_layers(
    network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike, slopes: Sequence[Slopes] | None = None
) -> tuple[Floats, Floats, list[tuple[Floats, Floats]]]:
    """Return `rigorous_bounds`, and lower and upper bounds of the inputs of each function."""
    low, high = exact_boxes(network, lower, upper)
    given = _slopes(network, low, high, slopes)
    bounds = np.empty((len(low), 2 * network.outputs))
    layers = _empty_layers(network, len(low))
    rows = both_signs(network.head.weight, network.head.bias)

    @np.errstate(all="ignore")
    def bound(part: slice) -> None:
        known = analyse(network, low[part], high[part], _chosen(given, part))
        bounds[part] = lower_bounds(rows, network.nodes[-1].sources[0], known)
        _store(layers, part, known)

    run_batches(bound, len(low), batch_size(network))
    return bounds[:, : network.outputs], -bounds[:, network.outputs :], layers


def rigorous_differences(
    network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike, slopes: Sequence[Slopes] | None = None
) -> Floats:
    """Return lower bounds of logit k minus logit j over the boxes, at [piece, k, j]: ``(pieces, outputs, outputs)``.

    The differences themselves are propagated, which is tighter than a difference of bounds. They are 0 if k = j.
    """
    return differences_and_layers(network, lower, upper, slopes)[0]


@np.errstate(all="ignore")
def differences_and_layers(
    network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike, slopes: Sequence[Slopes] | None = None
) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Return `rigorous_differences`, and lower and upper bounds of the inputs of each function."""
    low, high = exact_boxes(network, lower, upper)
    given = _slopes(network, low, high, slopes)
    bounds = np.zeros((len(low), network.outputs, network.outputs))
    k, j = np.nonzero(~np.eye(network.outputs, dtype=bool))
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    A, c = weight[k] - weight[j], bias[k] - bias[j]
    features = network.nodes[-1].sources[0]
    layers = _empty_layers(network, len(low))

    @np.errstate(all="ignore")
    def bound(part: slice) -> None:
        known = analyse(network, low[part], high[part], _chosen(given, part))
        # The differences of weights are rounded; the slack accounts for that.
        slack = gamma(2) * (largest(*known.intervals[features]) @ np.abs(A).T + np.abs(c)) + TINY
        bounds[part, k, j] = lower_bounds(Rows(A[None], c[None], slack), features, known)
        _store(layers, part, known)

    run_batches(bound, len(low), batch_size(network))
    return bounds, layers


@np.errstate(all="ignore")
def rigorous_point_logits(network: Network, points: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the logits at points ``(n, inputs)``: each ``(n, outputs)``."""
    x = exact_rows(network, points, "points")
    lower, upper = np.empty((2, len(x), network.outputs))
    step = max(1, MAX_ENTRIES // widest_layer(network))
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        found = [(x[part], np.zeros_like(x[part]))]
        for node in network.nodes[1:]:
            found.append(_value_and_error(node.operation, [found[source] for source in node.sources]))
        h, error = found[-1]
        lower[part], upper[part] = np.nextafter(h - error, -np.inf), np.nextafter(h + error, np.inf)
    return lower, upper


def _value_and_error(operation: Operation, sources: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return an operation as computed, and how far the real value can be: the error before it, and its rounding."""
    if isinstance(operation, Activation):
        return _function_and_error(operation, *sources[0])
    if isinstance(operation, Concatenate):
        return np.hstack([value for value, _ in sources]), np.hstack([error for _, error in sources])
    h, error = sources[0]
    if isinstance(operation, Columns):
        return h[:, list(operation.indices)], error[:, list(operation.indices)]
    if isinstance(operation, Lookup):
        row = operation.table[operation.indices(h)].astype(np.float64)
        return row, np.where(error > 0, np.inf, np.zeros_like(row))
    h, error = _sum_and_error(operation, sources)
    lost = ~(np.isfinite(h) & np.isfinite(error))
    return np.where(lost, 0.0, h), np.where(lost, np.inf, error)


def _sum_and_error(operation: Operation, sources: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return an operation that adds and multiplies, and its error; either may not be finite if numbers overflow."""
    h, error = sources[0]
    if isinstance(operation, Affine):
        weight, bias = operation.weight.astype(np.float64), operation.bias.astype(np.float64)
        g = gamma(weight.shape[1] + 4)
        error = 1.01 * ((error + g * (np.abs(h) + TINY)) @ np.abs(weight).T + g * np.abs(bias)) + TINY
        return h @ weight.T + bias, error
    if isinstance(operation, Scale):
        factor, shift = operation.factor.astype(np.float64), operation.shift.astype(np.float64)
        product = h * factor
        error = 1.01 * (error * np.abs(factor) + gamma(4) * (np.abs(product) + np.abs(shift))) + TINY
        return product + shift, error
    if isinstance(operation, Sum):
        values, errors = np.stack([value for value, _ in sources]), np.stack([error for _, error in sources])
        return values.sum(axis=0), 1.01 * (errors.sum(axis=0) + gamma(len(sources)) * np.abs(values).sum(axis=0))
    raise NotImplementedError(f"the rounding error of {operation.kind}")


def _function_and_error(activation: Activation, h: Floats, error: Floats) -> tuple[Floats, Floats]:
    value, new = enclose_value(activation, h)
    error = 1.01 * (activation.function.lipschitz * error + new)
    span = activation.function.span
    return value, error if span == np.inf else np.minimum(error, 1.01 * (span + new))


@np.errstate(all="ignore")
def function_intervals(
    network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike, choose: Choice
) -> list[tuple[Floats, Floats]]:
    """Return lower and upper bounds of the inputs of each function, each ``(pieces, units)``.

    ``choose`` gives the slopes of each function once the interval of its inputs is known.
    """
    low, high = exact_boxes(network, lower, upper)
    layers = _empty_layers(network, len(low))
    for part in batches(network, len(low)):
        _store(layers, part, analyse(network, low[part], high[part], choose))
    return layers


def analyse(network: Network, lower: Floats, upper: Floats, choose: Choice) -> Known:
    """Enclose each node before the head, with the help of the nodes before it."""
    known = Known(network, (lower, upper))
    relaxed = {network.nodes[i].sources[0] for i in network.functions}
    for i, node in enumerate(network.nodes[:-1]):
        operation, sources = node.operation, node.sources
        if isinstance(operation, Input):
            known.intervals.append((lower, upper))
        elif isinstance(operation, Affine):
            known.intervals.append(_enclose_affine(known, i, operation, sources[0], i in relaxed))
        elif isinstance(operation, Activation):
            low, high = known.intervals[sources[0]]
            chosen = choose(len(known.lines), low, high)
            least, most = enclose_image(operation, low, high)
            known.lines[i] = Lines(
                *lower_line(operation, chosen.lower, low, high, least),
                *upper_line(operation, chosen.upper, low, high, most),
            )
            known.intervals.append((least, most))
        else:
            known.intervals.append(enclose_operation(operation, [known.intervals[source] for source in sources]))
            if i in relaxed:
                known.intervals[i] = _tighten(known, i)
    return known


def _enclose_affine(known: Known, i: int, operation: Affine, source: int, relaxed: bool) -> Interval:
    """Return the interval of an affine layer, by backward substitution if a function reads it."""
    rows, width = both_signs(operation.weight, operation.bias), len(operation.bias)
    weight, bias = rows.A[0, :width], rows.c[0, :width]
    bounds = lower_bounds(rows, source, known) if relaxed else over_box(rows, *known.intervals[source])
    inputs = largest(*known.intervals[source])
    magnitude = inputs @ np.abs(weight).T + np.abs(bias) + TINY
    floor = TINY * (1 + inputs.sum(1, keepdims=True) + magnitude.sum(1, keepdims=True))
    known.layers[i] = Layer(weight, bias, magnitude, floor)
    return bounds[:, :width], -bounds[:, width:]


def _tighten(known: Known, i: int) -> Interval:
    """Return the interval of a node that a function reads: the better one of its own and backward substitution's."""
    if isinstance(known.network.nodes[i].operation, Lookup):
        return known.intervals[i]
    width = known.network.widths[i]
    bounds = lower_bounds(both_signs(np.eye(width), np.zeros(width)), i, known)
    low, high = known.intervals[i]
    return np.maximum(low, bounds[:, :width]), np.minimum(high, -bounds[:, width:])


def _empty_layers(network: Network, pieces: int) -> list[tuple[Floats, Floats]]:
    """Return room for the intervals of the inputs of each function, without bounds so far."""
    shapes = [(pieces, network.widths[i]) for i in network.functions]
    return [(np.full(shape, -np.inf), np.full(shape, np.inf)) for shape in shapes]


def _store(layers: list[tuple[Floats, Floats]], part: slice, known: Known) -> None:
    for (low, high), i in zip(layers, known.network.functions, strict=True):
        low[part], high[part] = known.intervals[known.network.nodes[i].sources[0]]


def _chosen(slopes: Sequence[Slopes], part: slice) -> Choice:
    return lambda number, low, high: Slopes(slopes[number].lower[part], slopes[number].upper[part])


def _slopes(network: Network, lower: Floats, upper: Floats, slopes: Sequence[Slopes] | None) -> Sequence[Slopes]:
    if slopes is None:
        from fairmend.bounds.slopes import choose_slopes  # PyTorch comes with it

        return choose_slopes(network, lower, upper)
    expected = [(len(lower), network.widths[i]) for i in network.functions]
    shapes = [(layer.lower.shape, layer.upper.shape) for layer in slopes]
    if shapes != [(shape, shape) for shape in expected]:
        raise FairmendError(f"the slopes have shapes {shapes}; these boxes need {expected}, lower and upper")
    return slopes
