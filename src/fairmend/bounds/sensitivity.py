"""How far an error at one node of a network can move another: sensitivities, traced backward, for `inference`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairmend.arrays import Bools, Floats
from fairmend.bounds.pieces import used_columns
from fairmend.network import Activation, Affine, Network
from fairmend.network.functions.base import NARROW, SLACK, size_of
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum

__all__ = ["Intervals", "NodeError", "traced_error"]

Intervals = tuple[Floats, Floats]
"""Lower and upper ends, each ``(pieces, units)`` or, of sensitivities, ``(pieces, rows, units)``."""


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
    better of stopping at any function, and of going on.
    """
    carried: dict[int, Intervals] = {node: (rows, rows)}
    lost, best = np.zeros(rows.shape[:2]), np.full(rows.shape[:2], np.inf)
    for i in range(node, -1, -1):
        if i not in carried:
            continue
        operation, sources = network.nodes[i].operation, network.nodes[i].sources
        if isinstance(operation, Activation | Input):
            stopped = lost
            for j in sorted(carried, reverse=True):
                stopped = stopped + _times(*carried[j], found[j].error)
            best = np.minimum(best, stopped)
        low, high = carried.pop(i)
        lost = lost + _times(low, high, found[i].local)
        for source, part in _inputs(network, operation, sources, found[i].slopes, low, high):
            carried[source] = _merged(carried[source], part) if source in carried else part
    return np.asarray(np.minimum(best, lost) * (1 + SLACK))


def _inputs(
    network: Network, operation: Operation, sources: Sequence[int], slopes: Intervals | None, low: Floats, high: Floats
) -> list[tuple[int, Intervals]]:
    """Return the sensitivities to the inputs of an operation from those to its outputs."""
    if isinstance(operation, Input | Lookup):
        return []
    if isinstance(operation, Affine):
        return [(sources[0], _through_affine(operation.weight.astype(np.float64), low, high))]
    if isinstance(operation, Activation):
        assert slopes is not None
        return [(sources[0], _through_function(slopes, operation.increasing, low, high))]
    if isinstance(operation, Scale):
        factor = operation.factor.astype(np.float64)
        ends = low * factor, high * factor
        return [(sources[0], _widened(np.minimum(*ends), np.maximum(*ends), size_of(*ends)))]
    if isinstance(operation, Sum):
        return [(source, (low, high)) for source in sources]
    if isinstance(operation, Concatenate):
        starts = np.cumsum([network.widths[source] for source in sources])[:-1]
        parts = zip(np.split(low, starts, axis=2), np.split(high, starts, axis=2), strict=True)
        return list(zip(sources, parts, strict=True))
    if isinstance(operation, Columns):
        shape = (*low.shape[:2], network.widths[sources[0]])
        whole_low, whole_high, sizes = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for position, index in enumerate(operation.indices):
            whole_low[:, :, index] += low[:, :, position]
            whole_high[:, :, index] += high[:, :, position]
            sizes[:, :, index] += size_of(low[:, :, position], high[:, :, position])
        return [(sources[0], _widened(whole_low, whole_high, sizes))]
    raise NotImplementedError(f"the sensitivities of {operation.kind}")


def _through_affine(weight: Floats, low: Floats, high: Floats) -> Intervals:
    used = used_columns(low, high)
    if used is not None:
        weight, low, high = weight[used], low[:, :, used], high[:, :, used]
    magnitude = np.abs(weight)
    middle, spread = (low + high) / 2 @ weight, (high - low) / 2 @ magnitude
    spread += (NARROW + 16 * len(weight) * 2.0**-53) * (size_of(low, high) @ magnitude)
    return middle - spread, middle + spread


def _through_function(slopes: Intervals, increasing: bool, low: Floats, high: Floats) -> Intervals:
    flat, steep = (slope[:, None, :] for slope in slopes)
    if increasing:
        return np.minimum(low * flat, low * steep), np.maximum(high * flat, high * steep)
    products = (low * flat, low * steep, high * flat, high * steep)
    return np.minimum.reduce(products), np.maximum.reduce(products)


def _merged(first: Intervals, second: Intervals) -> Intervals:
    """Return the sum of the sensitivities by two paths."""
    return _widened(first[0] + second[0], first[1] + second[1], size_of(*first) + size_of(*second))


def _widened(low: Floats, high: Floats, sizes: Floats) -> Intervals:
    """Return intervals wider by what computing them may have lost; ``sizes`` are those of the terms."""
    slack = NARROW * sizes
    return low - slack, high + slack


def _times(low: Floats, high: Floats, errors: Floats) -> Floats:
    """Return what errors ``(pieces, units)`` can change at sensitivities ``(pieces, rows, units)``."""
    return np.asarray(np.matmul(size_of(low, high), errors[:, :, None])[:, :, 0] * (1 + SLACK))
