"""The encoded columns of features: encode values and data frames, decode columns, and check columns that are encoded.

A data frame is encoded block of rows by block of rows: a block is small enough to stay in the processor's cache until
every feature is written. Categories are encoded in the dictionary of their different values, and rows pick from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.spec.features import Feature
from fairmend.spec.read_values import ColumnValues, RowNumber, raise_for_rows, read_column

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
        for write in writers:
            write(block, rows, starts[: len(block)])
    return X


_Write: TypeAlias = Callable[[FloatArray, slice, NDArray[np.int64]], None]
"""Writes into a block (rows, width) what these rows of the data have; its rows start at these places of flat memory."""


def _writer(feature: Feature, first: int, values: ColumnValues, dtype: np.dtype[Any]) -> _Write:
    """Return what writes the values of a feature; its columns start with the first one."""
    numbers, codes = values.numbers, values.codes
    if codes is None:

        def write(block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
            block[:, first] = feature.scaled(numbers[rows].astype(np.float64, copy=False))

    elif not feature.one_hot:
        encoded = feature.scaled(codes.astype(np.float64)).astype(dtype)

        def write(block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
            block[:, first] = encoded.take(numbers[rows])

    else:
        columns, marks = (each[codes] for each in feature.one_hot_marks)
        columns += first

        def write(block: FloatArray, rows: slice, starts: NDArray[np.int64]) -> None:
            entries = numbers[rows]
            places = columns.take(entries)
            places += starts
            block.reshape(-1)[places] = 1 if feature.dropped is None else marks.take(entries)

    return write


def decode_columns(feature: Feature, x: FloatArray) -> NDArray[Any]:
    """Return the user's values (rows,) nearest to encoded columns x (rows, columns of the feature)."""
    if not feature.whole:
        return feature.nearest(x[:, 0])
    values = feature.decode(x).astype(np.int64)
    return np.array(feature.categories, dtype=object)[values] if feature.categories else values


def check_encoded(feature: Feature, x: FloatArray, first_row: RowNumber = 0) -> None:
    """Raise an error for encoded columns x (rows, columns of the feature) that no value of the feature has."""
    name = f'feature "{feature.name}"'
    if feature.one_hot:
        ones = (x == 1).sum(axis=1)
        good = ((x == 0) | (x == 1)).all(axis=1) & ((ones == 1) | ((ones == 0) & (feature.dropped is not None)))
        rule = "Exactly one must be 1." if feature.dropped is None else "At most one may be 1, the others must be 0."
        raise_for_rows(name, ~good, lambda row: f"its one-hot columns are {x[row].tolist()}. {rule}", first_row)
        return
    column = x[:, 0]
    # Between the ends of a continuous feature every value is possible, so its lowest and highest number tell.
    if not feature.whole and len(x) and not _is_off(feature, np.array([column.min(), column.max()])).any():
        return
    off, values = _is_off(feature, column), feature.unscaled(column)
    lo, hi = feature.bounds

    def problem(row: int) -> str:
        value = f"{x[row, 0]:.10g}" + (f", which is {values[row]:.10g} before scaling," if feature.scale else "")
        if lo <= values[row] <= hi:
            return f"{value} is not the encoding of a whole number. Check `encoding` and `scale` in the spec."
        side = "below" if values[row] < lo else "above"
        return f"{value} is {side} the range {lo:.10g} to {hi:.10g}. Check `range` and `scale` in the spec."

    raise_for_rows(name, off, problem, first_row)


def _is_off(feature: Feature, column: FloatArray) -> NDArray[np.bool_]:
    """Return which encoded numbers (rows,) are none of the feature's, whatever rounding moved them by."""
    nearest = feature.nearest(column)
    return np.asarray(np.abs(feature.unscaled(column) - nearest) > feature.slack(nearest))


def require_float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype if networks compute in it; raise an error otherwise."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise FairmendError(f"inputs must be float32 or float64, not {np.dtype(dtype)}")
    return np.dtype(dtype)
