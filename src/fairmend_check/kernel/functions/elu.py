"""ELU, CELU and SELU: exponential left of zero, straight right of it."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.rounding import Array, Precision, U

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


class Elu(Curve):
    """height (exp(z / length) - 1) for z < 0, else right z; elu(a), celu(a), or selu, whose two constants are fixed."""

    bends = (1, 0)

    def __init__(self, activation: Activation) -> None:
        self.selu = activation.name == "selu"
        alpha = _SELU_ALPHA if self.selu else activation.parameters[0]
        self.right = _SELU_SCALE if self.selu else 1.0
        self.height, self.length = self.right * alpha, alpha if activation.name == "celu" else 1.0
        left = self.height / self.length
        room = 1 + 8 * U
        self.breaks = (Break(0.0, 0.0, (min(left, self.right) / room, max(left, self.right) * room)),)
        self.reach = 64 * self.length

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z)."""
        value = np.where(z < 0, self.height * np.expm1(np.minimum(z, 0.0) / self.length), self.right * z)
        slip = np.where(z < 0, 64 * U, 0.0 if self.right == 1 else 4 * U) * np.abs(value)
        low, high = enclosed(value, slip)
        exact = (z >= 0) & (self.right == 1)
        return np.where(exact, value, low), np.where(exact, value, high)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose f'(z)."""
        share = np.minimum(z, 0.0) / self.length
        slope = np.where(z < 0, self.height / self.length * np.exp(share), self.right)
        return enclosed(slope, (64 + 4 * np.minimum(-share, 1000.0)) * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the height left of zero; frameworks have the constants of SELU in float32."""
        size, constant = np.maximum(np.abs(low), np.abs(high)), 2.0**-23
        if self.selu:
            left, right = 32 * kind.u + constant, 16 * kind.u + constant
        else:
            left, right = 16 * kind.u * self.height, 0.0
        bound = right * np.maximum(high, 0.0) + np.where(low < 0, left, 0.0) + 4 * kind.tiny
        return unless_large(bound, size, kind.largest)
