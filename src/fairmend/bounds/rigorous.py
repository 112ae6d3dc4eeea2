"""Rigorous bounds of a network over boxes: they hold in real arithmetic, for the weights as stored.

The same backward substitution as in `linear`, in NumPy float64. Coefficients stay as computed, and one slack per row
collects everything that rounding lost: at every step,

    true value >= A·h(x) + c - slack     for every x in the box,

where h is the layer that the substitution has reached. The slopes of the relaxations are free: any numbers give a sound
bound, and good ones a tight bound. Intercepts are computed here. `enclosure` states the assumptions about rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Floats
from fairmend.bounds.enclosure import TINY, enclose_image, enclose_value, gamma, lower_line, upper_line
from fairmend.bounds.pieces import MAX_ENTRIES, batches, exact_boxes, exact_rows, widest_layer
from fairmend.errors import FairmendError
from fairmend.network import Network

__all__ = ["Slopes", "rigorous_bounds", "rigorous_differences", "rigorous_point_logits"]


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of the lower and upper lines of one activation layer, each ``(pieces, units)``."""

    lower: Floats
    upper: Floats


class _Layer(NamedTuple):
    """An affine layer and the activation after it, for the backward pass: arrays ``(pieces, units)``.

    ``magnitude`` bounds |z| and |weight| |h| + |bias| for the inputs h and the outputs z of the affine layer.
    ``floor (pieces, 1)`` bounds everything that underflow can take away in the substitution.
    """

    weight: Floats
    bias: Floats
    lower_slope: Floats
    lower_intercept: Floats
    upper_slope: Floats
    upper_intercept: Floats
    magnitude: Floats
    floor: Floats


class _Rows(NamedTuple):
    """Linear functions of a layer's outputs; the first axis has length 1 if all pieces share them.

    A ``(pieces, rows, units)``, c and slack ``(pieces, rows)``.
    """

    A: Floats
    c: Floats
    slack: Floats


class _Analysis(NamedTuple):
    """What is known about each piece: its box, the layers so far, and the interval of the last layer's outputs.

    ``intervals`` are those of the outputs of each affine layer so far, before its activation.
    """

    box: tuple[Floats, Floats]
    layers: list[_Layer]
    outputs: tuple[Floats, Floats]
    intervals: list[tuple[Floats, Floats]]


@np.errstate(all="ignore")
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
    """Return `rigorous_bounds`, and lower and upper bounds of the outputs of each hidden affine layer."""
    low, high = exact_boxes(network, lower, upper)
    given = _slopes(network, low, high, slopes)
    bounds = np.empty((len(low), 2 * network.outputs))
    layers = _empty_layers(network, len(low))
    rows = _both_signs(network.head.weight, network.head.bias)
    for part in batches(network, len(low)):
        analysis = _analyse(network, low[part], high[part], _take(given, part))
        bounds[part] = _lower_bounds(rows, analysis)
        _store(layers, part, analysis)
    return bounds[:, : network.outputs], -bounds[:, network.outputs :], layers


@np.errstate(all="ignore")
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
    """Return `rigorous_differences`, and lower and upper bounds of the outputs of each hidden affine layer."""
    low, high = exact_boxes(network, lower, upper)
    given = _slopes(network, low, high, slopes)
    bounds = np.zeros((len(low), network.outputs, network.outputs))
    k, j = np.nonzero(~np.eye(network.outputs, dtype=bool))
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    A, c = weight[k] - weight[j], bias[k] - bias[j]
    layers = _empty_layers(network, len(low))
    for part in batches(network, len(low)):
        analysis = _analyse(network, low[part], high[part], _take(given, part))
        # The differences of weights are rounded; the slack accounts for that.
        slack = gamma(2) * (_largest(*analysis.outputs) @ np.abs(A).T + np.abs(c)) + TINY
        bounds[part, k, j] = _lower_bounds(_Rows(A[None], c[None], slack), analysis)
        _store(layers, part, analysis)
    return bounds, layers


