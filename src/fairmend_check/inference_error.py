"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.bounds import interval_layers
from fairmend_check.model import Activation, Model
from fairmend_check.relaxation import value_range
from fairmend_check.rounding import Array, gamma


@dataclass(frozen=True)
class Precision:
    """Unit roundoff, largest number and smallest normal number of a floating-point format."""

    u: float
    largest: float
    tiny: float

    @staticmethod
    def of(dtype: str) -> Precision:
        """Return the figures of "float32" or "float64"."""
        kind = np.finfo(dtype)
        return Precision(float(kind.eps) / 2, float(kind.max), float(kind.tiny))

    @property
    def closing(self) -> float:
        """How far a score must be from 0, or from another, for a closing sigmoid or softmax to keep them apart."""
        return 64 * self.u


def inference_error(model: Model, lower: Array, upper: Array) -> Array:
    """Return bounds of the error of the margin over boxes (boxes,); inf where inference could overflow."""
    with np.errstate(all="ignore"):
        return inference_error_of(model, lower, upper, interval_layers(model, lower, upper))


def inference_error_of(model: Model, lower: Array, upper: Array, layers: list[tuple[Array, Array]]) -> Array:
    """Do as `inference_error` does, from the intervals of every affine layer over the boxes."""
    kind = Precision.of(model.dtype)
    error = np.full(lower.shape, kind.tiny)  # a subnormal input may be taken as 0
    size = np.maximum(np.abs(lower), np.abs(upper))
    overflows = np.zeros(len(lower), dtype=np.bool_)
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        n = weight.shape[1]
        absolute = np.abs(weight).T
        outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
        # n is at most 2^20, so (n + 1) u stays well below 1 in float32.
        g = (n + 1) * kind.u / (1 - (n + 1) * kind.u)
        reach = size + error
        sums = (reach @ absolute + np.abs(bias)) * outward
        flushed = kind.tiny * (reach.sum(axis=1, keepdims=True) + 4 * (n + 1))
        error = (error @ absolute + g * sums + flushed) * outward
        overflows |= ~(reach < kind.largest).all(axis=1) | ~(sums * (1 + g) + flushed < kind.largest).all(axis=1)
        if number < len(model.between):
            error = _after(model.between[number], layers[number], error, kind) * outward
            after = value_range(model.between[number], *layers[number])
            size = np.maximum(np.abs(after[0]), np.abs(after[1]))
    worst: Array = error.max(axis=1) * (2 if model.outputs > 1 else 1) + kind.closing
    return np.where(overflows | np.isnan(worst), np.inf, worst)


def _after(activation: Activation, before: tuple[Array, Array], error: Array, kind: Precision) -> Array:
    """Return the error after an activation, from that of its input."""
    if activation.name in ("tanh", "sigmoid"):
        return np.minimum(error, 2.0) + 16 * kind.u + kind.tiny  # no two values are further apart than 2
    if activation.name == "leaky_relu":
        steepest = max(1.0, activation.slope)
        reach = np.maximum(np.abs(before[0]), np.abs(before[1])) + error
        # The slope is rounded, and the product with it; a subnormal slope may be taken as 0.
        return error * steepest + (3 * kind.u * steepest + kind.tiny) * reach + 2 * kind.tiny
    return error + kind.tiny
