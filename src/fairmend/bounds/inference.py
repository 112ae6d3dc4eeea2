"""How far floating-point inference can be from the network in real arithmetic: a rigorous forward error bound.

A proof in real arithmetic says nothing about a deployed float32 network that rounds across the decision threshold. It
covers inference if the proven margin exceeds this bound. The bound holds for any order of summation, with or without
fused multiply-add, in the network's own precision, and therefore not for bfloat16 or TF32 kernels.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import FloatArray, Floats
from fairmend.network import Activation, Network

__all__ = ["inference_error"]

# The bound itself is computed in float64, with relative errors far below this factor.
_INFLATE = 1 + 1e-9


def inference_error(network: Network, lower: FloatArray, upper: FloatArray) -> Floats:
    """Return the largest |computed - real| of each logit over the boxes ``lower <= x <= upper``: ``(pieces, outputs)``.

    By induction over the layers: with features known to e, an affine layer of n inputs is known to
    ``|W| e + gamma_{n+1} (|W| (|h| + e) + |b|)`` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    """
    unit = float(np.finfo(network.dtype).eps) / 2
    tiny = float(np.finfo(network.dtype).tiny)  # underflow, flushed to zero or not
    largest = float(np.finfo(network.dtype).max)
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    error = np.zeros_like(low)
    for layer, affine in enumerate(network.affines):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        terms = weight.shape[1] + 1
        gamma = terms * unit / (1 - terms * unit)
        size = np.maximum(np.abs(low), np.abs(high)) + error
        with np.errstate(over="ignore", invalid="ignore"):
            products = size @ np.abs(weight).T + np.abs(bias)
            error = (error @ np.abs(weight).T + gamma * products + terms * tiny) * _INFLATE
            # A partial sum that overflows stays infinite, whatever is added to it.
            error[~(products * (1 + 2 * gamma) * _INFLATE < largest)] = np.inf
            middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ np.abs(weight).T
            slack = products * 1e-12  # float64 rounding of these two lines
            low, high = middle - spread - slack, middle + spread + slack
            if layer < len(network.activations):
                error = _through(network.activations[layer], low, high, error, unit) * _INFLATE
                low, high = _image(network.activations[layer], low, high)
    return np.where(np.isfinite(error), error, np.inf)  # NaN is infinity times zero


def _through(activation: Activation, low: Floats, high: Floats, error: Floats, unit: float) -> Floats:
    """Return the error after an activation: all are 1-Lipschitz, and libraries compute tanh and sigmoid to 8 ulp."""
    if activation.name == "leaky_relu":
        return np.asarray(error + unit * (np.maximum(np.abs(low), np.abs(high)) + error))
    if activation.name in ("tanh", "sigmoid"):
        # Both are bounded, but after an overflow the value may be NaN.
        return np.asarray(np.where(np.isfinite(error), np.minimum(error, 2.0), np.inf) + 8 * unit)
    if activation.name in ("relu", "identity"):
        return error
    raise NotImplementedError(f"the rounding error of {activation.name}")


def _image(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    low, high = low.copy(), high.copy()
    activation.apply(low)
    activation.apply(high)
    return low - 1e-12 * (1 + np.abs(low)), high + 1e-12 * (1 + np.abs(high))
