"""The feature in a column of data: its kind, range and categories, and columns that look like ids."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Feature
from fairmend.spec.draft.guess_feature import guess_feature, reason_for_id
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
