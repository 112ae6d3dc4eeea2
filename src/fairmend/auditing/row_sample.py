"""A seeded random sample of the rows of a stream: all rows if they fit, otherwise each with the same probability.

Each row draws a number, and the rows with the lowest numbers are kept. So the sample depends neither on the order of
the rows nor on how the stream is cut into pieces. The numbers are those of one sequence, which a part of the stream
enters at its first row: samples of parts, merged, are the sample of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats, Ints

Columns = Mapping[str, npt.NDArray[Any]]

_ROWS = "row"


class RowSample:
    """Collects columns of the sampled rows; the column "row" is their number in the stream."""

    def __init__(self, most: int, seed: int, first: int = 0, limit: float = float("inf")) -> None:
        """Start without rows; at most `most` are kept, and `first` rows come before in the sequence of numbers.

        Rows with numbers from `limit` on are left out: those of a sample that this one will be merged into.
        """
        self._most = most
        # Not the stream that draws neighbours or inputs. Each row takes one step of the generator.
        self._rng = np.random.Generator(np.random.PCG64([seed, 1]).advance(first))
        self._numbers: list[Floats] = []
        self._columns: dict[str, list[npt.NDArray[Any]]] = {}
        self._kept, self.limit = 0, limit
        self.seen = 0

    def add(self, columns: Columns) -> None:
        """Add the next rows, by their columns (k, ...), which are copied."""
        count = len(next(iter(columns.values())))
        rows = np.arange(count, dtype=np.int64)
        self._take({_ROWS: rows, **columns}, self._rng.random(count))
        self.seen += count

    def merge(self, other: RowSample) -> None:
        """Add the sample of the rows that follow; it is emptied."""
        if other.seen:
            other.shrink()
            self._take({name: parts[0] for name, parts in other._columns.items()}, other._numbers[0])
            self.seen += other.seen

    def _take(self, columns: Columns, numbers: Floats) -> None:
        """Take in rows whose column "row" counts from the rows seen so far."""
        chosen = np.flatnonzero(numbers < self.limit)
        self._numbers.append(numbers[chosen])
        for name, values in columns.items():
            part = values[chosen]
            self._columns.setdefault(name, []).append(part + self.seen if name == _ROWS else part)
        self._kept += len(chosen)
        if self._kept > 2 * self._most:
            self.shrink()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the sample, in the order of the stream; read it after the last `add`."""
        self.shrink()
        return {name: parts[0] for name, parts in self._columns.items()}

    def shrink(self) -> None:
        """Join the parts, and keep the rows with the lowest numbers."""
        if not self._numbers:
            return
        numbers = np.concatenate(self._numbers)
        kept: slice | Ints = slice(None)
        if len(numbers) > self._most:
            kept = np.sort(np.argpartition(numbers, self._most)[: self._most])
            self.limit = float(numbers[kept].max())
        self._numbers = [numbers[kept]]
        self._kept = len(self._numbers[0])
        self._columns = {name: [np.concatenate(parts)[kept]] for name, parts in self._columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the generator and the rows that are not in the sample: it is finished when it is sent elsewhere."""
        self.shrink()
        return {name: value for name, value in self.__dict__.items() if name != "_rng"}
