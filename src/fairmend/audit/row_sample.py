"""A seeded random sample of the rows of a stream: all rows if they fit, otherwise each with the same probability.

Each row draws a number, and the rows with the lowest numbers are kept. So the sample depends neither on the order of
the rows nor on how the stream is cut into pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Floats, Ints

__all__ = ["RowSample"]

Columns = Mapping[str, npt.NDArray[Any]]

_ROWS = "row"


class RowSample:
    """Collects columns of the sampled rows; the column "row" is their number in the stream."""

    def __init__(self, most: int, seed: int) -> None:
        """Start without rows; at most `most` are kept."""
        self._most = most
        self._rng = np.random.default_rng([seed, 1])  # not the stream that draws neighbours or inputs
        self._numbers: list[Floats] = []
        self._columns: dict[str, list[npt.NDArray[Any]]] = {}
        self._kept, self._limit = 0, np.inf
        self.seen = 0

    def add(self, columns: Columns) -> None:
        """Add the next rows, by their columns (k, ...), which are copied."""
        count = len(next(iter(columns.values())))
        numbers = self._rng.random(count)
        given = {_ROWS: np.arange(self.seen, self.seen + count, dtype=np.int64), **columns}
        self.seen += count
        chosen = np.flatnonzero(numbers < self._limit)
        self._numbers.append(numbers[chosen])
        for name, values in given.items():
            self._columns.setdefault(name, []).append(values[chosen])
        self._kept += len(chosen)
        if self._kept > 2 * self._most:
            self._shrink()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the sample, in the order of the stream; read it after the last `add`."""
        self._shrink()
        return {name: parts[0] for name, parts in self._columns.items()}

    def _shrink(self) -> None:
        """Join the parts, and keep the rows with the lowest numbers."""
        numbers = np.concatenate(self._numbers)
        kept: slice | Ints = slice(None)
        if len(numbers) > self._most:
            kept = np.sort(np.argpartition(numbers, self._most)[: self._most])
            self._limit = float(numbers[kept].max())
        self._numbers = [numbers[kept]]
        self._kept = len(self._numbers[0])
        self._columns = {name: [np.concatenate(parts)[kept]] for name, parts in self._columns.items()}
