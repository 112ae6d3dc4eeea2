"""The ways in which models read a column cover what scikit-learn and pandas do to it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from fairmend.spec import Feature, Spec
from fairmend.spec.draft.readings import Reading, category_readings, is_code, number_readings

NUMBER = Feature("x", "integer", range=(0, 60), protected=True)
TEXT = Feature("x", "categorical", categories=("a", "b"), protected=True)
NUMBERS = pd.DataFrame({"x": [3.0, np.nan, 60.0, 7.0, 7.0, np.nan, 0.0, 12.0]})
TEXTS = pd.DataFrame({"x": ["b", "c", None, "a", "b", "b", None, "c"]})


def encodings(readings, frame):
    return [Spec([reading.feature]).encode(frame, np.float64) for reading in readings.values()]


def is_covered(expected, found):
    expected = np.asarray(expected.toarray() if hasattr(expected, "toarray") else expected, np.float64)
    return any(made.shape == expected.shape and np.allclose(made, expected, atol=1e-12) for made in found)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize(
    "scaler", [StandardScaler(), MinMaxScaler(), MinMaxScaler((-1, 1)), RobustScaler(), MaxAbsScaler(), "passthrough"]
)
def test_numbers_are_filled_in_and_scaled_as_scikit_learn_does(strategy, scaler):
    expected = make_pipeline(SimpleImputer(strategy=strategy), scaler).fit_transform(NUMBERS)
    assert is_covered(expected, encodings(number_readings(NUMBER, NUMBERS["x"]), NUMBERS))


def test_numbers_are_scaled_as_users_do_with_pandas():
    found = encodings(number_readings(NUMBER, NUMBERS["x"]), NUMBERS)
    filled = NUMBERS.fillna(NUMBERS.median())
    assert is_covered((filled - filled.mean()) / filled.std(), found)  # pandas divides by n - 1
    known = (NUMBERS - NUMBERS.mean()) / NUMBERS.std(ddof=0)
    assert is_covered(known.fillna(0), found)


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(),
        OneHotEncoder(drop="first"),
        OrdinalEncoder(encoded_missing_value=-1),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder(), StandardScaler()),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder(), MinMaxScaler()),
        make_pipeline(SimpleImputer(strategy="constant", fill_value="missing"), OneHotEncoder(drop="first")),
        make_pipeline(SimpleImputer(strategy="constant", fill_value="Missing"), OrdinalEncoder()),
    ],
)
def test_categories_are_encoded_as_scikit_learn_does(encoder):
    frame = TEXTS.astype(object).where(TEXTS.notna(), np.nan)
    assert is_covered(encoder.fit_transform(frame), encodings(category_readings(TEXT, frame["x"]), frame))


def test_categories_are_encoded_as_pandas_does():
    found = encodings(category_readings(TEXT, TEXTS["x"]), TEXTS)
    assert is_covered(pd.get_dummies(TEXTS), found)
    assert is_covered(pd.get_dummies(TEXTS, drop_first=True), found)
    assert is_covered(pd.factorize(TEXTS["x"])[0][:, None], found)  # by appearance, missing values are -1


def test_the_role_of_the_column_is_kept_and_codes_are_few_whole_numbers():
    readings = [*number_readings(NUMBER, NUMBERS["x"]).values(), *category_readings(TEXT, TEXTS["x"]).values()]
    assert all(reading.feature.protected and reading.feature.name == "x" for reading in readings)
    assert is_code(pd.Series([1, 2, 3, None]))
    assert not is_code(pd.Series([1, 2.5]))
    assert not is_code(pd.Series(range(21)))
    given = number_readings(NUMBER, NUMBERS["x"], {"mean": 1.0, "std": 2.0})
    assert {reading.feature.scale["std"] for reading in given.values()} == {2.0}


def test_the_columns_of_one_hot_data_follow_their_categories():
    columns = {"columns": ("x_a", "x_c"), "dropped": "b"}
    group = Feature("x", "categorical", categories=("a", "b", "c"), encoding="one-hot", **columns)
    found = Reading(group, ("as in the data",)).with_categories(("c", "b", "a")).feature
    assert (found.categories, found.columns, found.dropped) == (("c", "b", "a"), ("x_c", "x_a"), "b")
