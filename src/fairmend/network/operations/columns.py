"""A choice of columns of a node, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources


@dataclass(frozen=True)
class Columns:
    """The columns ``indices`` of its source; one may occur more than once."""

    indices: tuple[int, ...]
    kind = "columns"

    def width(self, widths: Sequence[int]) -> int:
        """Return how many columns are chosen."""
        require_sources(self.kind, widths, 1, 1)
        outside = [index for index in self.indices if not 0 <= index < widths[0]]
        if not self.indices or outside:
            raise FairmendError(f"columns {outside or 'none'} of a node that has {widths[0]}")
        return len(self.indices)

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Copy the columns."""
        np.take(values[0], self.indices, axis=1, out=out, mode="clip")

    def astype(self, dtype: npt.DTypeLike) -> Columns:
        """Return the choice itself."""
        np.dtype(dtype)
        return self
