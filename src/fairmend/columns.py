"""One feature and its columns: the user's values encoded, encoded columns decoded or checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.errors import FairmendError
from fairmend.feature import Feature, FloatArray, Label, extent
from fairmend.words import as_text, shown, suggest

if TYPE_CHECKING:
    import pandas as pd

# The user's data


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Return whether X is a data frame; there is none before pandas is imported, so it is not imported to tell."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def values_of(feature: Feature, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the values, or category codes, of a feature in the user's data (rows,)."""
    series = _column(frame, feature.name, f'feature "{feature.name}"')
    return _codes(feature, series) if feature.categories else _numbers(feature, series)


def positives(label: Label, frame: pd.DataFrame) -> NDArray[np.int8]:
    """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
    import pandas as pd

    codes, uniques = pd.factorize(_column(frame, label.column, "the label"))
    refuse("label", codes < 0, lambda row: "the value is missing; fill it in or drop the row")
    positive = np.array([as_text(value) == label.positive for value in uniques], dtype=np.int8)
    return positive[codes]


def _column(frame: pd.DataFrame, name: str, what: str) -> pd.Series[Any]:
    """Return the one column of that name."""
    if name not in frame.columns:
        hint = suggest(name, map(str, frame.columns))
        raise FairmendError(f'the data has no column "{name}" for {what}{hint}; rename or add it')
    column = frame[name]
    if is_frame(column):
        raise FairmendError(f'the data has {column.shape[1]} columns "{name}" for {what}; keep one')
    return column


def _numbers(feature: Feature, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column of the user's data as numbers (rows,), all of them possible values."""
    import pandas as pd

    name, (lo, hi) = f'feature "{feature.name}"', feature.bounds
    refuse(name, series.isna().to_numpy(bool), lambda row: "the value is missing; fill it in or drop the row")
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    refuse(
        name,
        np.isnan(values),
        lambda row: f'"{shown(series.iloc[row])}" is not a number; correct it or drop the row',
    )
    if series.dtype == np.float32:  # 0.1 in float32 lies above 0.1
        nearest = np.clip(values, lo, hi)
        values = np.where(np.abs(values - nearest) <= feature.slack(nearest), nearest, values)
    refuse(
        name,
        (values < lo) | (values > hi),
        lambda row: f"{values[row]:.10g} is outside its range {extent(feature)}; correct it or widen `range`",
    )
    if feature.kind == "integer":
        refuse(
            name,
            values != np.rint(values),
            lambda row: f'{values[row]:.10g} is not a whole number; correct it or declare kind = "continuous"',
        )
    return values


def _codes(feature: Feature, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column of the user's data as category codes (rows,)."""
    import pandas as pd

    name, categories = f'feature "{feature.name}"', feature.categories or ()
    found, uniques = pd.factorize(series)
    refuse(name, found < 0, lambda row: "the value is missing; fill it in or drop the row")
    known = {category: code for code, category in enumerate(categories)}
    codes = np.array([known.get(as_text(value), -1) for value in uniques], dtype=np.float64)[found]
    refuse(
        name,
        codes < 0,
        lambda row: (
            f'"{shown(series.iloc[row])}" is not one of its categories'
            f"{suggest(as_text(series.iloc[row]), categories)}; correct it or add it to `categories`"
        ),
    )
    return codes


# Encoded columns


def encoded(feature: Feature, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the encoded columns (rows, columns of the feature) of values or codes (rows,)."""
    if feature.one_hot:
        return np.eye(feature.width)[values.astype(np.int64)]
    return feature.scaled(values)[:, None]


def decoded(feature: Feature, x: FloatArray) -> NDArray[Any]:
    """Return the user's values (rows,) nearest to encoded columns x (rows, columns of the feature)."""
    if feature.kind == "continuous":
        return feature.nearest(x[:, 0])
    values = x.argmax(axis=1) if feature.one_hot else feature.nearest(x[:, 0]).astype(np.int64)
    return np.array(feature.categories, dtype=object)[values] if feature.categories else values


def check_encoded(feature: Feature, x: FloatArray) -> None:
    """Refuse encoded columns x (rows, columns of the feature) that no value of the feature gives."""
    name = f'feature "{feature.name}"'
    if feature.one_hot:
        good = ((x == 0) | (x == 1)).all(axis=1) & ((x == 1).sum(axis=1) == 1)
        refuse(
            name,
            ~good,
            lambda row: f"its one-hot columns hold {x[row].tolist()}; exactly one of them must be 1",
        )
        return
    values, nearest = feature.unscaled(x[:, 0]), feature.nearest(x[:, 0])
    off = np.abs(values - nearest) > feature.slack(nearest)
    lo, hi = feature.bounds

    def problem(row: int) -> str:
        value = f"{x[row, 0]:.10g}" + (f", which unscales to {values[row]:.10g}," if feature.scale else "")
        if lo <= values[row] <= hi:
            return f"{value} is not the encoding of a whole number; check the encoding and `scale`"
        return f"{value} is outside its range {lo:.10g} to {hi:.10g}; check the encoding, `scale` and `range`"

    refuse(name, off, problem)


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype, if it is one that networks are computed in."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise FairmendError(f"inputs are float32 or float64, not {np.dtype(dtype)}")
    return np.dtype(dtype)


def refuse(what: str, bad: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
    """Raise for the first bad row, if there is one."""
    rows = np.flatnonzero(bad)
    if rows.size:
        more = f" ({rows.size} such rows)" if rows.size > 1 else ""
        raise FairmendError(f"{what}, row {rows[0]}: {problem(int(rows[0]))}{more}")
