"""Hard sigmoid: clip(slope·z + offset, 0, 1). PyTorch and Keras 3 have (1/6, 1/2), ONNX (0.2, 0.5) by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST
from fairmend.network.functions.clipped import Clipped

if TYPE_CHECKING:
    from torch import Tensor


class Hardsigmoid(Clipped):
    """clip(slope·z + offset, 0, 1)."""

    PARAMETERS = ("slope", "offset")
    DEFAULTS = (1 / 6, 0.5)

    def __init__(self, slope: float, offset: float) -> None:
        if not (1 / MOST <= slope <= MOST and abs(offset) <= MOST):
            raise FairmendError(
                f"hardsigmoid({slope:g}, {offset:g}): the slope must lie between {1 / MOST:.0e} and {MOST:.0e}, "
                f"and the offset must be no larger"
            )
        super().__init__(slope, offset, 0.0, 1.0)

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their hard sigmoid."""
        kind = values.dtype.type
        values *= kind(self.gain)
        values += kind(self.offset)
        np.clip(values, kind(0), kind(1), out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return the hard sigmoid of z."""
        return (self.gain * z + self.offset).clamp(0, 1)
