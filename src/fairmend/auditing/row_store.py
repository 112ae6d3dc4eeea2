"""Numbers of every row, in memory as long as they are few, and in a temporary file beyond that."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import IO, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import writing_temporary

_MEMORY = 1 << 22  # bytes that a store keeps in memory


class RowStore:
    """Collects the parts of one long array: (rows,) or (rows, columns)."""

    def __init__(self) -> None:
        """Start without rows."""
        self._parts: list[npt.NDArray[Any]] = []
        self._waiting = self._rows = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    def add(self, part: npt.NDArray[Any]) -> None:
        """Add the next rows, which the caller no longer changes; all parts have one type."""
        if self._parts and part.dtype != self._parts[0].dtype:
            raise TypeError(f"rows of {part.dtype} follow rows of {self._parts[0].dtype}")
        self._parts.append(part)
        self._waiting += part.nbytes
        self._rows += len(part)
        if self._waiting > _MEMORY:
            self._write()

    def merge(self, other: RowStore) -> None:
        """Add the rows of another store."""
        if len(other):
            self.add(other.array())

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows as one array: a store that is sent to another process leaves its file behind."""
        parts = [self.array()] if len(self) else []
        return {"_parts": parts, "_waiting": sum(part.nbytes for part in parts), "_rows": self._rows, "_file": None}

    def array(self) -> npt.NDArray[Any]:
        """Return all rows; an array that was written to a file is read from there, and is not to be changed."""
        if self._file is None:
            return np.concatenate(self._parts)
        self._write()
        last = self._parts[0]
        shape = (self._rows, *last.shape[1:])
        return np.asarray(np.memmap(self._file, last.dtype, mode="r", shape=shape))

    def _write(self) -> None:
        """Move the parts to the file, but for an empty one that keeps their type."""
        with writing_temporary():
            if self._file is None:
                self._file = TemporaryFile(prefix="fairmend-")  # noqa: SIM115 - closed with the store
                finalize(self, self._file.close)  # the system deletes it with the last array that reads it
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._file.flush()
        self._parts, self._waiting = [self._parts[0][:0].copy()], 0
