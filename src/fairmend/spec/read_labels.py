"""The label in a data frame: read it as classes or numbers, and report the rows whose label is missing or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.text import as_text, shown, spreadsheet_text, suggest
from fairmend.spec.features import Label
from fairmend.spec.read_values import RowNumber, find_column, number_values, places_of, raise_for_rows

if TYPE_CHECKING:
    import pandas as pd


def read_labels(label: Label, frame: pd.DataFrame, first_row: RowNumber = 0) -> NDArray[np.int8]:
    """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
    numbers, values = number_values(find_column(frame, label.column, "the label"))
    raise_for_rows("label", numbers < 0, lambda row: "the value is missing. Fill it in, or remove the row.", first_row)
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

    series = find_column(frame, label.column, "the label")
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
