"""Two or more nodes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.network.operations.base import require_sources


@dataclass(frozen=True)
class Concatenate:
    """The columns of the first source, then those of the second, and so on."""

    kind = "concatenate"

    def width(self, widths: Sequence[int]) -> int:
        """Return the sum of the widths."""
        require_sources(self.kind, widths, 1)
        return sum(widths)

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Copy the values."""
        np.concatenate(values, axis=1, out=out)

    def astype(self, dtype: npt.DTypeLike) -> Concatenate:
        """Return the concatenation itself."""
        np.dtype(dtype)
        return self
