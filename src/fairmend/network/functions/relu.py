"""ReLU: max(z, 0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.network.functions.base import Lines
from fairmend.network.functions.kinked import Kinked, relax_relu

if TYPE_CHECKING:
    from torch import Tensor


_LONG = 4_096  # values that are compared at a time


class Relu(Kinked):
    """max(z, 0)."""

    negative = 0.0

    def apply(self, values: FloatArray) -> None:
        """Replace negative values by 0."""
        if values.size < _LONG or not values.flags.c_contiguous:
            np.maximum(values, 0, out=values)
            return
        # NumPy compares an array with an array four times as fast as with a number.
        flat = values.reshape(-1)
        lines = flat[: flat.size // _LONG * _LONG].reshape(-1, _LONG)
        np.maximum(lines, np.zeros(_LONG, values.dtype), out=lines)
        rest = flat[lines.size :]
        np.maximum(rest, 0, out=rest)

    def torch(self, z: Tensor) -> Tensor:
        """Return max(z, 0)."""
        return z.relu()

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of CROWN (Zhang et al., 2018)."""
        return relax_relu(lower, upper)
