"""How far an error at one node of a network can move another: sensitivities, traced backward, for `inference`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats
from fairmend.base.device import current_device
from fairmend.bounds.either import as_array, larger, on_device, smaller, split_columns, zeros
from fairmend.bounds.pieces import used_columns
from fairmend.network import Activation, Affine, Network
from fairmend.network.functions.base import NARROW, SLACK
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum

Intervals = tuple[Floats, Floats]
"""Lower and upper ends, each ``(pieces, units)`` or, of sensitivities, ``(pieces, rows, units)``."""


_STOPS = (Activation, Input)
_STARTS = (Input, Lookup)


class NodeError(NamedTuple):
    """A node in inference: exact values lie in ``exact``, computed ones in ``computed``, and ``error`` apart.

    ``local`` bounds what the operation itself is off by, given its inputs as computed. ``slopes`` encloses the
    difference quotients of a function between exact and computed inputs. ``overflow (pieces,)`` says where a number may
    become infinite.
    """

    exact: Intervals
    computed: Intervals
    error: Floats
    local: Floats
    overflow: Bools
    slopes: Intervals | None = None


def traced_error(network: Network, found: Sequence[NodeError], node: int, rows: Floats) -> Floats:
    """Return bounds ``(pieces, rows)`` of the error of rows ``(pieces, rows, units)`` times a node.

    ``carried`` are intervals of the sensitivities of the rows to the errors of the nodes reached so far. Going back to
    some nodes, the error consists of what was lost on the way and of the errors of these nodes. The result is the
    better of stopping at any function, and of going on. Every sum here may be computed in any order, so on a GPU the
    same bounds hold.

    What reaches a node by several paths may cancel. But a program may compute the node once for each path, and round
    differently (ONNX Runtime makes a scaling part of one of its readers). So errors are multiplied by ``sizes``, which
    add up over all paths, each traced back from the next affine layer.
    """
    device = current_device()
    if device is not None:
        rows, found = on_device(rows, device), [_on(device, each) for each in found[: node + 1]]
    carried: dict[int, Intervals] = {node: (rows, rows)}
    sizes = {node: abs(rows)}
    lost = zeros(rows.shape[:2], rows)
    best = lost + np.inf
    for i in range(node, -1, -1):
        if i not in carried:
            continue
        operation, sources = network.nodes[i].operation, network.nodes[i].sources
        (low, high), size = carried.pop(i), sizes.pop(i)
        if isinstance(operation, _STOPS):
            stopped = lost + _times(size, found[i].error)
            for j in sorted(carried, reverse=True):
                stopped = stopped + _times(sizes[j], found[j].error)
            best = smaller(best, stopped)
        lost = lost + _times(size, found[i].local)
        for source, part, passed in _inputs(network, operation, sources, found[i].slopes, low, high, size):
            carried[source] = _merged(carried[source], part) if source in carried else part
            sizes[source] = sizes[source] + passed if source in sizes else passed
    return as_array(smaller(best, lost) * (1 + SLACK))


def _on(device: Any, node: NodeError) -> NodeError:
    """Return a node with what is traced on a device."""
    slopes = None if node.slopes is None else (on_device(node.slopes[0], device), on_device(node.slopes[1], device))
    return node._replace(error=on_device(node.error, device), local=on_device(node.local, device), slopes=slopes)


def _like(low: Floats, array: FloatArray) -> Floats:
    exact = array.astype(np.float64)
    return exact if isinstance(low, np.ndarray) else on_device(exact, low.device)


def _size_of(low: Floats, high: Floats) -> Floats:
    return larger(abs(low), abs(high))


def _inputs(
    network: Network,
    operation: Operation,
    sources: Sequence[int],
    slopes: Intervals | None,
    low: Floats,
    high: Floats,
    size: Floats,
) -> list[tuple[int, Intervals, Floats]]:
    """Return the sensitivities to the inputs of an operation, and their sizes, from those to its outputs."""
    if isinstance(operation, _STARTS):
        return []
    if isinstance(operation, Affine):
        part = _through_affine(_like(low, operation.weight), low, high)
        return [(sources[0], part, _size_of(*part))]
    if isinstance(operation, Activation):
        assert slopes is not None
        part = _through_function(slopes, operation.increasing, low, high)
        return [(sources[0], part, size * _size_of(*slopes)[:, None, :])]
    if isinstance(operation, Scale):
        factor = _like(low, operation.factor)
        ends = low * factor, high * factor
        return [(sources[0], _widened(smaller(*ends), larger(*ends), _size_of(*ends)), size * abs(factor))]
    if isinstance(operation, Sum):
        return [(source, (low, high), size) for source in sources]
    if isinstance(operation, Concatenate):
        starts = np.cumsum([network.widths[source] for source in sources])[:-1].tolist()
        lows, highs, parts = (split_columns(each, starts) for each in (low, high, size))
        return list(zip(sources, zip(lows, highs, strict=True), parts, strict=True))
    if isinstance(operation, Columns):
        shape = (*low.shape[:2], network.widths[sources[0]])
        whole_low, whole_high, whole_size = zeros(shape, low), zeros(shape, low), zeros(shape, low)
        for position, index in enumerate(operation.indices):
            whole_low[:, :, index] += low[:, :, position]
            whole_high[:, :, index] += high[:, :, position]
            whole_size[:, :, index] += size[:, :, position]
        return [(sources[0], _widened(whole_low, whole_high, whole_size), whole_size)]
    raise NotImplementedError(f"the sensitivities of {operation.kind}")


def _through_affine(weight: Floats, low: Floats, high: Floats) -> Intervals:
    used, size = used_columns(low, high), _size_of(low, high)
    if used is not None:
        weight, low, high, size = weight[used], low[:, :, used], high[:, :, used], size[:, :, used]
    magnitude = abs(weight)
    middle, spread = (low + high) / 2 @ weight, (high - low) / 2 @ magnitude
    spread += (NARROW + 16 * len(weight) * 2.0**-53) * (size @ magnitude)
    return middle - spread, middle + spread


def _through_function(slopes: Intervals, increasing: bool, low: Floats, high: Floats) -> Intervals:
    flat, steep = (slope[:, None, :] for slope in slopes)
    if increasing:
        return smaller(low * flat, low * steep), larger(high * flat, high * steep)
    products = (low * flat, low * steep, high * flat, high * steep)
    return reduce(smaller, products), reduce(larger, products)


def _merged(first: Intervals, second: Intervals) -> Intervals:
    """Return the sum of the sensitivities by two paths."""
    return _widened(first[0] + second[0], first[1] + second[1], _size_of(*first) + _size_of(*second))


def _widened(low: Floats, high: Floats, sizes: Floats) -> Intervals:
    """Return intervals wider by what computing them may have lost; ``sizes`` are those of the terms."""
    slack = NARROW * sizes
    return low - slack, high + slack


def _times(size: Floats, errors: Floats) -> Floats:
    """Return what errors ``(pieces, units)`` can change at sensitivities of a size ``(pieces, rows, units)``."""
    return (size @ errors[:, :, None])[:, :, 0] * (1 + SLACK)
