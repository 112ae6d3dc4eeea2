"""Features and the label in a data frame: read the user's values, and report the rows that do not fit the spec.

Most columns fit. For numbers, their minimum and maximum show it, and for categories, the dictionary of their different
values. Only a column that may not fit is checked row by row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, shown, spreadsheet_text, suggest
from fairmend.spec.features import Feature
from fairmend.spec.label import Label

if TYPE_CHECKING:
    import pandas as pd


RANGE_HINT = (
    "Correct the value, widen `range` in the spec, or pass --out-of-range clip, skip or widen (in Python: "
    "spec.bring_into_range)."
)

RowNumber: TypeAlias = "int | NDArray[np.int64]"
"""What error messages call the first row, from which they count, or each row (rows,)."""

_Count: TypeAlias = "Callable[[pd.DataFrame], int]"


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Return whether X is a data frame, without importing pandas: before that import there are none."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of a feature in the rows of a data frame, in the type in which the data has them.

    Attributes
    ----------
    numbers : the values (rows,); of a categorical feature, the number of each in a dictionary, -1 for its last entry
    codes : the category codes in the dictionary (entries,); None if the numbers are the values
    """

    numbers: NDArray[Any]
    codes: NDArray[np.int64] | None = None

    def array(self) -> NDArray[np.float64]:
        """Return the values, or category codes (rows,)."""
        found = self.numbers if self.codes is None else self.codes.take(self.numbers)
        return found.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Problem:
    """The numbers of the rows that do not fit the spec for one reason, and what is wrong with the first of them."""

    feature: str
    rows: NDArray[np.int64]
    message: str


@dataclass(frozen=True)
class _Check:
    """One way in which values can be wrong: its name, the rows that fail, and the message about one of them."""

    name: str
    bad: NDArray[np.bool_]
    problem: Callable[[int], str]

    @property
    def out_of_range(self) -> bool:
        return self.name == "out of range"


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
    return read_column(feature, frame, first_row).array()


def read_column(feature: Feature, frame: pd.DataFrame, first_row: RowNumber = 0) -> ColumnValues:
    """Return what `read_values` does, in the type in which the data has it."""
    values, checks = _values_and_checks(feature, frame)
    for check in checks:
        _raise_for_check(feature, check, first_row)
    return values


def _raise_for_check(feature: Feature, check: _Check, first_row: RowNumber) -> None:
    """Raise an error for the first row that fails."""

    def count_in(frame: pd.DataFrame) -> int:
        return sum(int(other.bad.sum()) for other in _values_and_checks(feature, frame)[1] if other.name == check.name)

    raise_for_rows(f'feature "{feature.name}"', check.bad, check.problem, first_row, count_in)


