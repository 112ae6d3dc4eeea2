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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.bounds.pieces import MAX_ENTRIES, widest_layer
from fairmend.network import Activation, Network
from fairmend.network.decision import closing_gaps
from fairmend.network.folding import Fold

__all__ = ["closing_error", "inference_error", "lead_error", "summation_error"]

Intervals = tuple[Floats, Floats]

# The bound itself is computed in float64, with relative errors far below this.
_SLACK = 1e-8
_NARROW = 2.0**-44  # what intervals and slopes are widened by, relative to the terms that they are made of
_FOLDING = 8  # roundings of a layer beside its products, and of what is folded into it
_ARRAYS = 16  # of one layer's size at a time


@dataclass(frozen=True)
class _Precision:
    unit: float
    tiny: float
    largest: float

    @staticmethod
    def of(dtype: npt.DTypeLike) -> _Precision:
        kind = np.finfo(dtype)
        return _Precision(float(kind.eps) / 2, float(kind.tiny), float(kind.max))


class _Stage(NamedTuple):
    """An affine layer in inference, with the activation before it (none before the first): ``(pieces, units)``.

    ``activated`` bounds what the activation (or reading an input) is off by, ``summed`` what the affine layer is off
    by, ``entering`` the whole error of the layer's inputs. ``slopes`` encloses the difference quotients of the
    activation between exact and computed inputs. ``overflow (pieces,)`` says where a number may become infinite.
    """

    slopes: Intervals | None
    activated: Floats
    entering: Floats
    summed: Floats
    overflow: npt.NDArray[np.bool_]


def inference_error(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    layers: Sequence[Intervals] | None = None,
    *,
    thorough: bool = False,
    roundings: int = 1,
) -> Floats:
    """Return the largest |computed - real| of each logit over the boxes ``lower <= x <= upper``: ``(pieces, outputs)``.

    ``layers`` are rigorous intervals of the outputs of each hidden affine layer over the boxes, if the caller has
    better ones than interval arithmetic. With ``thorough`` the errors of hidden layers are traced back as well, which
    takes about as long as linear bounds and is much tighter for deep networks. ``roundings`` is for a program that
    rounds so many times as much in every step. Its error can be more than so many times as large: a unit that is surely
    off in inference may be on there.
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
    kind = _Precision.of(np.float64)
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    error = np.full(low.shape, kind.tiny)
    with np.errstate(all="ignore"):
        for layer, affine in enumerate(network.affines):
            weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
            sums = (_size(low, high) + error) @ np.abs(weight).T + np.abs(bias)
            error = error @ np.abs(weight).T + (weight.shape[1] + 1) * kind.unit * sums * (1 + _SLACK) + kind.tiny
            low, high = _affine_image(weight, bias, low, high)
            if layer < len(network.activations):
                low, high = _image(network.activations[layer], low, high)
                error = error + 16 * kind.unit * _size(low, high)
    return np.asarray(np.where(np.isfinite(error), error, np.inf).max(axis=1, initial=0.0))


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
    roundings: int = 1,
) -> Floats:
    """Return the largest error of rows ``(pieces, rows, outputs)`` times the logits: ``(pieces, rows)``."""
    kind = _Precision.of(network.dtype)
    error = np.full(rows.shape[:2], np.inf)
    widest = widest_layer(network)
    if (widest + 1) * kind.unit >= 0.1:
        return error
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    step = max(1, MAX_ENTRIES // (_ARRAYS * widest) // max(1, rows.shape[1], widest if thorough else 1))
    with np.errstate(all="ignore"):
        for start in range(0, len(low), step):
            part = slice(start, start + step)
            given = None if layers is None else [(below[part], above[part]) for below, above in layers]
            stages = _forward(network, low[part], high[part], kind, given, thorough, roundings)
            overflow = np.any([stage.overflow for stage in stages], axis=0)
            bound = _backward(network, stages, rows[part])
            # What overflows stays infinite, whatever is added to it, and infinity times 0 is not a number.
            error[part] = np.where(overflow[:, None] | np.isnan(bound), np.inf, bound)
    return error


def _forward(
    network: Network,
    lower: Floats,
    upper: Floats,
    kind: _Precision,
    layers: Sequence[Intervals] | None,
    thorough: bool,
    roundings: int,
) -> list[_Stage]:
    """Return all stages; exact values lie in ``low..high`` and computed ones in ``least..most``."""
    low, high = lower, upper
    activated = roundings * np.minimum(kind.tiny, _size(lower, upper))  # a subnormal input may be taken as 0
    error, least, most = activated, low - activated, high + activated
    slopes: Intervals | None = None
    stages = []
    for layer, affine in enumerate(network.affines):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        if affine.fold is None:
            summed, overflow = _summation(weight, bias, least, most, kind)
        else:
            summed, overflow = _folded_summation(affine.fold, least, most, kind)
        summed = roundings * summed
        stages.append(_Stage(slopes, activated, error, summed, overflow))
        if layer == len(network.activations):
            break
        activation = network.activations[layer]
        error = (error @ np.abs(weight).T + summed) * (1 + _SLACK)
        if thorough and layer > 0:
            units = np.broadcast_to(np.eye(len(weight)), (len(low), len(weight), len(weight)))
            error = np.fmin(error, _backward(network, stages, units))
        by_intervals = _affine_image(weight, bias, low, high)
        low, high = by_intervals if layers is None else _intersection(by_intervals, layers[layer])
        least, most = low - error, high + error
        slopes = _slopes(activation, least, most)
        activated = roundings * _activation_error(activation, least, most, kind)
        low, high = _image(activation, low, high)
        least, most = _image(activation, least, most)
        # Both values lie in the image, so a unit that is surely off, or saturated, carries little.
        error = (np.minimum(error * slopes[1], most - least) + activated) * (1 + _SLACK)
        least, most = least - activated, most + activated
    return stages


def _summation(
    weight: Floats, bias: Floats, least: Floats, most: Floats, kind: _Precision
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return how far a computed affine layer is from the exact one of the same inputs, and where it may overflow.

    With P the sum of all positive and N that of all negative terms in size, every partial sum lies in [-N, P]. Terms
    that are surely 0 are added without an error. With n others (the bias among them) there are n - 1 additions, each
    off by at most half a unit in the last place of max(P, N), and n products, off by u (P + N) together. The factor
    1 + 2 gamma is for the errors in the partial sums (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    """
    size = _size(least, most)
    above, below = np.maximum(most, 0.0), np.maximum(-least, 0.0)
    both = (above + below) @ np.abs(weight).T + np.abs(bias)  # P + N
    apart = np.abs((above - below) @ weight.T + bias)  # |P - N|
    terms = np.count_nonzero(size, axis=1)[:, None] + 1
    gamma = terms * kind.unit / (1 - terms * kind.unit)
    flushed = kind.tiny * (size.sum(axis=1, keepdims=True) + 4 * (weight.shape[1] + 1))
    largest = (both + apart) * (0.5 + gamma) * (1 + _SLACK)  # max(P, N)
    exponent = np.frexp(largest)[1] - 1
    binade = np.minimum(largest, np.ldexp(1.0, exponent))
    summed = (kind.unit * ((terms - 1) * binade + both) + flushed) * (1 + _SLACK)
    fits = (both * (1 + 2 * gamma) + flushed) * (1 + _SLACK) < kind.largest
    return summed, ~(fits.all(axis=1) & (size < kind.largest).all(axis=1))


