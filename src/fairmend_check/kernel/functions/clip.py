"""min(max(z, low), high): ReLU6, Hardtanh, clamp."""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve
from fairmend_check.kernel.rounding import Array, Precision


class Clip(Curve):
    """Straight between its ends, and constant outside."""

    bends = (0, 0, 0)

    def __init__(self, activation: Activation) -> None:
        self.low, self.high = activation.parameters
        self.breaks = tuple(Break(end, 0.0, (0.0, 1.0)) for end in activation.parameters)

    def values(self, z: Array) -> tuple[Array, Array]:
        """Return f(z), which is exact."""
        value = np.clip(z, self.low, self.high)
        return value, value

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Return 1 between the ends, else 0."""
        slope = np.where((z >= self.low) & (z <= self.high), 1.0, 0.0)
        return slope, slope

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Nothing is rounded; a subnormal result may be taken as 0."""
        return np.minimum(kind.tiny, np.maximum(high, -low))
