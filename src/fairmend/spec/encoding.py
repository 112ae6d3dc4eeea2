"""One feature and its columns: the user's values encoded, encoded columns decoded or checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.spec.features import Feature, Label, extent
from fairmend.text import as_text, shown, suggest

if TYPE_CHECKING:
    import pandas as pd

# The user's data


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Return whether X is a data frame; there is none before pandas is imported, so it is not imported to tell."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


@dataclass(frozen=True)
class Problem:
    """Rows of the user's data (their numbers) that do not fit the spec, and what is wrong with the first of them."""

    feature: str
    rows: NDArray[np.int64]
    words: str


_Check = tuple[NDArray[np.bool_], Callable[[int], str]]  # the rows that fail it, and what is wrong with one of them


def values_of(feature: Feature, frame: pd.DataFrame, first_row: int = 0) -> NDArray[np.float64]:
    """Return the values, or category codes, of a feature in the user's data (rows,)."""
    values, checks = _checked_values(feature, frame)
    for bad, problem in checks:
        refuse(f'feature "{feature.name}"', bad, problem, first_row)
    return values


def problems_of(feature: Feature, frame: pd.DataFrame) -> list[Problem]:
    """Return everything that `values_of` would refuse."""
    try:
        _, checks = _checked_values(feature, frame)
    except FairmendError as error:  # there is no such column
        return [Problem(feature.name, np.zeros(0, np.int64), str(error))]
    found = [(np.flatnonzero(bad), problem) for bad, problem in checks]
    return [Problem(feature.name, rows, problem(int(rows[0]))) for rows, problem in found if rows.size]


def _checked_values(feature: Feature, frame: pd.DataFrame) -> tuple[NDArray[np.float64], list[_Check]]:
    series = _column(frame, feature.name, f'feature "{feature.name}"')
    return _codes(feature, series) if feature.categories else _numbers(feature, series)


def positives(label: Label, frame: pd.DataFrame, first_row: int = 0) -> NDArray[np.int8]:
    """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
    import pandas as pd

    codes, uniques = pd.factorize(_column(frame, label.column, "the label"))
    refuse("label", codes < 0, lambda row: "the value is missing; fill it in or drop the row", first_row)
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


def _numbers(feature: Feature, series: pd.Series[Any]) -> tuple[NDArray[np.float64], list[_Check]]:
    """Return a column of the user's data as numbers (rows,), and what must hold of them in this order."""
    import pandas as pd

    lo, hi = feature.bounds
    missing = series.isna().to_numpy(bool)
    checks: list[_Check] = [] if feature.missing is not None else [(missing, _missing)]
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    values = values if feature.missing is None else np.where(missing, feature.missing, values).astype(np.float64)
    nan = np.isnan(values)
    checks.append(
        (nan & ~missing, lambda row: f'"{shown(series.iloc[row])}" is not a number; correct it or drop the row')
    )
    if series.dtype == np.float32:  # 0.1 in float32 lies above 0.1
        nearest = np.clip(values, lo, hi)
        values = np.where(np.abs(values - nearest) <= feature.slack(nearest), nearest, values)
    checks.append(
        (
            (values < lo) | (values > hi),
            lambda row: f"{values[row]:.10g} is outside its range {extent(feature)}; correct it or widen `range`",
        )
    )
    if feature.kind == "integer":
        checks.append(
            (
                (values != np.rint(values)) & ~nan,
                lambda row: f'{values[row]:.10g} is not a whole number; correct it or declare kind = "continuous"',
            )
        )
    return values, checks


def _missing(row: int) -> str:
    return "the value is missing; fill it in, drop the row, or say in the spec what it stands for: missing = ..."


def _codes(feature: Feature, series: pd.Series[Any]) -> tuple[NDArray[np.float64], list[_Check]]:
    """Return a column of the user's data as category codes (rows,), and what must hold of it in this order."""
    import pandas as pd

    categories = feature.categories or ()
    found, uniques = pd.factorize(series)
    known = {category: code for code, category in enumerate(categories)}
    missing = found < 0
    # Nothing is found at -1, which is where the last entry lies: that of what is missing.
    of_missing = known.get(str(feature.missing), -1)
    codes = np.array([*(known.get(as_text(value), -1) for value in uniques), of_missing], dtype=np.float64)[found]

    def unknown(row: int) -> str:
        hint = suggest(as_text(series.iloc[row]), categories)
        return f'"{shown(series.iloc[row])}" is not one of its categories{hint}; correct it or add it to `categories`'

    checks: list[_Check] = [] if feature.missing is not None else [(missing, _missing)]
    return codes, [*checks, ((codes < 0) & ~missing, unknown)]


# Encoded columns


def encoded(feature: Feature, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the encoded columns (rows, columns of the feature) of values or codes (rows,)."""
    if feature.one_hot:
        return feature.corners[values.astype(np.int64)]
    return feature.scaled(values)[:, None]


def decoded(feature: Feature, x: FloatArray) -> NDArray[Any]:
    """Return the user's values (rows,) nearest to encoded columns x (rows, columns of the feature)."""
    if feature.kind == "continuous":
        return feature.nearest(x[:, 0])
    values = feature.category_of(x) if feature.one_hot else feature.nearest(x[:, 0]).astype(np.int64)
    return np.array(feature.categories, dtype=object)[values] if feature.categories else values


def check_encoded(feature: Feature, x: FloatArray, first_row: int = 0) -> None:
    """Refuse encoded columns x (rows, columns of the feature) that no value of the feature gives."""
    name = f'feature "{feature.name}"'
    if feature.one_hot:
        ones = (x == 1).sum(axis=1)
        good = ((x == 0) | (x == 1)).all(axis=1) & ((ones == 1) | ((ones == 0) & (feature.dropped is not None)))
        rule = "exactly one of them must be 1" if feature.dropped is None else "at most one of them may be 1, others 0"
        refuse(name, ~good, lambda row: f"its one-hot columns hold {x[row].tolist()}; {rule}", first_row)
        return
    values, nearest = feature.unscaled(x[:, 0]), feature.nearest(x[:, 0])
    off = np.abs(values - nearest) > feature.slack(nearest)
    lo, hi = feature.bounds

    def problem(row: int) -> str:
        value = f"{x[row, 0]:.10g}" + (f", which unscales to {values[row]:.10g}," if feature.scale else "")
        if lo <= values[row] <= hi:
            return f"{value} is not the encoding of a whole number; check the encoding and `scale`"
        return f"{value} is outside its range {lo:.10g} to {hi:.10g}; check the encoding, `scale` and `range`"

    refuse(name, off, problem, first_row)


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype, if it is one that networks are computed in."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise FairmendError(f"inputs are float32 or float64, not {np.dtype(dtype)}")
    return np.dtype(dtype)


def refuse(what: str, bad: NDArray[np.bool_], problem: Callable[[int], str], first_row: int = 0) -> None:
    """Raise an error for the first bad row, if there is one; rows are counted from ``first_row``."""
    rows = np.flatnonzero(bad)
    if rows.size:
        more = f" ({rows.size} such rows)" if rows.size > 1 else ""
        raise FairmendError(f"{what}, row {first_row + rows[0]}: {problem(int(rows[0]))}{more}")
