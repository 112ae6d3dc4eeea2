"""Encoded columns: values survive encoding and decoding, and columns that no value has are refused."""

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Spec, encoding
from fairmend.spec.read_values import read_column
from support.examples import examples
from support.row_by_row import encode_row_by_row
from support.spec_cases import RACE, dropped_spec, refused
from support.strategies_spec import specs_and_inputs, unhurried

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


@examples(150)
@given(case=cases(), block=st.sampled_from([1, 2, 256]))
def test_bytes_and_errors_are_those_of_encoding_value_by_value(case, block):
    spec, pieces, dtype = case
    with patch.multiple(encoding, _BLOCK=0, _FEWEST=block):
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


def test_encode_gives_the_networks_columns(spec, frame):
    X = spec.encode(frame)
    assert X.dtype == np.float32
    assert X[:, :2].tolist() == [[61, 40], [34, 1], [17, 100]]
    np.testing.assert_allclose(X[:, 2], [-2.5, 0, 2.5], atol=1e-6)
    assert X[:, 3:6].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert X[:, 6].tolist() == [0.5, 0, 0.5]
    assert spec.encode(frame, np.float64).dtype == np.float64
    assert spec.encode(frame.iloc[:0]).shape == (0, 7)
    assert np.array_equal(spec.as_inputs(frame), X)


def test_decode_gives_the_users_values(spec, frame):
    values = spec.decode(spec.encode(frame))
    assert list(values.columns) == ["age", "hours", "gain", "race", "sex"]
    assert values["age"].tolist() == [61, 34, 17]
    assert values["hours"].dtype == np.int64
    assert values["race"].tolist() == ["Black", "White", "Other"]
    assert values["sex"].tolist() == ["male", "female", "male"]
    np.testing.assert_allclose(values["gain"], frame["gain"], atol=1e-8)


@unhurried
@given(case=specs_and_inputs())
def test_inputs_survive_decode_and_encode(case):
    spec, X = case
    again = spec.encode(spec.decode(X), X.dtype)
    for f in spec.features:
        where = spec.columns(f.name)
        if f.kind == "continuous":
            off = np.abs(f.unscaled(again[:, where]) - f.unscaled(X[:, where]))
            assert np.all(off <= f.slack(f.nearest(X[:, where])))
        else:
            assert np.array_equal(again[:, where], X[:, where])


def test_many_rows_survive_decode_and_encode(spec):
    X = spec.sample_inputs(100_000, np.random.default_rng(0))
    assert np.array_equal(spec.encode(spec.decode(X))[:, 3:], X[:, 3:])


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (1, 0, np.nan, ['"age"', "row 1", "finite"]),
        (2, 4, np.inf, ['"race"', "row 2", "finite"]),
        (1, 0, 91, ['"age"', "row 1", "91", "above", "17 to 90"]),
        (1, 0, 34.5, ['"age"', "row 1", "34.5", "whole number"]),
        (0, 2, 2.51, ['"gain"', "row 0", "above"]),
        (0, 2, 1e38, ['"gain"', "row 0", "above"]),
        (2, 3, 1, ['"race"', "row 2", "one-hot", "Exactly one"]),
        (2, 3, 0.5, ['"race"', "row 2", "one-hot", "Exactly one"]),
        (2, 6, 0.25, ['"sex"', "row 2", "0.25", "whole number", "scale"]),
        (2, 6, 1, ['"sex"', "row 2", "above"]),
    ],
)
def test_a_wrong_entry_is_refused_by_feature_and_row(spec, frame, row, column, value, words):
    X = spec.encode(frame)
    X[row, column] = value
    with refused(*words):
        spec.as_inputs(X)


def test_integers_scaled_elsewhere_in_float32_are_accepted():
    scale = {"mean": 38.58, "std": 13.64}
    spec = Spec([Feature("age", "integer", range=(17, 90), scale=scale, protected=True)])
    ages = np.arange(17, 91, dtype=np.float32)[:, None]
    theirs = (ages - np.float32(38.58)) * (np.float32(1) / np.float32(13.64))
    assert np.array_equal(spec.as_inputs(theirs), theirs)
    assert spec.decode(theirs)["age"].tolist() == list(range(17, 91))


def test_a_dropped_category_is_zero_in_all_columns():
    spec = dropped_spec()
    frame = pd.DataFrame({"race": ["a", "b", "c", None], "age": [18, 60, 39.0, None]})
    X = spec.encode(frame, np.float64)
    assert spec.width == 3
    assert spec.column_names == ["race=a", "race=c", "age"]
    np.testing.assert_array_equal(X[:, :2], [[1, 0], [0, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(X[:, 2], [0, 1, 0.5, 12 / 42])
    assert spec.decode(X)["race"].tolist() == ["a", "b", "c", "c"]
    assert spec.decode(X)["age"].tolist() == [18, 60, 39, 30]
    assert spec.describe_pair(X[0], [0, 0, 0]) == "the same person, race b instead of a"


@pytest.mark.parametrize(
    ("group", "good"),
    [((0, 0), True), ((1, 0), True), ((1, 1), False), ((0.5, 0), False), ((-1, 1), False), ((2, 0), False)],
)
def test_only_one_hot_columns_are_encoded_inputs(group, good):
    X = np.array([[*group, 0.0]])
    if good:
        dropped_spec().as_inputs(X)
    else:
        with refused('"race"', "At most one"):
            dropped_spec().as_inputs(X)