def find_rows_out_of_range(
    feature: Feature, frame: pd.DataFrame, first_row: RowNumber = 0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
    """Return the values or codes of a feature (rows,), and which are out of its range, or no category of it (rows,).

    Return None if there are no such rows. A value that is wrong in another way raises an error, as in `read_values`.
    """
    values, checks = _values_and_checks(feature, frame)
    found = None
    for check in checks:
        if not check.out_of_range:
            _raise_for_check(feature, check, first_row)
        elif check.bad.any():
            found = values.array(), check.bad
    return found


def find_problems(feature: Feature, frame: pd.DataFrame) -> list[Problem]:
    """Return every problem for which `read_values` would raise an error."""
    try:
        _, checks = _values_and_checks(feature, frame)
    except FairmendError as error:  # the column does not exist
        return [Problem(feature.name, np.zeros(0, np.int64), str(error))]
    found = [(np.flatnonzero(check.bad), check.problem) for check in checks]
    return [Problem(feature.name, rows, problem(int(rows[0]))) for rows, problem in found if rows.size]


def _values_and_checks(feature: Feature, frame: pd.DataFrame) -> tuple[ColumnValues, list[_Check]]:
    """Return the values of a feature, and the checks that some of them may fail, in order."""
    if feature.indicates is not None and feature.name not in frame.columns:
        marked = find_column(frame, feature.indicates, f'feature "{feature.name}"')
        return ColumnValues(np.asarray(marked.isna(), dtype=bool)), []
    if feature.columns is not None and not _has_single_column(feature, frame):
        return _marked_codes(feature, frame)
    if feature.as_is and _name_in(frame, feature.name) not in frame.columns:
        raise FairmendError(
            f'the data has no column "{feature.name}", which the model reads as it is (kind = "as-is"). Give a table '
            "with this column, such as the one that --data-out wrote."
        )
    series = find_column(frame, feature.name, f'feature "{feature.name}"')
    return _codes(feature, series) if feature.categories else _numbers(feature, series)


def find_column(frame: pd.DataFrame, name: str, what: str) -> pd.Series[Any]:
    """Return the column with this name; raise an error if there is none, or more than one."""
    name = _name_in(frame, name)
    if name not in frame.columns:
        hint = suggest(name, map(str, frame.columns))
        raise FairmendError(f'the data has no column "{name}" for {what}{hint}. Add it, or rename a column.')
    column = frame[name]
    if is_frame(column):
        raise FairmendError(f'the data has {column.shape[1]} columns "{name}" for {what}. Keep one.')
    return column


def has_column(frame: pd.DataFrame, name: str) -> bool:
    """Return whether `find_column` finds one."""
    return _name_in(frame, name) in frame.columns


def _name_in(frame: pd.DataFrame, name: str) -> str:
    """Return the name of a column, or how fairmend writes it to a CSV file, if the data has only that."""
    written = spreadsheet_text(name)
    return written if name not in frame.columns and written in frame.columns else name


def places_of(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each name, also by the text that fairmend writes for it to a CSV file."""
    written = {spreadsheet_text(name): place for place, name in enumerate(names)}
    return written | {name: place for place, name in enumerate(names)}


def _has_single_column(feature: Feature, frame: pd.DataFrame) -> bool:
    """Return whether the data has the categories of a feature in one column, as files have that fairmend writes."""
    return feature.name in frame.columns and not any(name in frame.columns for name in feature.columns or ())


def _marked_codes(feature: Feature, frame: pd.DataFrame) -> tuple[ColumnValues, list[_Check]]:
    """Return the category codes of data that is one-hot already, and the checks that some rows may fail."""
    names = feature.columns or ()
    found = [_missing_and_numbers(find_column(frame, name, f'feature "{feature.name}"')) for name in names]
    marks = np.stack([np.asarray(numbers, dtype=np.float64) for _, numbers in found], axis=1)
    ones = (marks == 1).sum(axis=1)
    strange = ~((marks == 0) | (marks == 1)).all(axis=1)
    places = np.flatnonzero(feature.one_hot_marks[1])  # the categories that have a column, in order
    codes = places[(marks == 1).argmax(axis=1)]
    if feature.dropped is not None:
        codes = np.where(ones == 0, (feature.categories or ()).index(feature.dropped), codes)

    def not_marks(row: int) -> str:
        place = int(np.flatnonzero(~np.isin(marks[row], (0, 1)))[0])
        return (
            f'its column "{names[place]}" is {shown(frame[names[place]].iloc[row])}, neither 0 nor 1. Correct it, or '
            'describe the column by itself, with kind = "as-is".'
        )

    def not_one(row: int) -> str:
        rule = "exactly one must be" if feature.dropped is None else "at most one may be"
        way = "" if feature.dropped is not None or ones[row] else " If all 0 is a value too, add it, and set dropped."
        return f"{ones[row]} of its columns {', '.join(names)} are 1, but {rule}. Correct the row.{way}"

    wrong = (ones > 1) | ((ones == 0) & (feature.dropped is None))
    checks = [_Check("not 0 or 1", strange, not_marks), _Check("not one-hot", wrong & ~strange, not_one)]
    used = [check for check in checks if check.bad.any()]
    return ColumnValues(codes.astype(np.int64), np.arange(len(feature.categories or ()))), used


def _numbers(feature: Feature, series: pd.Series[Any]) -> tuple[ColumnValues, list[_Check]]:
    """Return a column of the user's data as numbers, and the checks that some of them may fail, in order."""
    missing, values = _missing_and_numbers(series)
    some_missing = bool(missing.any())
    if some_missing and feature.missing is not None:
        values = np.where(missing, feature.missing, values.astype(np.float64))
    if series.dtype == np.float32:  # 0.1 in float32 lies above 0.1
        values = _moved_into_range(feature, values)
    if (not some_missing or feature.missing is not None) and _all_fit(feature, values):
        return ColumnValues(values), []
    values = values.astype(np.float64, copy=False)
    checks = [] if feature.missing is not None else [_Check("missing", missing, _missing)]
    return ColumnValues(values), [*checks, *_number_checks(feature, series, values, missing)]


def _moved_into_range(feature: Feature, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return values in float32 as float64, those just out of the range at its end."""
    wide = values.astype(np.float64, copy=False)
    nearest = np.clip(wide, *feature.bounds)
    return np.where(np.abs(wide - nearest) <= feature.slack(nearest), nearest, wide)


def _all_fit(feature: Feature, values: NDArray[Any]) -> bool:
    """Return whether all values are numbers in the range, and whole if they must be."""
    if not len(values):
        return True
    low, high = feature.bounds
    inside = low <= float(values.min()) and float(values.max()) <= high  # false if one is NaN
    whole = feature.kind != "integer" or values.dtype.kind in "iu"
    return inside and (whole or bool((values == np.rint(values)).all()))


def _number_checks(
    feature: Feature,
    series: pd.Series[Any],
    values: NDArray[np.float64],
    missing: NDArray[np.bool_],
) -> list[_Check]:
    lo, hi = feature.bounds
    nan = np.isnan(values)
    if feature.as_is:
        return [
            _Check(
                "not a number",
                ~(np.abs(values) <= hi) & ~missing,
                lambda row: (
                    f'"{shown(series.iloc[row])}" is not a number that fits in float32, which a column with kind = '
                    '"as-is" needs. Correct it, or remove the row.'
                ),
            )
        ]
    checks = [
        _Check(
            "not a number",
            nan & ~missing,
            lambda row: f'"{shown(series.iloc[row])}" is not a number. Correct it, or remove the row.',
        ),
        _Check(
            "out of range",
            (values < lo) | (values > hi),
            lambda row: (
                f"{values[row]:.10g} is {'below' if values[row] < lo else 'above'} the range {feature.extent}. "
                f"{RANGE_HINT}"
            ),
        ),
    ]
    if feature.kind == "integer":
        checks.append(
            _Check(
                "not whole",
                (values != np.rint(values)) & ~nan,
                lambda row: f'{values[row]:.10g} is not a whole number. Correct it, or set kind = "continuous".',
            )
        )
    return checks


def _missing_and_numbers(series: pd.Series[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which values of a column are missing (rows,), and the column as numbers (rows,), NaN for what is none."""
    import pandas as pd

    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        numbers = series.to_numpy()
        return np.isnan(numbers), numbers
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    numbers = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return series.isna().to_numpy(bool), numbers


def _missing(row: int) -> str:
    return "the value is missing. Fill it in, remove the row, or set `missing = ...` in the spec to replace it."


def number_values(series: pd.Series[Any]) -> tuple[NDArray[np.integer[Any]], Iterable[object]]:
    """Return the number of each value (rows,), -1 if it is missing, and the different values by number."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):  # as a column with a dictionary is read
        column: Any = series.array
        return column.codes, column.categories
    try:
        return pd.factorize(series)
    except TypeError as error:  # lists and the like
        raise FairmendError(f'column "{series.name}": {error}. Its values must be texts or numbers.') from error


def _codes(feature: Feature, series: pd.Series[Any]) -> tuple[ColumnValues, list[_Check]]:
    """Return a column of the user's data as category codes, and the checks that some of them may fail, in order."""
    categories = feature.categories or ()
    numbers, values = number_values(series)
    known = places_of(categories)
    # A missing value has the number -1, which picks the last entry: the code that replaces it.
    of_missing = known.get(str(feature.missing), -1)
    codes = np.array([*(known.get(as_text(value), -1) for value in values), of_missing], dtype=np.int64)
    none_missing = feature.missing is not None or not len(numbers) or numbers.min() >= 0
    if none_missing and (codes[:-1] >= 0).all():
        return ColumnValues(numbers, codes), []
    missing = numbers < 0

    def unknown(row: int) -> str:
        hint = suggest(as_text(series.iloc[row]), categories)
        return (
            f'"{shown(series.iloc[row])}" is not one of its categories{hint}. '
            "Correct it, add it to `categories` in the spec, or pass --out-of-range skip."
        )

    checks = [] if feature.missing is not None else [_Check("missing", missing, _missing)]
    checks.append(_Check("out of range", (codes.take(numbers) < 0) & ~missing, unknown))
    return ColumnValues(numbers, codes), checks


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


def read_labels(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.int8]:
    """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
    numbers, values = number_values(find_column(frame, label.column, "the label"))
    _require_labels(numbers < 0, first_row)
    found, positive = [as_text(value) for value in values], label.positive
    if positive is not None and positive not in found:
        positive = spreadsheet_text(positive)  # as fairmend writes it to a CSV file
    return np.array([text == positive for text in found], dtype=np.int8).take(numbers)


def find_classes(label: Label, series: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the number of the class of each value (rows,), its place in the classes of the label; -1 for others."""
    numbers, values = number_values(series)
    place = places_of(label.classes)
    # A missing value has the number -1, which picks the last entry.
    return np.array([*(place.get(as_text(value), -1) for value in values), -1], dtype=np.int64).take(numbers)


def read_classes(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.int64]:
    """Return the number of the class of each row (rows,): its place in the classes of the label."""
    series = find_column(frame, label.column, "the label")
    _require_labels(series.isna().to_numpy(bool), first_row)
    numbers = find_classes(label, series)

    def unknown(row: int) -> str:
        found = as_text(series.iloc[row])
        return f'"{shown(found)}" is not one of its classes{suggest(found, label.classes)}. Correct it, or `classes`.'

    raise_for_rows("label", numbers < 0, unknown, first_row)
    return numbers


def read_targets(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.float64]:
    """Return the number to predict in each row (rows,)."""
    import pandas as pd

    series = find_column(frame, label.column, "the label")
    _require_labels(series.isna().to_numpy(bool), first_row)
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    raise_for_rows(
        "label",
        ~np.isfinite(values),
        lambda row: f'"{shown(series.iloc[row])}" is not a finite number. Correct it, or set `positive` in [label].',
        first_row,
    )
    return values


def _require_labels(missing: NDArray[np.bool_], first_row: RowNumber) -> None:
    raise_for_rows("label", missing, lambda row: "the value is missing. Fill it in, or remove the row.", first_row)
