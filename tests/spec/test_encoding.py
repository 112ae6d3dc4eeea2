"""Encoded columns: values survive encoding and decoding, and columns that no value has are refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from fairmend.spec import Feature, Spec
from support.spec_cases import dropped_spec, refused
from support.strategies_spec import specs_and_inputs, unhurried


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
