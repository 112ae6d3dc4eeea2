"""Encoding whole columns by their dictionaries gives the bytes and the errors of encoding value by value."""

from unittest.mock import patch

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Spec, encode_frame
from fairmend.spec.read_values import read_column
from support.row_by_row import encode_row_by_row
from support.spec_cases import RACE

WORDS = ("a", "b", "None", "1", "2.5", "True")
STRANGE = ("z", "A", "0")  # no categories, some of them near one
SCALES = (None, {"mean": 0.3, "std": 0.7}, {"min": -2, "max": 4})
NUMBER_TYPES = ("int8", "uint16", "int64", "float16", "float32", "float64", "Int64", "Float64", "bool")


def outcome(encode, spec, frame, dtype, first_row):
    try:
        X = encode(spec, frame, dtype, first_row)
    except FairmendError as error:
        return str(error)
    return X.dtype, X.shape, X.tobytes()


def encode_blocks(spec, frame, dtype, first_row):
    return spec.encode(frame, dtype, first_row=first_row)


@st.composite
def categorical_features(draw, name):
    categories = tuple(draw(st.permutations(WORDS)))[: draw(st.integers(1, len(WORDS)))]
    one_hot = draw(st.booleans())
    return Feature(
        name,
        "categorical",
        categories=categories,
        encoding="one-hot" if one_hot else "ordinal",
        scale=None if one_hot else draw(st.sampled_from(SCALES)),
        dropped=draw(st.none() | st.sampled_from(categories)) if one_hot and len(categories) > 1 else None,
        missing=draw(st.none() | st.sampled_from(categories)),
    )


@st.composite
def numeric_features(draw, name):
    kind = draw(st.sampled_from(["integer", "continuous"]))
    extent = draw(st.sampled_from([(0, 1), (-3, 3), (0, 100)] if kind == "integer" else [(0, 0.1), (-2.5, 3), (-1, 0)]))
    missing = draw(st.none() | st.sampled_from(extent))
    return Feature(name, kind, range=extent, scale=draw(st.sampled_from(SCALES)), missing=missing, protected=True)


@st.composite
def text_columns(draw, feature, rows, wrong):
    """Draw texts as objects, as texts of pandas, or as categoricals with entries that no row has."""
    fitting = [*feature.categories, *([None] if feature.missing is not None else [])]
    values = draw(st.lists(st.sampled_from(fitting), min_size=rows, max_size=rows))
    if wrong and rows:
        values[draw(st.integers(0, rows - 1))] = draw(st.sampled_from([None, *STRANGE]))
    column = pd.Series(values, dtype=object)
    form = draw(st.sampled_from(["object", "string", "categorical"]))
    if form != "categorical":
        return column.astype(form)
    entries = draw(st.permutations([*WORDS, *STRANGE]))
    keep = draw(st.integers(0, len(entries)))
    present = {value for value in values if value is not None}
    return column.astype(pd.CategoricalDtype([e for i, e in enumerate(entries) if i < keep or e in present]))


@st.composite
def number_columns(draw, feature, rows, wrong):
    """Draw numbers in a type that holds them, or as objects and texts."""
    low, high = feature.bounds
    inside = [low, high, -0.0 if low <= 0 <= high else low] + ([] if feature.kind == "integer" else [(low + high) / 2])
    fitting = [*inside, *([None] if feature.missing is not None else [])]
    values = draw(st.lists(st.sampled_from(fitting), min_size=rows, max_size=rows))
    if wrong and rows:
        found = draw(st.sampled_from([0.37, None, low - 1, high + 1, high * 1.001 + 0.01, float("inf"), "x"]))
        values[draw(st.integers(0, rows - 1))] = found
    form = draw(st.sampled_from([*NUMBER_TYPES, "string", "category", "object"]))
    # pandas may drop the sign of a zero where it looks for numbers in texts and objects
    unsigned = pd.Series([0 if value == 0 else value for value in values], dtype=object)
    try:
        return (pd.Series(values, dtype=object) if form.startswith("float") else unsigned).astype(form)
    except (TypeError, ValueError, OverflowError):
        return unsigned  # not every type holds these values


@st.composite
def cases(draw):
    makers = draw(st.lists(st.sampled_from([categorical_features, numeric_features]), max_size=2))
    features = [draw(make(f"f{place}")) for place, make in enumerate([*makers, numeric_features])]
    pieces = []
    for rows in draw(st.lists(st.integers(0, 6), min_size=1, max_size=2)):
        wrong = draw(st.sampled_from([None, None, *features]))
        columns = {
            f.name: draw((text_columns if f.categories else number_columns)(f, rows, f is wrong)) for f in features
        }
        pieces.append(pd.DataFrame(columns))
    return Spec(features), pieces, draw(st.sampled_from([np.float32, np.float64]))


@settings(deadline=None, max_examples=150)
@given(case=cases(), block=st.sampled_from([1, 2, 256]))
def test_bytes_and_errors_are_those_of_encoding_value_by_value(case, block):
    spec, pieces, dtype = case
    with patch.multiple(encode_frame, _BLOCK=0, _FEWEST=block):
        for first_row, piece in enumerate(pieces):
            expected = outcome(encode_row_by_row, spec, piece, dtype, first_row)
            if len(piece) or isinstance(expected, str):
                assert outcome(encode_blocks, spec, piece, dtype, first_row) == expected
            else:
                assert spec.encode(piece, dtype).shape == (0, spec.width)


def test_many_rows_are_written_in_blocks(spec, frame):
    many = frame.iloc[np.tile(np.arange(3), 50_000)]
    many = many.assign(race=many["race"].astype(pd.CategoricalDtype(["unused", *frame["race"].unique()])))
    X = spec.encode(many)
    assert X.flags.c_contiguous
    assert np.array_equal(X.reshape(-1, len(frame), spec.width), np.broadcast_to(spec.encode(frame), (50_000, 3, 7)))


def test_a_column_of_categories_keeps_its_codes(spec, frame):
    """What is read from a dictionary is not turned into a number for each row."""
    column = frame["race"].astype("category")
    values = read_column(RACE, frame.assign(race=column))
    assert np.shares_memory(values.numbers, column.array.codes)
    assert values.codes.tolist() == [2, 1, 0, -1]
    assert values.array().tolist() == [1, 0, 2]