def _folded_summation(
    fold: Fold, least: Floats, most: Floats, kind: _Precision
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Do the same for a layer that a program computes with the norms beside it, or with the norms folded into it.

    Every step is off by so many units of the sizes of all its terms, and the folded numbers are rounded once more.
    ``reach`` bounds every number on the way, and whatever a subnormal number that is taken as 0 is multiplied by.
    """
    inner, outer = fold.lines()
    weight = np.abs(fold.weight.astype(np.float64))
    bias = np.zeros(len(weight)) if fold.bias is None else np.abs(fold.bias.astype(np.float64))
    factors = np.abs(inner.factor), np.abs(outer.factor)
    size = _size(least, most)
    entered = size * factors[0] + inner.size
    total = entered @ weight.T + bias
    left = total * factors[1] + outer.size
    count = weight.shape[1] + inner.roundings + outer.roundings + _FOLDING
    gamma = count * kind.unit / (1 - count * kind.unit)
    beside = (1 + inner.reach.max()) * (1 + outer.reach.max()) * (1 + weight.sum(axis=1) + bias)
    wide = size * inner.reach + inner.size
    reach = beside * (1 + weight.shape[1] + wide.sum(axis=1, keepdims=True)) + outer.size
    return (gamma * left + 16 * kind.tiny * reach) * (1 + _SLACK), ~(2 * reach < kind.largest).all(axis=1)


def _backward(network: Network, stages: list[_Stage], rows: Floats) -> Floats:
    """Return bounds ``(pieces, rows)`` of the error of rows of the logits: the better of going back to any layer.

    ``low..high`` are the sensitivities of the rows to the errors of a layer's outputs. Going back to a layer, the error
    consists of what was lost on the way and of the error of the layer's inputs.
    """
    low = high = rows
    lost, best = np.zeros(rows.shape[:2]), np.full(rows.shape[:2], np.inf)
    for affine, stage in zip(reversed(network.affines[: len(stages)]), reversed(stages), strict=True):
        lost = lost + _times(low, high, stage.summed)
        low, high = _sensitivities(affine.weight.astype(np.float64), low, high)
        best = np.minimum(best, lost + _times(low, high, stage.entering))
        lost = lost + _times(low, high, stage.activated)
        if stage.slopes is not None:
            flat, steep = (slope[:, None, :] for slope in stage.slopes)
            low, high = np.minimum(low * flat, low * steep), np.maximum(high * flat, high * steep)
    return np.asarray(np.minimum(best, lost) * (1 + _SLACK))


def _sensitivities(weight: Floats, low: Floats, high: Floats) -> Intervals:
    """Return the sensitivities to the inputs of an affine layer from those to its outputs."""
    magnitude = np.abs(weight)
    middle, spread = (low + high) / 2 @ weight, (high - low) / 2 @ magnitude
    spread += (_NARROW + 16 * len(weight) * 2.0**-53) * (_size(low, high) @ magnitude)
    return middle - spread, middle + spread


def _times(low: Floats, high: Floats, errors: Floats) -> Floats:
    """Return what errors ``(pieces, units)`` can change at sensitivities ``(pieces, rows, units)``."""
    return np.asarray(np.matmul(_size(low, high), errors[:, :, None])[:, :, 0] * (1 + _SLACK))


def _intersection(first: Intervals, second: Intervals) -> Intervals:
    """Return the intersection of intervals; the second ones are rounded by others, and widened for that."""
    low, high = second
    slack = _NARROW * (np.abs(low) + np.abs(high))
    return np.fmax(first[0], low - slack), np.fmin(first[1], high + slack)


def _affine_image(weight: Floats, bias: Floats, low: Floats, high: Floats) -> Intervals:
    magnitude = np.abs(weight).T
    middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ magnitude
    slack = (_size(low, high) @ magnitude + np.abs(bias)) * (_NARROW + 16 * (len(magnitude) + 1) * 2.0**-53)
    return middle - spread - slack, middle + spread + slack


def _activation_error(activation: Activation, least: Floats, most: Floats, kind: _Precision) -> Floats:
    """Return how far a computed activation is from the exact one of the same input, which lies in least..most."""
    if activation.name == "leaky_relu":
        # The slope is rounded, and the product with it; a subnormal slope may be taken as 0.
        factor = 3 * kind.unit * activation.slope + kind.tiny
        return np.asarray(factor * np.maximum(-least, 0.0) * (1 + _SLACK) + 2 * kind.tiny)
    if activation.name in ("tanh", "sigmoid"):
        return np.full(least.shape, 16 * kind.unit + kind.tiny)  # libraries are accurate to 16 units
    if activation.name in ("relu", "identity"):
        # A subnormal result may be taken as 0, unless it is 0 anyway.
        return np.minimum(kind.tiny, np.maximum(most, 0.0 if activation.name == "relu" else -least))
    raise NotImplementedError(f"the rounding error of {activation.name}")


def _slopes(activation: Activation, least: Floats, most: Floats) -> Intervals:
    """Return an interval that holds every difference quotient of the activation on least..most."""
    if activation.name in ("tanh", "sigmoid"):
        steepest = np.clip(0.0, least, most)
        flattest = np.where(-least > most, least, most)
        flat, steep = (_derivative(activation, z) for z in (flattest, steepest))
        return np.maximum(flat - _NARROW, 0.0), steep + _NARROW
    if activation.name not in ("relu", "leaky_relu", "identity"):
        raise NotImplementedError(f"the slopes of {activation.name}")
    negative = 1.0 if activation.name == "identity" else activation.slope
    return np.where(least < 0, negative, 1.0), np.where(most > 0, 1.0, negative)


def _derivative(activation: Activation, z: Floats) -> Floats:
    value = z.copy()
    activation.apply(value)
    return np.asarray(1 - value**2 if activation.name == "tanh" else value * (1 - value))


def _image(activation: Activation, low: Floats, high: Floats) -> Intervals:
    low, high = low.copy(), high.copy()
    activation.apply(low)
    activation.apply(high)
    if activation.name in ("relu", "identity"):
        return low, high
    return low - _NARROW * (1 + np.abs(low)), high + _NARROW * (1 + np.abs(high))


def _size(low: Floats, high: Floats) -> Floats:
    return np.maximum(np.abs(low), np.abs(high))
