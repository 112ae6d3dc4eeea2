"""What is guessed from the values of a column, and from the number of columns that a model reads."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Feature
from fairmend.spec.draft.draft import Draft, DraftFeature
from fairmend.spec.draft.guess import guess_encodings, guess_feature, reason_for_id
from support.spec_cases import refused


def guess(values, protected=False, scale="none"):
    return guess_feature("x", pd.Series(values), protected, scale)


@pytest.mark.parametrize(
    ("values", "feature", "note"),
    [
        (range(20), Feature("x", "integer", range=(0, 19)), "integer: all values are whole numbers"),
        ([0.5, 1, 2], Feature("x", "continuous", range=(0.5, 2)), "continuous: some values are fractions"),
        (["b", "a", "b"], Feature("x", "categorical", categories=("a", "b")), "categorical: a (1), b (2)"),
        ([True, False], Feature("x", "categorical", categories=("False", "True")), "categorical"),
        ([1, None, 3, 4], Feature("x", "integer", range=(1, 4), missing=3), ", 1 missing"),
        (["a", None], Feature("x", "categorical", categories=("a", "(missing)"), missing="(missing)"), "1 missing"),
    ],
)
def test_a_feature_is_guessed_with_the_reason(values, feature, note):
    drafted = guess(values)
    assert drafted.feature == feature
    assert any(note in line for line in drafted.notes)


def test_money_is_not_an_integer():
    """Whole numbers that span more than 1,000 are amounts; ages, years, counts and credit scores span less."""
    for low, high, kind in (
        (0, 1000, "integer"),
        (1900, 2026, "integer"),
        (300, 850, "integer"),
        (0, 1001, "continuous"),
    ):
        assert guess([low, high, low]).feature.kind == kind
    drafted = guess([0, 9_436_000, None, 12])
    assert (drafted.feature.kind, drafted.feature.missing) == ("continuous", 12)
    assert any("such as amounts of money" in line for line in drafted.notes)
    assert guess_feature("x", pd.Series([0, 5000]), False, "none", "integer").feature.kind == "integer"


def test_the_kind_may_be_given():
    codes = guess_feature("x", pd.Series([10, 9, 2, 9]), False, "none", "categorical").feature
    assert codes.categories == ("2", "9", "10")
    with refused("contains 0.5", "--integer"):
        guess_feature("x", pd.Series([0.5, 1]), False, "none", "integer")
    with refused("holds text", "--integer"):
        guess_feature("x", pd.Series(["a", "b"]), False, "none", "integer")
    assert guess_feature("x", pd.Series([1, 2]), False, {"mean": 3, "std": 4}).feature.scale == {"mean": 3, "std": 4}


def test_scales_come_from_the_data():
    assert guess([1, 2, 3], scale="min-max").feature.scale == {"min": 1, "max": 3}
    assert guess([1, 3], scale="standard").feature.scale == {"mean": 2, "std": 1}
    assert guess([5, 5], scale="standard").feature.scale == {"mean": 5, "std": 1}
    assert guess([5, 5], scale="min-max").feature.scale == {"min": 5, "max": 6}


@pytest.mark.parametrize(
    ("values", "review"),
    [
        ([5, 5], "it is constant in the data"),
        ([0.5, 1.5], "it has only two values"),
        ([1, None, 3], "missing is 2, the median"),
        (["a", None], 'missing values are the last category, "(missing)"'),
        ([f"s{i}" for i in range(60)], "it has 60 categories"),
    ],
)
def test_what_the_user_has_to_decide_is_listed(values, review):
    assert any(review in line for line in guess(values).review)


@pytest.mark.parametrize(
    ("values", "protected", "words"),
    [
        (["f", "f"], True, ['protected column "x" is f in every row']),
        ([1.0, np.inf], False, ['column "x", row 1', "not a finite number"]),
        (["a", " "], False, ["row 1", "cannot be a category"]),
        ([[1], [2]], False, ["contains a list"]),
        (["(missing)", None], False, ["both missing values and"]),
        ([*map(str, range(30)), "?"], False, ["contains numbers", '"?"', "1 row)"]),
    ],
)
def test_a_column_that_is_no_feature_is_refused(values, protected, words):
    with refused(*words):
        guess(values, protected)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("name", [f"person {i}" for i in range(30)], "text that differs in every row"),
        ("income", [f"€{i},012.64" for i in range(1, 31)], 'numbers written as text, such as "€1,012.64"'),
        ("income", [f"{i}.012,64 CHF" for i in range(1, 31)], "numbers written as text"),
        ("plate", [f"ABC{i}" for i in range(100, 130)], "text that differs in every row"),
        ("phone", [f"044 {i} 45 67" for i in range(100, 130)], "text that differs in every row"),
        ("born", [f"1990-01-{i:02d}" for i in range(1, 31)], "text that differs in every row"),
        ("customer_id", [(7 * i) % 31 for i in range(30)], "look like ids"),
        ("row", range(5, 35), "look like ids"),
        ("income", [(7 * i) % 31 for i in range(30)], None),
        ("name", ["a", "b"] * 15, None),
        ("name", [f"person {i}" for i in range(10)], None),
    ],
)
def test_columns_that_look_like_ids_are_recognized(name, values, reason):
    found = reason_for_id(name, pd.Series(values))
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y", "%m/%d/%Y", None])
def test_a_column_of_dates_is_left_out_even_if_some_are_equal(form):
    days = pd.Series(pd.date_range("1950-01-01", periods=200).repeat(2))
    column = days if form is None else days.dt.strftime(form)
    assert "dates, such as " in reason_for_id("born", column)
    assert reason_for_id("born", column[:80]) is None  # 40 dates can be categories
    assert reason_for_id("born", column.astype(object).where(days != days.iloc[0], "unknown")) is None


SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True)
RACE = Feature("race", "categorical", categories=("a", "b", "c"))
AGE = Feature("age", "integer", range=(0, 9))


def encodings(draft):
    return [(f.encoding, f.dropped) for f in draft.spec.features if f.categories]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (5, [("ordinal", None), ("one-hot", None)]),
        (6, [("one-hot", None), ("one-hot", None)]),
        (3, [("ordinal", None), ("ordinal", None)]),
        (4, [("ordinal", None), ("one-hot", "a")]),
    ],
)
def test_the_width_of_the_model_determines_the_encoding(inputs, expected):
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE), DraftFeature(AGE)), None), inputs)
    assert draft.spec.width == inputs
    assert encodings(draft) == expected
    assert "the only common encoding" in draft.review[0]


def test_two_encodings_of_the_same_width_are_a_guess():
    constant = Feature("country", "categorical", categories=("X",))
    race = Feature("race", "categorical", categories=("a", "b", "c"), protected=True)
    draft = guess_encodings(Draft((DraftFeature(constant), DraftFeature(race)), None), 4)
    assert draft.review == (
        "encoding: two categories as ordinal codes, more as one-hot (guessed). All categories as one-hot would also "
        "give the model's 4 columns.",
    )


def test_two_encodings_with_the_same_features_are_one():
    two = Feature("married", "categorical", categories=("no", "yes"))
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(two)), None), 2)
    assert "the only common encoding" in draft.review[0]


def test_without_a_model_the_encoding_is_a_guess():
    assert guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE)), None), None).review == (
        "encoding: two categories as ordinal codes, more as one-hot (guessed). "
        "Check that the model was trained with it.",
    )


def test_if_no_encoding_fits_the_widths_are_listed():
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE)), None, left_out=(("id", "an id"),)), 30)
    (review,) = draft.review
    assert review.startswith("DOES NOT FIT THE MODEL: the model reads 30 columns, but the data gives 4 with two")
    assert '"id" is left out' in review
    assert draft.spec.width == 4


def test_without_categories_there_is_nothing_to_review():
    numbers = Draft((DraftFeature(Feature("age", "integer", range=(0, 9), protected=True)),), None)
    assert guess_encodings(numbers, 1).review == ()
    assert guess_encodings(numbers, None).review == ()
