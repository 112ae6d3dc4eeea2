"""Clip: min(max(z, low), high). ReLU6 is clip(0, 6), Hardtanh is clip(-1, 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.functions.clipped import Clipped

if TYPE_CHECKING:
    from torch import Tensor


class Clip(Clipped):
    """min(max(z, low), high); one of the two may be infinite, which a network turns into its largest number."""

    PARAMETERS = ("low", "high")

    def __init__(self, low: float, high: float) -> None:
        if not low < high or (np.isinf(low) and np.isinf(high)):
            raise FairmendError(f"clip({low:g}, {high:g}): the first number must be below the second, and one finite")
        super().__init__(1.0, 0.0, low, high)

    def apply(self, values: FloatArray) -> None:
        """Replace what lies outside by the ends."""
        kind = values.dtype.type
        np.clip(values, kind(self.low), kind(self.high), out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return the clip of z."""
        return z.clamp(self.low, self.high)
