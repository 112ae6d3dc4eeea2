"""Softplus log(1 + exp(beta z)) / beta: convex."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Curve, enclosed, logistic, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U

_CUT_OFF = 2.1e-9  # PyTorch leaves out log(1 + exp(-z)) from beta z = 20 on, where it is exp(-20) at most
_EXPONENT = 700.0  # in float64, ONNX Runtime computes exp(z) itself, which overflows from 709 on


class Softplus(Curve):
    """max(z, 0) + log(1 + exp(-beta |z|)) / beta."""

    bends = (1,)

    def __init__(self, activation: Activation) -> None:
        (self.beta,) = activation.parameters
        self.reach = 64 / self.beta

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        distance = np.minimum(self.beta * np.abs(z), 1000.0)
        beyond = np.log1p(np.exp(-distance)) / self.beta
        value = np.maximum(z, 0.0) + beyond
        low, high = enclosed(value, beyond * (64 + 4 * distance) * U + 4 * U * value)
        return np.maximum(low, np.maximum(z, 0.0)), high

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose the sigmoid of beta z."""
        scaled = np.clip(self.beta * z, -1000.0, 1000.0)
        slope = logistic(scaled)
        return enclosed(slope, (64 + 4 * np.abs(scaled)) * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the value and of 1 / beta, and what is left out far from zero; inf if exp overflows."""
        size, right = np.maximum(np.abs(low), np.abs(high)), np.maximum(high, 0.0)
        bound = 16 * kind.u * (right + 1 / self.beta) + np.where(self.beta * high > 19, _CUT_OFF / self.beta, 0.0)
        if kind.u == U:
            bound = np.where(self.beta * high > _EXPONENT, np.inf, bound)
        return unless_large(bound + 4 * kind.tiny, size * max(1.0, self.beta), kind.largest)
