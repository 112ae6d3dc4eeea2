"""How far floating-point inference can be from the network in real arithmetic: a rigorous running error analysis.

A proof in real arithmetic says nothing about a deployed float32 network that rounds across the decision threshold. It
covers inference if the proven margin exceeds this bound. The bound holds for any order of summation, with or without
fused multiply-add, with subnormal numbers kept or taken as 0 (inputs, weights, biases and every result), in the
network's own precision, and therefore not for bfloat16 or TF32 kernels.

What inference computes is the exact network in which every layer and every activation is off by a little. Forward go
the intervals that the computed values lie in, and from these how much each operation is off. Backward go intervals of
the sensitivities: by how much an output changes with each of these errors. Rule 3 of docs/certificate.md has the
argument; the checker computes the bound independently. Each interval here is wider than the checker's and each factor
larger, so that a margin above this bound is above the checker's as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.bounds.pieces import max_entries, run_batches, widest_layer
from fairmend.bounds.running_error import RunningError, affine_image
from fairmend.bounds.sensitivity import Intervals, traced_error
from fairmend.network import Activation, Affine, Network
from fairmend.network.decision import closing_gaps
from fairmend.network.functions.base import SLACK, Precision, size_of
from fairmend.network.operations import Columns, Concatenate, Lookup, Operation, Scale, Sum

_ARRAYS = 16  # of one layer's size at a time


def inference_error(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    layers: Sequence[Intervals] | None = None,
    *,
    thorough: bool = False,
    roundings: int | Ints = 1,
) -> Floats:
    """Return the largest |computed - real| of each logit over the boxes ``lower <= x <= upper``: ``(pieces, outputs)``.

    ``layers`` are rigorous intervals of the inputs of each function over the boxes, if the caller has better ones than
    interval arithmetic. With ``thorough`` the errors of these inputs are traced back as well, which takes about as long
    as linear bounds and is much tighter for deep networks. ``roundings`` is for a program that rounds so many times as
    much in every step, over all boxes or over each ``(pieces,)``. Its error can be more than so many times as large: a
    unit that is surely off in inference may be on there.
    """
    rows = np.broadcast_to(np.eye(network.outputs), (len(lower), network.outputs, network.outputs))
    return _error_of_rows(network, rows, lower, upper, layers, thorough, roundings)


def lead_error(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    classes: Ints,
    layers: Sequence[Intervals] | None = None,
    *,
    thorough: bool = False,
) -> Floats:
    """Return the largest error of the margin of classes ``(pieces,)``, their lead over another logit: ``(pieces,)``.

    With a single logit, the margin is this logit or its negative, and the error is that of the logit. See
    `inference_error` for the other arguments.
    """
    if network.outputs == 1:
        return inference_error(network, lower, upper, layers, thorough=thorough)[:, 0]
    own = np.eye(network.outputs)[classes]
    others = np.array([[j for j in range(network.outputs) if j != k] for k in range(network.outputs)])[classes]
    rows = own[:, None, :] - np.eye(network.outputs)[others]
    return np.asarray(_error_of_rows(network, rows, lower, upper, layers, thorough).max(axis=1))


def summation_error(network: Network, lower: FloatArray, upper: FloatArray) -> Floats:
    """Return what any evaluation in float64 may lose over the boxes, whatever cancels: ``(pieces,)``.

    Bounds of the network in float64 lose about as much, where inference in float64 may lose far less: they add up the
    sizes of all terms, those of units that are surely off among them.
    """
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    found = [(low, high, np.full(low.shape, Precision.of(np.float64).tiny))]
    with np.errstate(all="ignore"):
        for node in network.nodes[1:]:
            found.append(_summed(node.operation, [found[source] for source in node.sources]))
    error = found[-1][2]
    return np.asarray(np.where(np.isfinite(error), error, np.inf).max(axis=1, initial=0.0))


def _summed(operation: Operation, sources: Sequence[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Return the interval of an operation, and what was lost so far."""
    kind = Precision.of(np.float64)
    low, high, error = sources[0]
    if isinstance(operation, Affine):
        weight, bias = operation.weight.astype(np.float64), operation.bias.astype(np.float64)
        sums = (size_of(low, high) + error) @ np.abs(weight).T + np.abs(bias)
        error = error @ np.abs(weight).T + (weight.shape[1] + 1) * kind.unit * sums * (1 + SLACK) + kind.tiny
        return *affine_image(weight, bias, low, high), error
    if isinstance(operation, Activation):
        low, high = operation.function.wide_image(low, high)
        return low, high, operation.function.lipschitz * error + 16 * kind.unit * size_of(low, high)
    if isinstance(operation, Lookup):
        low, high = (end.astype(np.float64) for end in operation.hull(low[:, 0], high[:, 0]))
        return low, high, np.full(low.shape, kind.tiny)
    if isinstance(operation, Columns):
        chosen = list(operation.indices)
        return low[:, chosen], high[:, chosen], error[:, chosen]
    lows, highs, errors = zip(*sources, strict=True)
    if isinstance(operation, Concatenate):
        return np.hstack(lows), np.hstack(highs), np.hstack(errors)
    if isinstance(operation, Scale):
        factor, shift = operation.factor.astype(np.float64), operation.shift.astype(np.float64)
        ends = low * factor + shift, high * factor + shift
        sizes = size_of(low, high) * np.abs(factor) + np.abs(shift)
        return np.minimum(*ends), np.maximum(*ends), error * np.abs(factor) + 4 * kind.unit * sizes + kind.tiny
    if isinstance(operation, Sum):
        low, high = np.sum(lows, axis=0), np.sum(highs, axis=0)
        sizes = np.sum([size_of(*ends) for ends in zip(lows, highs, strict=True)], axis=0)
        return low, high, np.sum(errors, axis=0) + len(sources) * kind.unit * sizes + kind.tiny
    raise NotImplementedError(f"the rounding error of {operation.kind}")


def closing_error(network: Network, classes: Ints) -> Floats:
    """Return which margin of classes ``(pieces,)`` a closing sigmoid or softmax may lose: ``(pieces,)``."""
    below, above = closing_gaps(network.threshold, network.dtype)
    return np.where(classes == 1, above, below)


def _error_of_rows(
    network: Network,
    rows: Floats,
    lower: FloatArray,
    upper: FloatArray,
    layers: Sequence[Intervals] | None,
    thorough: bool,
    roundings: int | Ints = 1,
) -> Floats:
    """Return the largest error of rows ``(pieces, rows, outputs)`` times the logits: ``(pieces, rows)``."""
    kind = Precision.of(network.dtype)
    error = np.full(rows.shape[:2], np.inf)
    widest = widest_layer(network)
    if (widest + 1) * kind.unit >= 0.1:
        return error
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    step = max(1, max_entries() // (_ARRAYS * widest) // max(1, rows.shape[1], widest if thorough else 1))
    times = np.broadcast_to(np.asarray(roundings, dtype=np.float64), len(low))[:, None]

    @np.errstate(all="ignore")
    def bound_error(part: slice) -> None:
        given = None if layers is None else [(below[part], above[part]) for below, above in layers]
        box = low[part], high[part]
        found = RunningError(network, box, kind, given, thorough, times[part]).run()
        overflow = np.any([node.overflow for node in found], axis=0)
        bound = traced_error(network, found, len(found) - 1, rows[part])
        # What overflows stays infinite, whatever is added to it, and infinity times 0 is not a number.
        error[part] = np.where(overflow[:, None] | np.isnan(bound), np.inf, bound)

    run_batches(bound_error, len(low), step)
    return error
