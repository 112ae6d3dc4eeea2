"""Features and labels in a data frame: read the user's values, and report the rows that do not fit the spec."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fairmend.errors import FairmendError
from fairmend.spec.features import Feature, Label
from fairmend.text import as_text, shown, suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Problem",
    "RowNumber",
    "RowsError",
    "find_classes",
    "find_problems",
    "find_rows_out_of_range",
    "is_frame",
    "raise_for_rows",
    "read_classes",
    "read_labels",
    "read_targets",
    "read_values",
]

RowNumber: TypeAlias = "int | NDArray[np.int64]"
"""What error messages call the first row, from which they count, or each row (rows,)."""

_Count: TypeAlias = "Callable[[pd.DataFrame], int]"


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Return whether X is a data frame, without importing pandas: before that import there are none."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


@dataclass(frozen=True)
class Problem:
    """The numbers of the rows that do not fit the spec for one reason, and what is wrong with the first of them."""

    feature: str
    rows: NDArray[np.int64]
    message: str


@dataclass(frozen=True)
class _Check:
    """The rows that fail, what is wrong with a given row, and whether its value is out of the range of the feature."""

    bad: NDArray[np.bool_]
    problem: Callable[[int], str]
    out_of_range: bool = False


class RowsError(FairmendError):
    """Rows with one problem, in a part of a table: `counted` tells how many there are in all of it."""

    def __init__(self, message: str, bad: int, rows: int, count_in: _Count | None, row: int) -> None:
        """Keep the number of the first such row, and the function that counts them in another part, if there is one."""
        self._message, self._count_in, self.row = message, count_in, row
        more = f" {bad:,} of the {rows:,} rows checked have this problem." if bad > 1 else ""
        super().__init__(f"{message}{more}")

    def counted(self, parts: Iterable[pd.DataFrame]) -> FairmendError:
        """Return the error with the number of such rows in all parts of the table."""
        if self._count_in is None:
            return self
        found = [(self._count_in(part), len(part)) for part in parts]
        bad, rows = (sum(counts) for counts in zip(*found, strict=True))
        return FairmendError(
            f"{self._message} {bad:,} of all {rows:,} rows have this problem." if bad > 1 else str(self)
        )


def read_values(feature: Feature, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.float64]:
    """Return the values, or category codes, of a feature in the user's data (rows,); raise an error for a wrong one."""
    values, checks = _values_and_checks(feature, frame)
    for place, check in enumerate(checks):
        _raise_for_check(feature, place, check, first_row)
    return values


def _raise_for_check(feature: Feature, place: int, check: _Check, first_row: RowNumber) -> None:
    """Raise an error for the first row that fails; `place` is that of the check among those of the feature."""

    def count_in(frame: pd.DataFrame) -> int:
        return int(_values_and_checks(feature, frame)[1][place].bad.sum())

    raise_for_rows(f'feature "{feature.name}"', check.bad, check.problem, first_row, count_in)


