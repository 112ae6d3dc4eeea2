"""The encoded columns of one feature: encode values, decode columns, and check columns that are already encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.spec.features import Feature
from fairmend.spec.read_values import RowNumber, raise_for_rows


def encode_values(feature: Feature, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the encoded columns (rows, columns of the feature) of values or codes (rows,)."""
    if feature.one_hot:
        return feature.one_hot_columns(values.astype(np.int64), np.float64)
    return feature.scaled(values)[:, None]


def decode_columns(feature: Feature, x: FloatArray) -> NDArray[Any]:
    """Return the user's values (rows,) nearest to encoded columns x (rows, columns of the feature)."""
    if feature.kind == "continuous":
        return feature.nearest(x[:, 0])
    values = feature.category_of(x) if feature.one_hot else feature.nearest(x[:, 0]).astype(np.int64)
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
    if feature.kind == "continuous" and len(x) and not _is_off(feature, np.array([column.min(), column.max()])).any():
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
