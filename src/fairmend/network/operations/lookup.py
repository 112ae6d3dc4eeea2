"""A table look-up (embedding): the row of a table that a column names by its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources


@dataclass(frozen=True, eq=False)
class Lookup:
    """Row k of ``table (rows, width)`` where the source, a single column, holds the whole number k.

    A table that is not ``stored``, that of a one-hot code, cannot change: no file has a place for it.
    """

    table: FloatArray
    stored: bool = True
    kind = "lookup"

    def __post_init__(self) -> None:
        """Copy the table, so that no view of it can change the operation."""
        table = np.array(self.table, order="C")
        if table.ndim != 2 or 0 in table.shape:
            raise FairmendError(f"the table of a look-up has shape {table.shape}; it must be (rows, width)")
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit."""
        if not isinstance(other, Lookup):
            return NotImplemented
        same = self.table.shape == other.table.shape and self.table.dtype == other.table.dtype
        return same and self.table.tobytes() == other.table.tobytes()

    def __hash__(self) -> int:
        """Hash the bits that `__eq__` compares."""
        return hash((self.table.shape, self.table.tobytes()))

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of the table."""
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != 1:
            raise FairmendError(f"a look-up reads 1 column, not {widths[0]}")
        return int(self.table.shape[1])

    def indices(self, values: FloatArray) -> npt.NDArray[np.int64]:
        """Return the row numbers in values ``(rows, 1)``; refuse what is not a row of the table."""
        column = values[:, 0]
        index = column.astype(np.int64)
        wrong = np.flatnonzero((index != column) | (index < 0) | (index >= len(self.table)))
        if len(wrong):
            row = wrong[0]
            raise FairmendError(
                f"row {row} holds {column[row]:g} where the network looks up a table of {len(self.table)} rows; "
                f"it must be a whole number from 0 to {len(self.table) - 1}"
            )
        return index

    def hull(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and largest numbers of the rows from lower to upper, ``(pieces,)``: each (pieces, width).

        Where every piece has one row, both are the same array.
        """
        last = len(self.table) - 1
        first = np.clip(np.floor(lower), 0, last).astype(np.int64)
        until = np.clip(np.ceil(upper), 0, last).astype(np.int64)
        if (first == until).all():
            rows = self.table[first]
            return rows, rows
        ranges, inverse = np.unique(np.stack([first, until]), axis=1, return_inverse=True)
        parts = [self.table[start : stop + 1] for start, stop in ranges.T.tolist()]
        low, high = (np.stack([end(part, axis=0) for part in parts]) for end in (np.min, np.max))
        return low[inverse.reshape(-1)], high[inverse.reshape(-1)]

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Copy the rows."""
        np.take(self.table, self.indices(values[0]), axis=0, out=out, mode="clip")

    def astype(self, dtype: npt.DTypeLike) -> Lookup:
        """Return the look-up with its table in another dtype."""
        with np.errstate(over="ignore"):
            return self if self.table.dtype == dtype else Lookup(self.table.astype(dtype), self.stored)
