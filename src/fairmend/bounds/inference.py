"""How far floating-point inference can be from the network in real arithmetic: a rigorous forward error bound.

A proof in real arithmetic says nothing about a deployed float32 network that rounds across the decision threshold. It
covers inference if the proven margin exceeds this bound. The bound holds for any order of summation, with or without
fused multiply-add, with subnormal numbers kept or taken as 0 (inputs, weights, biases and every result), in the
network's own precision, and therefore not for bfloat16 or TF32 kernels. Rule 3 of docs/certificate.md states it; the
checker computes it independently. Each interval here is wider than the checker's and each factor larger, so that a
margin above this bound is above the checker's as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray, Floats
from fairmend.network import Activation, Network

__all__ = ["closing_error", "inference_error"]

# The bound itself is computed in float64, with relative errors far below this factor.
_INFLATE = 1 + 1e-8


@dataclass(frozen=True)
class _Precision:
    unit: float
    tiny: float
    largest: float

    @staticmethod
    def of(dtype: npt.DTypeLike) -> _Precision:
        kind = np.finfo(dtype)
        return _Precision(float(kind.eps) / 2, float(kind.tiny), float(kind.max))


def inference_error(
    network: Network, lower: FloatArray, upper: FloatArray, precision: npt.DTypeLike | None = None
) -> Floats:
    """Return the largest |computed - real| of each logit over the boxes ``lower <= x <= upper``: ``(pieces, outputs)``.

    Inference computes in ``precision``, by default the network's own.

    By induction over the layers: with features known to e, an affine layer of n inputs is known to
    ``|W| e + gamma_{n+1} (|W| (|h| + e) + |b|)`` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), and to
    ``tiny (sum(|h| + e) + 4 (n + 1))`` more if weights, biases, products and sums below ``tiny``, the smallest normal
    number, are taken as 0.
    """
    kind = _Precision.of(network.dtype if precision is None else precision)
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    error = np.full(low.shape, kind.tiny)  # a subnormal input may be taken as 0
    for layer, affine in enumerate(network.affines):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        terms = weight.shape[1] + 1
        if terms * kind.unit >= 0.1:
            return np.full((len(low), network.outputs), np.inf)
        gamma = terms * kind.unit / (1 - terms * kind.unit)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.maximum(np.abs(low), np.abs(high)) + error
            products = size @ np.abs(weight).T + np.abs(bias)
            flushed = kind.tiny * (size.sum(axis=1, keepdims=True) + 4 * terms)
            error = (error @ np.abs(weight).T + gamma * products + flushed) * _INFLATE
            # What overflows stays infinite, whatever is added to it, and infinity times 0 is not a number.
            fits = (products * (1 + 2 * gamma) + flushed) * _INFLATE < kind.largest
            error[~(fits & (size < kind.largest).all(axis=1, keepdims=True))] = np.inf
            middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ np.abs(weight).T
            slack = products * (1e-12 + 16 * terms * 2.0**-53)  # float64 rounding of these two lines
            low, high = middle - spread - slack, middle + spread + slack
            if layer < len(network.activations):
                error = _through(network.activations[layer], low, high, error, kind) * _INFLATE
                low, high = _image(network.activations[layer], low, high)
    return np.where(np.isfinite(error), error, np.inf)  # NaN is infinity times zero


def closing_error(network: Network) -> float:
    """Return how far a logit must be from 0, or from another, for a closing sigmoid or softmax to keep them apart."""
    return 64 * _Precision.of(network.dtype).unit


def _through(activation: Activation, low: Floats, high: Floats, error: Floats, kind: _Precision) -> Floats:
    """Return the error after an activation: all are 1-Lipschitz, and libraries compute tanh and sigmoid to 16 units."""
    if activation.name == "leaky_relu":
        # The slope is rounded, and the product with it; a subnormal slope may be taken as 0.
        size = np.maximum(np.abs(low), np.abs(high)) + error
        return np.asarray(error + (3 * kind.unit + kind.tiny) * size + 2 * kind.tiny)
    if activation.name in ("tanh", "sigmoid"):
        # Both are bounded, but after an overflow the value may be NaN.
        bounded = np.where(np.isfinite(error), np.minimum(error, 2.0), np.inf)
        return np.asarray(bounded + 16 * kind.unit + kind.tiny)
    if activation.name in ("relu", "identity"):
        return np.asarray(error + kind.tiny)
    raise NotImplementedError(f"the rounding error of {activation.name}")


def _image(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    low, high = low.copy(), high.copy()
    activation.apply(low)
    activation.apply(high)
    return low - 1e-12 * (1 + np.abs(low)), high + 1e-12 * (1 + np.abs(high))
