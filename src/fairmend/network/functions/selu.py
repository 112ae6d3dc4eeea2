"""SELU: ELU with the constants of Klambauer et al. (2017), scaled."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.network.functions.base import Precision, size_of, unless_overflow
from fairmend.network.functions.elu import Elu

_SCALE = 1.0507009873554804934193349852946
_ALPHA = 1.6732632423543772848170429916717
_FLOAT32 = 2.0**-23  # ONNX stores both constants in float32, whatever the precision of the network


class Selu(Elu):
    """scale·z on positive numbers, scale·alpha·(exp(z) - 1) on negative ones; both constants are rounded."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    gain = _SCALE

    def __init__(self) -> None:
        self._set(_SCALE * _ALPHA)

    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return 16 units of z above 0 and 32 units of 1 below it (4.4 were seen), and the rounding of constants."""
        above = (16 * precision.unit + _FLOAT32) * np.maximum(most, 0.0)
        below = np.where(least < 0, 32 * precision.unit + _FLOAT32, 0.0)
        return unless_overflow(above + below + 4 * precision.tiny, size_of(least, most), precision)
