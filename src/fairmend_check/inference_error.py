"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md."""

from __future__ import annotations

import numpy as np

from fairmend_check.bounds import interval_layers
from fairmend_check.model import Model
from fairmend_check.relaxation import value_range
from fairmend_check.rounding import Array, gamma


def inference_error(model: Model, lower: Array, upper: Array, precision: str) -> Array:
    """Return bounds of the error of the margin over boxes (boxes,); inf where inference could overflow."""
    with np.errstate(all="ignore"):
        return inference_error_of(model, lower, upper, interval_layers(model, lower, upper), precision)


def inference_error_of(
    model: Model, lower: Array, upper: Array, layers: list[tuple[Array, Array]], precision: str
) -> Array:
    """Do as `inference_error` does, from the intervals of every affine layer over the boxes."""
    kind = np.finfo(precision)
    u, largest, smallest = float(kind.eps) / 2, float(kind.max), float(kind.tiny)
    error = np.zeros_like(lower)
    size = np.maximum(np.abs(lower), np.abs(upper))
    overflows = np.zeros(len(lower), dtype=np.bool_)
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        n = weight.shape[1]
        absolute = np.abs(weight).T
        outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
        # n is at most 2^20, so (n + 1) u stays well below 1 in float32.
        g = (n + 1) * u / (1 - (n + 1) * u)
        sums = ((size + error) @ absolute + np.abs(bias)) * outward
        # A product below the normal numbers may be flushed to zero, which relative errors do not cover.
        error = (error @ absolute + g * sums + (n + 1) * smallest) * outward
        overflows |= ~(sums * (1 + g) < largest).all(axis=1)
        if number == len(model.weights) - 1:
            break
        activation = model.between[number]
        before = layers[number]
        if activation.name in ("tanh", "sigmoid"):
            error = (error + 8 * u) * outward
        elif activation.name == "leaky_relu":
            steepest = max(1.0, activation.slope)
            reach = np.maximum(np.abs(before[0]), np.abs(before[1]))
            # Rounding acts on what is computed, |z| + e; where the slope is below 1, the slope makes up for that e.
            reach = reach if activation.slope <= 0.5 else reach + error
            error = (error * steepest + u * steepest * reach + smallest) * outward
        after = value_range(activation, *before)
        size = np.maximum(np.abs(after[0]), np.abs(after[1]))
    worst: Array = error.max(axis=1) * (2 if model.outputs > 1 else 1)
    return np.where(overflows | np.isnan(worst), np.inf, worst)
