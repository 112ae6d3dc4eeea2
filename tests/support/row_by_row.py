"""Encode a data frame value by value, the slow and obvious way, with the errors that a user must see."""

import numpy as np
import pandas as pd

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, suggest
from fairmend.spec.features import scale_parameters


def encode_row_by_row(spec, frame, dtype, first_row):
    """Return the encoded matrix; raise the error of the first feature with a wrong value."""
    columns = [column for f in spec.features for column in _columns(f, _values(f, frame[f.name], first_row), dtype)]
    return np.array(columns, dtype=dtype).T


def _columns(feature, values, dtype):
    offset, factor = scale_parameters(feature.scale)
    if not feature.one_hot:
        return [[dtype((np.float64(value) - offset) / factor) for value in values]]
    kept = [category for category in feature.categories if category != feature.dropped]
    return [[dtype(feature.categories[value] == category) for value in values] for category in kept]


def _values(feature, series, first_row):
    """Return the number or code of each value; raise an error for the first problem that any value has."""
    given = list(series)
    missing = [bool(pd.isna(value)) for value in given]
    filled = [feature.missing if pd.isna(value) and feature.missing is not None else value for value in given]
    if feature.categories:
        codes = [_code(feature, value) for value in filled]
        problems = [
            ([pd.isna(value) for value in filled], _missing),
            (
                [code is None and not pd.isna(value) for code, value in zip(codes, filled, strict=True)],
                _unknown(feature, given),
            ),
        ]
        values = codes
    else:
        values = [_number(feature, value, series.dtype) for value in filled]
        low, high = feature.bounds
        problems = [
            ([pd.isna(value) for value in filled], _missing),
            (
                [np.isnan(v) and not gap for v, gap in zip(values, missing, strict=True)],
                lambda row: _no_number(given[row]),
            ),
            ([v < low or v > high for v in values], lambda row: _outside(feature, values[row])),
            (
                [feature.kind == "integer" and v % 1 != 0 and not np.isnan(v) for v in values],
                lambda row: f'{values[row]:.10g} is not a whole number. Correct it, or set kind = "continuous".',
            ),
        ]
    for bad, message in problems:
        if any(bad):
            row, more = bad.index(True), sum(bad)
            tail = f" {more:,} of the {len(bad):,} rows checked have this problem." if more > 1 else ""
            raise FairmendError(f'feature "{feature.name}", row {first_row + row}: {message(row)}{tail}')
    return values


def _code(feature, value):
    text = as_text(value)
    return feature.categories.index(text) if not pd.isna(value) and text in feature.categories else None


def _number(feature, value, dtype):
    """Return a value as a number, NaN if it is none; one in float32 may lie a rounding error outside of the range."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("nan")
    nearest = float(np.clip(number, *feature.bounds))
    return nearest if dtype == np.float32 and abs(number - nearest) <= feature.slack(np.float64(nearest)) else number


def _missing(row):
    return "the value is missing. Fill it in, remove the row, or set `missing = ...` in the spec to replace it."


def _no_number(value):
    return f'"{value}" is not a number. Correct it, or remove the row.'


def _unknown(feature, given):
    return lambda row: (
        f'"{given[row]}" is not one of its categories{suggest(as_text(given[row]), feature.categories)}. '
        "Correct it, add it to `categories` in the spec, or pass --out-of-range skip."
    )


def _outside(feature, value):
    return (
        f"{value:.10g} is {'below' if value < feature.bounds[0] else 'above'} the range {feature.extent}. "
        "Correct the value, widen `range` in the spec, or pass --out-of-range clip, skip or widen (in Python: "
        "spec.bring_into_range)."
    )
