"""Lower bounds of a model's margins over boxes: intervals forward, given lines substituted backward.

Coefficients are rounded to the nearest double. ``slip`` collects what this rounding can change, given the size of the
values that they multiply, and is subtracted at the end. Every bound is rigorous, at one matrix product a layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.model import Model
from fairmend_check.relaxation import choose_slopes, intercepts, value_range
from fairmend_check.rounding import GENEROUS, TINY, Array, U, affine, ball, down, gamma

Slopes = list[tuple[Array, Array]]  # for each activation layer the lower and the upper slopes (boxes, width)

_ROOM = 4_000_000  # numbers in the largest array of coefficients


@dataclass(frozen=True, eq=False)
class Lines:
    """An activation layer over boxes: slopes and intercepts below and above, and how large its input can be."""

    slope_below: Array
    slope_above: Array
    below: Array
    above: Array
    magnitude: Array


@dataclass(frozen=True, eq=False)
class Layers:
    """What is known so far: the intervals of the inputs of each affine layer, and the lines of each activation."""

    entering: list[tuple[Array, Array]]
    lines: list[Lines]


def interval_layers(model: Model, lower: Array, upper: Array) -> list[tuple[Array, Array]]:
    """Enclose the outputs of every affine layer over boxes, by interval arithmetic alone."""
    found = []
    for weight, bias in zip(model.weights, model.biases, strict=True):
        found.append(affine(weight, bias, lower, upper))
        if len(found) < len(model.weights):
            lower, upper = value_range(model.activations[len(found) - 1], *found[-1])
    return found


def interval_margins(model: Model, classes: np.ndarray, low: Array, high: Array) -> Array:
    """Return lower bounds of the margins of classes (boxes,), from intervals of the outputs (boxes, outputs)."""
    if model.outputs == 1:
        return np.where(classes == 1, low[:, 0], -high[:, 0])
    rows, others = np.arange(len(classes)), high.copy()
    others[rows, classes] = -np.inf
    return down(low[rows, classes] - others.max(axis=1))


def leads(model: Model, classes: np.ndarray) -> Array:
    """Return the combinations of outputs that are the margins of the classes (boxes, margins, outputs)."""
    if model.outputs == 1:
        return np.where(classes == 1, 1.0, -1.0)[:, None, None]
    out = np.zeros((len(classes), model.outputs - 1, model.outputs))
    rows, columns = np.arange(len(classes))[:, None], np.arange(model.outputs - 1)
    out[rows, columns, columns + (columns >= classes[:, None])] = -1.0  # all outputs but the class
    out[rows, columns, classes[:, None]] = 1.0
    return out


def margin_bounds(model: Model, classes: np.ndarray, lower: Array, upper: Array, slopes: Slopes) -> Array:
    """Return lower bounds of the margins of these classes over boxes (boxes,); -inf on overflow."""
    least: Array = form_bounds(model, leads(model, classes), lower, upper, slopes)[0].min(axis=1)
    return least


def form_bounds(
    model: Model, forms: Array, lower: Array, upper: Array, slopes: Slopes | None
) -> tuple[Array, list[tuple[Array, Array]]]:
    """Return lower bounds of linear forms of the outputs (boxes, forms, outputs) over boxes (boxes, forms).

    And intervals of the outputs of every affine layer before an activation. Without slopes, `choose_slopes` does.
    """
    widest = max(max(weight.shape) for weight in model.weights)
    step = max(1, _ROOM // (widest * max(2 * widest, forms.shape[1])))
    found = np.empty(forms.shape[:2])
    shapes = [(len(lower), len(weight)) for weight in model.weights[:-1]]
    layers = [(np.empty(shape), np.empty(shape)) for shape in shapes]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            lines = None if slopes is None else [(below[part], above[part]) for below, above in slopes]
            found[part], intervals = _bounds(model, forms[part], lower[part], upper[part], lines)
            for (low, high), (low_here, high_here) in zip(layers, intervals, strict=True):
                low[part], high[part] = low_here, high_here
    return found, layers


def _bounds(
    model: Model, forms: Array, lower: Array, upper: Array, slopes: Slopes | None
) -> tuple[Array, list[tuple[Array, Array]]]:
    known = Layers([(lower, upper)], [])
    intervals = []
    for number, activation in enumerate(model.activations):
        weight, bias = model.weights[number], model.biases[number]
        rows, consts = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
        shape = (len(lower), *rows.shape)
        bounds = _lower_bounds(model, known, np.broadcast_to(rows, shape), np.broadcast_to(consts, shape[:2]))
        low, high = bounds[:, : len(weight)], -bounds[:, len(weight) :]
        intervals.append((low, high))
        below, above = choose_slopes(activation, low, high) if slopes is None else slopes[number]
        lines = intercepts(activation, (below, above), low, high)
        known.lines.append(Lines(below, above, *lines, _magnitude(low, high)))
        known.entering.append(value_range(activation, low, high))
    nothing = np.zeros(forms.shape[:2])
    through = _through_affine(model, known, len(model.activations), forms, nothing, nothing)
    return _lower_bounds(model, known, *through), intervals


def _lower_bounds(model: Model, known: Layers, coefficients: Array, const: Array, slip: Array | float = 0.0) -> Array:
    """Return lower bounds of coefficients · h + const, less slip, where h is the last of the known intervals.

    The form is substituted backward to the input. At every layer on the way its values over the known intervals are a
    bound as well, and the best bound counts. coefficients (boxes, forms, width), const and bounds (boxes, forms)
    """
    best = _over_box(coefficients, const, slip, *known.entering[-1])
    for layer in range(len(known.lines) - 1, -1, -1):
        lines = known.lines[layer]
        n = coefficients.shape[2]
        positive, negative = np.maximum(coefficients, 0.0), np.minimum(coefficients, 0.0)
        added = _dot(positive, lines.below) + _dot(negative, lines.above)
        slip = slip + gamma(2 * n + 4) * _dot(positive - negative, _magnitude(lines.below, lines.above))
        # One of the two terms is 0, so each new coefficient is a single rounding away from exact.
        coefficients = positive * lines.slope_below[:, None, :] + negative * lines.slope_above[:, None, :]
        slip = slip + 2 * U * _dot(np.abs(coefficients), lines.magnitude) + TINY * (1 + _total(lines.magnitude))
        const = const + added
        slip = slip + 2 * U * (np.abs(const) + np.abs(added))
        coefficients, const, slip = _through_affine(model, known, layer, coefficients, const, slip)
        best = np.maximum(best, _over_box(coefficients, const, slip, *known.entering[layer]))
    return best


def _over_box(coefficients: Array, const: Array, slip: Array | float, lower: Array, upper: Array) -> Array:
    """Return lower bounds of forms over boxes; -inf, never nan, on overflow."""
    n = coefficients.shape[2]
    mid, radius = ball(lower, upper)
    size = np.abs(coefficients)
    centre, spread = _dot(coefficients, mid), _dot(size, radius)
    slip = slip + gamma(n + 4) * (_dot(size, np.abs(mid)) + spread) + 4 * U * (np.abs(const) + np.abs(centre) + spread)
    return down(const + centre - spread - (slip * GENEROUS + TINY * (1 + _total(_magnitude(lower, upper)))))


def _through_affine(
    model: Model, known: Layers, layer: int, coefficients: Array, const: Array, slip: Array | float
) -> tuple[Array, Array, Array]:
    """Rewrite a form of the outputs of an affine layer as a form of its inputs."""
    weight, bias = model.weights[layer], model.biases[layer]
    boxes, forms, width = coefficients.shape
    entering = _magnitude(*known.entering[layer])
    size = entering @ np.abs(weight).T + np.abs(bias)
    lost = gamma(width + 4) * _dot(np.abs(coefficients), size) + TINY * (1 + _total(entering))
    added = coefficients @ bias
    total = const + added
    lost = lost + 2 * U * (np.abs(total) + np.abs(added))
    out = (coefficients.reshape(-1, width) @ weight).reshape(boxes, forms, weight.shape[1])
    return out, total, slip + lost


def _dot(coefficients: Array, values: Array) -> Array:
    """Return coefficients (boxes, forms, width) times values (boxes, width), as (boxes, forms)."""
    return (coefficients @ values[:, :, None])[:, :, 0]


def _total(values: Array) -> Array:
    return np.asarray(values.sum(axis=1, keepdims=True), dtype=np.float64)


def _magnitude(lower: Array, upper: Array) -> Array:
    return np.maximum(np.abs(lower), np.abs(upper))
