"""A spec in plain English: the sentences that `spec check` shows."""

import pytest

from fairmend.spec import Feature, Spec
from fairmend.spec.describe import (
    describe_difference,
    describe_encoding,
    describe_links,
    describe_neighbourhood,
    describe_role,
    describe_similarity,
    describe_values,
)
from support.link_cases import SEX as FAMILY_SEX
from support.link_cases import YEARS, family_spec
from support.spec_cases import AGE, AGE_WITH_MISSING, DROPPED_RACE, GAIN, HOURS, RACE, SEX


def test_values():
    many = Feature("state", "categorical", categories=[f"s{i}" for i in range(10)])
    assert [describe_values(f) for f in (AGE, GAIN, RACE)] == [
        "whole numbers 17 to 90",
        "0 to 0.1",
        "White, Black, Other",
    ]
    assert describe_values(many) == "s0, s1, s2, s3, s4, s5, … (10 categories)"
    assert describe_values(AGE_WITH_MISSING) == "whole numbers 18 to 60; a missing value becomes 30"
    assert describe_values(DROPPED_RACE) == "a, b, c; a missing value becomes c"


def test_encodings():
    assert [describe_encoding(f) for f in (AGE, RACE, DROPPED_RACE, SEX)] == [
        "the value",
        "one-hot",
        'one-hot, all 0 for "b"',
        "the number of the category, scaled (min 0, max 2)",
    ]


def test_scales_are_shown_in_full():
    feature = Feature("gain", "continuous", range=(0, 1e7), scale={"mean": 1234567.125, "std": 50})
    assert describe_encoding(feature) == "the value, scaled (mean 1234567.125, std 50)"


def test_roles():
    assert [describe_role(f) for f in (AGE, HOURS, GAIN)] == [
        "any value (protected)",
        "may differ by up to 1",
        "the same value",
    ]


@pytest.mark.parametrize(
    ("features", "similar", "neighbourhood"),
    [
        ([AGE, GAIN], "differ only in age.", "Each neighbourhood has 74 people."),
        ([AGE, RACE], "differ only in age or race.", "Each neighbourhood has 222 people."),
        (
            [AGE, RACE, HOURS],
            "differ only in age, race or hours (by up to 1).",
            "Each neighbourhood has up to 666 people, fewer near the ends of a range.",
        ),
        (
            [RACE, Feature("gain", "continuous", range=(0, 1), tolerance=0.25)],
            "differ only in race or gain (by up to 0.25).",
            "Neighbourhoods are infinite: gain can be any number in an interval, for each of 3 combinations of the "
            "other values.",
        ),
    ],
)
def test_who_is_similar_and_how_many_people_that_are(features, similar, neighbourhood):
    spec = Spec(features)
    assert describe_similarity(spec) == f"Two people are similar if they {similar}"
    assert describe_neighbourhood(spec) == neighbourhood


def test_differences_show_enough_digits():
    assert describe_difference([("age", 61, 34), ("sex", "m", "m")]) == "the same person, age 34 instead of 61"
    assert describe_difference([("age", 61, 61)]) == "the same person, no difference"
    assert describe_difference([("gain", 0.5, 0.25)]) == "the same person, gain 0.25 instead of 0.5"
    assert describe_difference([("gain", 1.0, 1.0000001)]) == "the same person, gain 1.0000001 instead of 1.0"


def test_links():
    links = [{"when": {"age": 25, "sex": ["Male"]}, "then": {"years": {"range": [1, 2]}}}]
    assert describe_links(family_spec(links=links)) == [
        "With sex Female: relationship Wife instead of Husband.",
        "With sex Male: relationship Husband instead of Wife.",
        "With age 20 to 22: years 2 to 3 less.",
        "With sex Male and age 25: years 1 to 2.",
    ]
    both = {"when": {"sex": ["Male", "Female"]}, "then": {"years": {"offset": [-1, 2]}}}
    assert describe_links(Spec([FAMILY_SEX, YEARS], links=[both])) == [
        "With sex Male or Female: years between 1 less and 2 more."
    ]
    more = {"when": {"sex": "Male"}, "then": {"years": {"offset": 2}}}
    assert describe_links(Spec([FAMILY_SEX, YEARS], links=[more])) == ["With sex Male: years 2 more."]
    spec = family_spec()
    assert describe_similarity(spec) == (
        "Two people are similar if they differ only in sex, age, relationship (as a link says) "
        "or years (as a link says)."
    )
    assert describe_neighbourhood(spec) == "Each neighbourhood has up to 28 people."
    assert describe_role(YEARS, linked=True) == "the same value, or what a link says"
