"""A draft from data encodes the data; what is protected, dropped or left out is as asked."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Claim, Label, Spec
from fairmend.spec.draft.from_data import draft_from_data, guess_claim, guess_label, label_from_options
from fairmend.spec.features import MOST_FEATURES
from support.pipeline_cases import people
from support.spec_cases import refused


def frame(*values):
    return pd.DataFrame({"y": values})


@pytest.mark.parametrize(
    ("values", "positive", "reason"),
    [
        (("no", "yes"), "yes", "guessed from the words"),
        ((0, 1), "1", "guessed from the words"),
        (("<=50K", ">50K"), ">50K", "guessed from the words"),
        (("ja", "nein"), "ja", "guessed from the words"),
        (("Oui", "Non"), "Oui", "guessed from the words"),
        (("sí", "no"), "sí", "guessed from the words"),
        (("да", "нет"), "да", "guessed from the words"),
        (("good", "bad"), "good", "guessed from the words"),
        ((True, False), "True", "guessed from the words"),
        ((-1, 1), "1", "guessed from the words"),
        (("N", "Y"), "Y", "guessed from the words"),
        (("no", "subscribed"), "subscribed", "guessed from the words"),
    ],
)
def test_the_positive_value_is_guessed_with_a_reason(values, positive, reason):
    label, notes = guess_label(frame(*values), "y")
    assert label == Label("y", positive)
    assert reason in notes[-1]


def test_values_are_counted():
    _, notes = guess_label(frame("no", "yes", "yes", None), "y")
    assert notes[0] == '2 values: "no" (1 row), "yes" (2 rows); 1 row without a value'


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        ((None, None), None, ['"y" has no values']),
        (("a", "a"), None, ['"y" is "a" in every row']),
        ([f"v{i}" for i in range(30)], None, ["30 values", "--positive"]),
        (("a", "b"), None, ['"a" (1 row), "b" (1 row)', "nothing says which is positive", "--positive"]),
        ((1, 2), None, ["nothing says which is positive"]),
        (("good", "yes"), None, ["nothing says which is positive"]),
        (("f", "m"), None, ["nothing says which is positive"]),
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


def test_many_numbers_are_one_to_predict():
    label, notes = guess_label(frame(*range(100, 130)), "y")
    assert label == Label("y")
    assert notes == ("a number to predict: 30 values, from 100 to 129",)
    assert guess_label(frame(0.5, 1.0, 2.5, None), "y")[1][0].endswith(
        "3 values, from 0.5 to 2.5; 1 row without a value"
    )
    assert guess_label(frame(1, 2), "y", on="output")[0] == Label("y")
    assert guess_label(frame(*range(100, 130)), "y", 105)[0] == Label("y", "105")
    assert label_from_options("y", None, None, "output") == Label("y")


def test_the_claim_follows_from_the_label_and_the_options():
    classes, number, data = Label("y", "1"), Label("y"), frame(100.0, 350.0)
    assert guess_claim(classes, data) == (Claim(), ())
    assert guess_claim(classes, data, 0.05)[0] == Claim("score", 0.05, "probability")
    assert guess_claim(classes, data, 0.05, "logit")[0] == Claim("score", 0.05, "logit")
    assert guess_claim(number, data, 7)[0] == Claim("score", 7, "output")
    claim, review = guess_claim(number, data)
    assert claim == Claim("score", 2.5, "output")
    assert "1% of the range of y" in review[0]
    for bad, words in (
        ((classes, data, None, "logit"), ["--delta"]),
        ((number, None), ["--delta"]),
        ((None, data, None, "output"), ["--delta"]),
        ((number, frame(1.0, 1.0)), ["no two numbers"]),
        ((classes, data, -1.0), ["delta must be above 0"]),
    ):
        with refused(*words):
            guess_claim(*bad)


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (("F", "A", "C", "A"), ("A", "C", "F")),
        ((10, 9, 2), ("2", "9", "10")),  # as numbers, not as text
        ((2.0, 0.0, 1.0, None), ("0", "1", "2")),
        (("10", "9", "x"), ("10", "9", "x")),
    ],
)
def test_more_than_two_values_are_classes_in_the_order_of_frameworks(values, classes):
    label, notes = guess_label(frame(*values), "y")
    assert label == Label("y", classes=classes)
    assert "in sorted order, as scikit-learn" in notes[-1]
    assert guess_claim(label, frame(*values)) == (Claim(), ())


def test_the_model_decides_between_classes_and_a_positive_value():
    grades = frame("A", "B", "C", "D")
    assert guess_label(grades, "y", outputs=4)[0].classes == ("A", "B", "C", "D")
    with refused("has 4 values", "two classes", "--positive"):
        guess_label(grades, "y", outputs=1)
    with refused("has 4 values", "has 6 outputs"):
        guess_label(grades, "y", outputs=6)
    assert guess_label(grades, "y", "B", outputs=1)[0] == Label("y", "B")
    label, notes = guess_label(grades, "y", classes=["D", "C", "B", "A", "E"])
    assert label.classes == ("D", "C", "B", "A", "E")
    assert "order of the fitted model" in notes[-1]
    assert label_from_options("y", None, None, classes=["x", "y", "z"]).classes == ("x", "y", "z")


def test_what_the_fitted_model_calls_class_1_is_positive_whatever_the_words_say():
    answers = frame("ja", "nein")
    label, notes = guess_label(answers, "y", classes=["ja", "nein"])
    assert label == Label("y", "nein")
    assert "the fitted model" in notes[-1]
    assert label_from_options("y", None, None, classes=["ja", "nein"]) == Label("y", "nein")
    assert guess_label(answers, "y", "nein", classes=["ja", "nein"])[0] == Label("y", "nein")
    with refused('calls "nein" class 1', '"ja" cannot be the positive value', "--positive"):
        guess_label(answers, "y", "ja", classes=["ja", "nein"])


def test_classes_that_are_codes_of_the_values_decide_nothing():
    assert guess_label(frame("ja", "nein"), "y", classes=[False, True])[0] == Label("y", "ja")
    assert guess_label(frame("ja", "nein"), "y", "ja", classes=[0, 1])[0] == Label("y", "ja")


@pytest.mark.parametrize("scale", ["none", "standard", "min-max"])
def test_the_spec_encodes_the_data_it_was_drafted_from(scale):
    frame = people(gaps=True)
    draft = draft_from_data(frame, ["sex", "race"], "y", scale=scale, drop=["debt"])
    assert [f.name for f in draft.spec.protected] == ["sex", "race"]
    assert draft.spec.label.column == "y"
    assert draft.left_out == (("debt", "dropped, as requested"),)
    assert np.isfinite(draft.spec.encode(frame)).all()
    assert any(line.startswith("scale: ") for line in draft.review)
    assert Spec.from_data(frame, ["sex", "race"], "y", scale=scale, drop=["debt"]) == draft.spec


def test_ids_are_left_out_unless_they_are_protected_or_wanted():
    frame = people().assign(customer_id=range(100, 140))
    draft = draft_from_data(frame, ["sex"])
    assert [name for name, _ in draft.left_out] == ["customer_id"]
    assert draft_from_data(frame, ["sex"], leave_out=False).left_out == ()
    assert draft_from_data(frame, ["customer_id"]).left_out == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"protected": ["sx"]}, ["protected", '"sx"', 'did you mean "sex"']),
        ({"protected": []}, ["no protected column"]),
        ({"protected": ["y"], "label": "y"}, ['"y" cannot be protected: it is the label']),
        ({"protected": ["sex"], "drop": ["sex"]}, ['"sex" cannot be protected: it is dropped']),
        ({"protected": ["sex"], "scale": "log"}, ["scale must be one of none, standard, min-max", "'log'"]),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    with refused(*words):
        draft_from_data(people(), **arguments)


def test_columns_without_values_or_with_the_same_name_are_refused():
    frame = people()
    with refused('"age" has no values', "--drop"):
        draft_from_data(frame.assign(age=np.nan), ["sex"])
    with refused('two columns "age"'):
        draft_from_data(frame.rename(columns={"region": "age"}), ["sex"])


def test_more_columns_than_a_spec_describes_are_refused_before_the_work():
    frame = pd.DataFrame(np.ones((1, MOST_FEATURES + 2)), columns=[f"c{i}" for i in range(MOST_FEATURES + 2)])
    with refused("10,002 columns", "at most 10,000 features", "--drop"):
        draft_from_data(frame, ["c0"])
    with refused("10,001 columns", "at most 10,000 features"):
        draft_from_data(frame.drop(columns="c1"), ["c0"])
