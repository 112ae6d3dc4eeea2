"""Encode a data frame: read all features, then write their columns into one matrix, block of rows by block of rows.

A block is small enough to stay in the processor's cache until every feature is written. Categories are encoded in the
dictionary of their different values, and rows pick from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.spec.encoding import require_float_type
from fairmend.spec.features import Feature
from fairmend.spec.read_values import ColumnValues, RowNumber, read_column

if TYPE_CHECKING:
    import pandas as pd


_BLOCK = 1 << 20  # bytes of the matrix that are written at a time: measured, as the cache of one core holds it
_FEWEST = 256  # rows of a block, however wide they are


def encode_frame(
    placed: Iterable[tuple[Feature, slice]], width: int, frame: pd.DataFrame, dtype: DTypeLike, first_row: RowNumber = 0
) -> FloatArray:
    """Return a data frame as the network reads it (rows, width); `placed` are all features with their columns."""
    X = np.empty((len(frame), width), dtype=require_float_type(dtype))
    writers = [_writer(f, where.start, read_column(f, frame, first_row), X.dtype) for f, where in placed]
    size = max(_FEWEST, _BLOCK // (width * X.itemsize))
    starts = np.arange(0, min(size, len(X)) * width, width)  # of the rows of a block
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        block = X[rows]
        block[...] = 0
        for writer in writers:
            writer.write(block, rows, starts[: len(block)])
    return X


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Writes numbers (rows,) into a column."""

    feature: Feature
    column: int
    values: NDArray[Any]

    def write(self, block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
        block[:, self.column] = self.feature.scaled(self.values[rows].astype(np.float64, copy=False))


@dataclass(frozen=True, eq=False)
class _Ordinal:
    """Writes the encoding (entries,) of the entry of each row (rows,) into a column."""

    column: int
    entries: NDArray[Any]
    encoded: FloatArray

    def write(self, block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
        block[:, self.column] = self.encoded.take(self.entries[rows])


@dataclass(frozen=True, eq=False)
class _OneHot:
    """Writes marks (entries,), all 1 by default, into columns (entries,): those of the entry of each row (rows,)."""

    entries: NDArray[Any]
    columns: NDArray[np.int64]
    marks: NDArray[np.int8] | None

    def write(self, block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
        entries = self.entries[rows]
        places = self.columns.take(entries)
        places += starts
        block.reshape(-1)[places] = 1 if self.marks is None else self.marks.take(entries)


_Writer: TypeAlias = _Numbers | _Ordinal | _OneHot


def _writer(feature: Feature, first: int, values: ColumnValues, dtype: np.dtype[Any]) -> _Writer:
    """Return what writes the values of a feature; its columns start with the first one."""
    if values.codes is None:
        return _Numbers(feature, first, values.numbers)
    if not feature.one_hot:
        return _Ordinal(first, values.numbers, feature.scaled(values.codes.astype(np.float64)).astype(dtype))
    columns, marks = feature.one_hot_marks
    chosen = None if feature.dropped is None else marks[values.codes]
    return _OneHot(values.numbers, first + columns[values.codes], chosen)