@np.errstate(all="ignore")
def rigorous_point_logits(network: Network, points: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the logits at points ``(n, inputs)``: each ``(n, outputs)``."""
    x = exact_rows(network, points, "points")
    lower, upper = np.empty((2, len(x), network.outputs))
    step = max(1, MAX_ENTRIES // widest_layer(network))
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        h = x[part]
        error = np.zeros_like(h)
        for layer, affine in enumerate(network.affines):
            weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
            # The error of the inputs times the weights, and the rounding of the product itself.
            g = gamma(weight.shape[1] + 4)
            error = 1.01 * ((error + g * (np.abs(h) + TINY)) @ np.abs(weight).T + g * np.abs(bias)) + TINY
            h = h @ weight.T + bias
            lost = ~(np.isfinite(h) & np.isfinite(error))
            h, error = np.where(lost, 0.0, h), np.where(lost, np.inf, error)
            if layer < len(network.activations):
                activation = network.activations[layer]
                h, new = enclose_value(activation, h)
                error = 1.01 * (error + new)  # every activation is 1-Lipschitz
                if activation.name in ("tanh", "sigmoid"):
                    error = np.minimum(error, 2.0)  # both ends lie in [-1, 1]
        lower[part], upper[part] = np.nextafter(h - error, -np.inf), np.nextafter(h + error, np.inf)
    return lower, upper


def _analyse(network: Network, lower: Floats, upper: Floats, slopes: list[Slopes]) -> _Analysis:
    """Enclose the outputs z of each hidden layer, with the help of the layers before it."""
    known = _Analysis((lower, upper), [], (lower, upper), [])
    for affine, activation, chosen in zip(network.affines, network.activations, slopes, strict=False):
        rows = _both_signs(affine.weight, affine.bias)
        weight, bias = np.split(rows.A[0], 2)[0], np.split(rows.c[0], 2)[0]
        low, high = np.split(_lower_bounds(rows, known), 2, axis=1)
        high = -high
        inputs = _largest(*known.outputs)
        magnitude = inputs @ np.abs(weight).T + np.abs(bias) + TINY
        least, most = enclose_image(activation, low, high)
        layer = _Layer(
            weight,
            bias,
            *lower_line(activation, chosen.lower, low, high, least),
            *upper_line(activation, chosen.upper, low, high, most),
            magnitude,
            TINY * (1 + inputs.sum(1, keepdims=True) + magnitude.sum(1, keepdims=True)),
        )
        known = _Analysis(known.box, [*known.layers, layer], (least, most), [*known.intervals, (low, high)])
    return known


def _empty_layers(network: Network, pieces: int) -> list[tuple[Floats, Floats]]:
    """Return room for the intervals of each hidden layer, without bounds so far."""
    shapes = [(pieces, len(affine.bias)) for affine in network.affines[:-1]]
    return [(np.full(shape, -np.inf), np.full(shape, np.inf)) for shape in shapes]


def _store(layers: list[tuple[Floats, Floats]], part: slice, analysis: _Analysis) -> None:
    for (low, high), (found_low, found_high) in zip(layers, analysis.intervals, strict=True):
        low[part], high[part] = found_low, found_high


def _lower_bounds(rows: _Rows, known: _Analysis) -> Floats:
    """Return lower bounds ``(pieces, rows)`` of linear functions of the last known layer's outputs.

    Each is the better of interval arithmetic and backward substitution. Rows are processed in batches to save memory.
    """
    pieces = len(known.box[0])
    count = rows.A.shape[1]
    width = max(rows.A.shape[2], *(layer.weight.shape[1] for layer in known.layers), 1)
    bounds = np.empty((pieces, count))
    step = max(1, MAX_ENTRIES // (pieces * width))
    for start in range(0, count, step):
        part = slice(start, start + step)
        group = _Rows(rows.A[:, part], rows.c[:, part], rows.slack[:, part])
        bound = _over_box(group, *known.outputs)
        if known.layers:
            for layer in reversed(known.layers):
                group = _through(group, layer)
            bound = np.maximum(bound, _over_box(group, *known.box))
        bounds[:, part] = bound
    return bounds


def _through(rows: _Rows, layer: _Layer) -> _Rows:
    """Substitute a layer: turn functions of its outputs f(z) into functions of its inputs h, z = weight·h + bias.

    The lower line replaces f where A >= 0 and the upper line elsewhere. This is sound because they enclose f. Rounding
    loses

        c + A·intercepts, c + A·bias        gamma(n + 1) times the absolute terms
        A·slope, entry by entry             UNIT |A slope| |z|, with |z| <= magnitude
        A·weight                            gamma(n) |A| |weight| |h|, within |A| magnitude

    and what underflows. If an entry of A or c overflows, the slack or c stays infinite or NaN.
    """
    A, c, slack = rows
    n = A.shape[2]
    rising = A >= 0
    parts = A * np.where(rising, layer.lower_intercept[:, None], layer.upper_intercept[:, None])
    loss = np.abs(c) + np.abs(parts).sum(2)
    c = c + parts.sum(2)
    A = A * np.where(rising, layer.lower_slope[:, None], layer.upper_slope[:, None])
    loss += np.abs(c) + _dot(np.abs(A), layer.magnitude)
    c = c + A @ layer.bias
    flat = A.reshape(-1, n) @ layer.weight  # one large product is faster than one for each piece
    return _Rows(flat.reshape(*A.shape[:2], -1), c, slack + gamma(n + 4) * loss + layer.floor)


def _over_box(rows: _Rows, lower: Floats, upper: Floats) -> Floats:
    """Return lower bounds ``(pieces, rows)`` of rows over boxes ``(pieces, units)``; -inf if numbers overflow."""
    least = rows.c + (_dot(np.maximum(rows.A, 0.0), lower) + _dot(np.minimum(rows.A, 0.0), upper))
    loss = np.abs(rows.c) + _dot(np.abs(rows.A), _largest(lower, upper))
    slack = rows.slack + gamma(rows.A.shape[2] + 4) * loss + TINY
    bound = np.nextafter(least - slack, -np.inf)
    return np.where(np.isfinite(least) & np.isfinite(slack), bound, -np.inf)


def _dot(A: Floats, v: Floats) -> Floats:
    """Return A ``(1 or pieces, rows, units)`` times v ``(pieces, units)``: ``(pieces, rows)``."""
    product: Floats = v @ A[0].T if len(A) == 1 else np.matmul(A, v[:, :, None])[:, :, 0]
    return product


def _largest(lower: Floats, upper: Floats) -> Floats:
    """Return the largest absolute value in an interval; never 0, because infinity times 0 would be NaN."""
    return np.maximum(np.abs(lower), np.abs(upper)) + TINY


def _both_signs(weight: npt.NDArray[np.floating], bias: npt.NDArray[np.floating]) -> _Rows:
    """Return a layer's outputs and their negatives as rows: lower bounds of both give upper bounds as well."""
    A, c = (np.concatenate([part, -part]).astype(np.float64)[None] for part in (weight, bias))
    return _Rows(A, c, np.zeros_like(c))


def _take(slopes: Sequence[Slopes], part: slice) -> list[Slopes]:
    return [Slopes(layer.lower[part], layer.upper[part]) for layer in slopes]


def _slopes(network: Network, lower: Floats, upper: Floats, slopes: Sequence[Slopes] | None) -> Sequence[Slopes]:
    if slopes is None:
        from fairmend.bounds.slopes import choose_slopes  # PyTorch comes with it

        return choose_slopes(network, lower, upper)
    expected = [(len(lower), len(affine.bias)) for affine in network.affines[:-1]]
    shapes = [(layer.lower.shape, layer.upper.shape) for layer in slopes]
    if shapes != [(shape, shape) for shape in expected]:
        raise FairmendError(f"the slopes have shapes {shapes}; these boxes need {expected}, lower and upper")
    return slopes
