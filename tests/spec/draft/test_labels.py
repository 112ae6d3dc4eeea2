"""The positive value of a label: given, or guessed from two values with the reason."""

import pandas as pd
import pytest

from fairmend.spec import Label
from fairmend.spec.draft.labels import guess_label, label_from_options
from support.spec_cases import refused


def frame(*values):
    return pd.DataFrame({"y": values})


@pytest.mark.parametrize(
    ("values", "positive", "reason"),
    [
        (("no", "yes"), "yes", "guessed from its name"),
        ((0, 1), "1", "guessed from its name"),
        (("<=50K", ">50K"), ">50K", "guessed from its name"),
        (("a", "b"), "b", "the second of two"),
        ((0, 1, 2), "1", "class numbers"),
    ],
)
def test_the_positive_value_is_guessed_with_a_reason(values, positive, reason):
    label, notes = guess_label(frame(*values), "y")
    assert label == Label("y", positive)
    assert reason in notes[-1]


def test_values_are_counted():
    _, notes = guess_label(frame("a", "b", "b", None), "y")
    assert notes[0] == '2 values: "a" (1 row), "b" (2 rows); 1 row without a value'


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        ((None, None), None, ['"y" has no values']),
        (("a", "a"), None, ['"y" is "a" in every row']),
        (("a", "b", "c"), None, ["3 values", "--positive"]),
        (("no", "yes"), "yse", ['is never "yse"', 'did you mean "yes"', "Its values are"]),
    ],
)
def test_a_label_that_cannot_be_guessed_is_refused(values, positive, words):
    with refused(*words):
        guess_label(frame(*values), "y", positive)


def test_options_make_a_label_with_or_without_data():
    assert label_from_options(None, "x", None) is None
    assert label_from_options("y", None, None) == Label("y", "1")
    assert label_from_options("y", "good", None) == Label("y", "good")
    assert label_from_options("y", None, frame("no", "yes")) == Label("y", "yes")
