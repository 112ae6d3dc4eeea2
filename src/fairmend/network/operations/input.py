"""The input of a network: one row of numbers, in the order of the columns of X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources


@dataclass(frozen=True)
class Input:
    """The first node of every network. A model with several inputs has them one after the other in this row.

    ``names`` are the names of these inputs and how many columns each has; empty for a model with one input.
    """

    columns: int
    names: tuple[tuple[str, int], ...] = ()
    kind = "input"

    def __post_init__(self) -> None:
        """Check the number of columns."""
        if self.columns < 1:
            raise FairmendError("a network needs at least one input column")
        if self.names and sum(width for _, width in self.names) != self.columns:
            raise FairmendError(f"the inputs {dict(self.names)} do not have {self.columns} columns together")

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of columns."""
        require_sources(self.kind, widths, 0, 0)
        return self.columns

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Do nothing: the row is given."""
        raise NotImplementedError("the input is given, not computed")

    def astype(self, dtype: npt.DTypeLike) -> Input:
        """Return the input itself."""
        np.dtype(dtype)
        return self
