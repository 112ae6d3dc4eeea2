"""The sum of two or more nodes: skip connections, and the branches of wide and deep networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources


@dataclass(frozen=True)
class Sum:
    """v₁ + v₂ + …, all of one width, added in this order."""

    kind = "sum"

    def width(self, widths: Sequence[int]) -> int:
        """Return the width that all sources have."""
        require_sources(self.kind, widths, 2)
        if len(set(widths)) > 1:
            raise FairmendError(f"a sum of {', '.join(map(str, widths))} numbers: its sources must have one width")
        return widths[0]

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Add the values."""
        np.add(values[0], values[1], out=out)
        for more in values[2:]:
            out += more

    def astype(self, dtype: npt.DTypeLike) -> Sum:
        """Return the sum itself."""
        np.dtype(dtype)
        return self