def find_rows_out_of_range(
    feature: Feature, frame: pd.DataFrame, first_row: RowNumber = 0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values or codes of a feature (rows,), and which are out of its range, or no category of it (rows,).

    A value that is wrong in another way raises an error, as in `read_values`.
    """
    values, checks = _values_and_checks(feature, frame)
    outside = np.zeros(len(values), dtype=bool)
    for place, check in enumerate(checks):
        if check.out_of_range:
            outside |= check.bad
        else:
            _raise_for_check(feature, place, check, first_row)
    return values, outside


def find_problems(feature: Feature, frame: pd.DataFrame) -> list[Problem]:
    """Return every problem for which `read_values` would raise an error."""
    try:
        _, checks = _values_and_checks(feature, frame)
    except FairmendError as error:  # the column does not exist
        return [Problem(feature.name, np.zeros(0, np.int64), str(error))]
    found = [(np.flatnonzero(check.bad), check.problem) for check in checks]
    return [Problem(feature.name, rows, problem(int(rows[0]))) for rows, problem in found if rows.size]


def _values_and_checks(feature: Feature, frame: pd.DataFrame) -> tuple[NDArray[np.float64], list[_Check]]:
    if feature.indicates is not None and feature.name not in frame.columns:
        marked = _column(frame, feature.indicates, f'feature "{feature.name}"')
        return np.asarray(marked.isna(), dtype=np.float64), []
    series = _column(frame, feature.name, f'feature "{feature.name}"')
    return _codes(feature, series) if feature.categories else _numbers(feature, series)


def read_labels(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.int8]:
    """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
    import pandas as pd

    codes, uniques = pd.factorize(_column(frame, label.column, "the label"))
    raise_for_rows("label", codes < 0, lambda row: "the value is missing. Fill it in, or remove the row.", first_row)
    positive = np.array([as_text(value) == label.positive for value in uniques], dtype=np.int8)
    return positive[codes]


def find_classes(label: Label, series: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the number of the class of each value (rows,), its place in the classes of the label; -1 for others."""
    import pandas as pd

    codes, uniques = pd.factorize(series)
    place = {name: number for number, name in enumerate(label.classes)}
    # A missing value has the code -1, which picks the last entry.
    return np.array([*(place.get(as_text(value), -1) for value in uniques), -1], dtype=np.int64)[codes]


def read_classes(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.int64]:
    """Return the number of the class of each row (rows,): its place in the classes of the label."""
    series = _column(frame, label.column, "the label")
    missing = series.isna().to_numpy(bool)
    raise_for_rows("label", missing, lambda row: "the value is missing. Fill it in, or remove the row.", first_row)
    numbers = find_classes(label, series)

    def unknown(row: int) -> str:
        found = as_text(series.iloc[row])
        return f'"{shown(found)}" is not one of its classes{suggest(found, label.classes)}. Correct it, or `classes`.'

    raise_for_rows("label", numbers < 0, unknown, first_row)
    return numbers


def read_targets(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.float64]:
    """Return the number to predict in each row (rows,)."""
    import pandas as pd

    series = _column(frame, label.column, "the label")
    raise_for_rows(
        "label",
        series.isna().to_numpy(bool),
        lambda row: "the value is missing. Fill it in, or remove the row.",
        first_row,
    )
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    raise_for_rows(
        "label",
        ~np.isfinite(values),
        lambda row: f'"{shown(series.iloc[row])}" is not a finite number. Correct it, or set `positive` in [label].',
        first_row,
    )
    return values


def _column(frame: pd.DataFrame, name: str, what: str) -> pd.Series[Any]:
    """Return the column with this name; raise an error if there is none, or more than one."""
    if name not in frame.columns:
        hint = suggest(name, map(str, frame.columns))
        raise FairmendError(f'the data has no column "{name}" for {what}{hint}. Add it, or rename a column.')
    column = frame[name]
    if is_frame(column):
        raise FairmendError(f'the data has {column.shape[1]} columns "{name}" for {what}. Keep one.')
    return column


def _numbers(feature: Feature, series: pd.Series[Any]) -> tuple[NDArray[np.float64], list[_Check]]:
    """Return a column of the user's data as numbers (rows,), and the checks it must pass, in order."""

    lo, hi = feature.bounds
    missing, values = _missing_and_numbers(series)
    checks: list[_Check] = [] if feature.missing is not None else [_Check(missing, _missing)]
    values = values if feature.missing is None else np.where(missing, feature.missing, values).astype(np.float64)
    nan = np.isnan(values)
    checks.append(
        _Check(
            nan & ~missing, lambda row: f'"{shown(series.iloc[row])}" is not a number. Correct it, or remove the row.'
        )
    )
    if series.dtype == np.float32:  # 0.1 in float32 lies above 0.1
        nearest = np.clip(values, lo, hi)
        values = np.where(np.abs(values - nearest) <= feature.slack(nearest), nearest, values)
    checks.append(
        _Check(
            (values < lo) | (values > hi),
            lambda row: (
                f"{values[row]:.10g} is {'below' if values[row] < lo else 'above'} the range {feature.extent}. "
                "Correct the value, widen `range` in the spec, or pass --out-of-range clip, skip or widen (in Python: "
                "spec.bring_into_range)."
            ),
            out_of_range=True,
        )
    )
    if feature.kind == "integer":
        checks.append(
            _Check(
                (values != np.rint(values)) & ~nan,
                lambda row: f'{values[row]:.10g} is not a whole number. Correct it, or set kind = "continuous".',
            )
        )
    return values, checks


def _missing_and_numbers(series: pd.Series[Any]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which values of a column are missing (rows,), and the column as numbers (rows,), NaN for what is none."""
    import pandas as pd

    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        numbers = series.to_numpy(np.float64)
        return np.isnan(numbers), numbers
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    numbers = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return series.isna().to_numpy(bool), numbers


def _factorized(series: pd.Series[Any]) -> tuple[NDArray[np.integer[Any]], Iterable[object]]:
    """Return the number of each value (rows,), -1 if it is missing, and the different values by number."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):  # as a column with a dictionary is read
        return series.cat.codes.to_numpy(), series.cat.categories
    return pd.factorize(series)


def _missing(row: int) -> str:
    return "the value is missing. Fill it in, remove the row, or set `missing = ...` in the spec to replace it."


def _codes(feature: Feature, series: pd.Series[Any]) -> tuple[NDArray[np.float64], list[_Check]]:
    """Return a column of the user's data as category codes (rows,), and the checks it must pass, in order."""

    categories = feature.categories or ()
    found, uniques = _factorized(series)
    known = {category: code for code, category in enumerate(categories)}
    missing = found < 0
    # factorize gives a missing value the number -1, which picks the last entry: the code that replaces it.
    of_missing = known.get(str(feature.missing), -1)
    codes = np.array([*(known.get(as_text(value), -1) for value in uniques), of_missing], dtype=np.float64)[found]

    def unknown(row: int) -> str:
        hint = suggest(as_text(series.iloc[row]), categories)
        return (
            f'"{shown(series.iloc[row])}" is not one of its categories{hint}. '
            "Correct it, add it to `categories` in the spec, or pass --out-of-range skip."
        )

    checks: list[_Check] = [] if feature.missing is not None else [_Check(missing, _missing)]
    return codes, [*checks, _Check((codes < 0) & ~missing, unknown, out_of_range=True)]


def raise_for_rows(
    where: str,
    bad: NDArray[np.bool_],
    problem: Callable[[int], str],
    first_row: RowNumber = 0,
    count_in: _Count | None = None,
) -> None:
    """Raise an error for the first bad row, if there is one; rows are counted from ``first_row``, or named by it.

    ``count_in`` counts the rows with this problem in another part of the same table.
    """
    rows = np.flatnonzero(bad)
    if rows.size:
        number = first_row + rows[0] if isinstance(first_row, int) else first_row[rows[0]]
        message = f"{where}, row {number}: {problem(int(rows[0]))}"
        raise RowsError(message, rows.size, len(bad), count_in, int(number))
