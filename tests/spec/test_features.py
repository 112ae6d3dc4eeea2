"""What a feature is: its columns, its values, and how far neighbours may differ in it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Feature, Label, Spec
from fairmend.spec.features import scale_parameters
from fairmend_check.errors import CheckError
from fairmend_check.kernel.spec import read_spec
from support.spec_cases import AGE, DROPPED_RACE, GAIN, HOURS, RACE, SEX, refused
from support.strategies_spec import specs_and_inputs, unhurried


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, ["needs a name"]),
        ({"kind": "intger"}, ['"age"', "kind", 'did you mean "integer"']),
        ({"encoding": "onehot"}, ['"age"', "encoding", 'did you mean "one-hot"']),
        ({"encoding": "one-hot"}, ['"age"', "one-hot", "categorical"]),
        ({"categories": ("a", "b")}, ['"age"', "categories", "categorical"]),
        ({"range": None}, ['"age"', "range = [lowest, highest]"]),
        ({"range": (1, 2, 3)}, ['"age"', "range"]),
        ({"range": "12"}, ['"age"', "range"]),
        ({"range": (90, 17)}, ['"age"', "lowest < highest"]),
        ({"range": (17, 17)}, ['"age"', "lowest < highest"]),
        ({"range": (17.5, 90)}, ['"age"', "whole numbers"]),
        ({"range": (0, 2**60)}, ['"age"', "whole numbers"]),
        ({"range": (0, float("inf"))}, ['"age"', "finite number"]),
        ({"range": (0, 10**400)}, ['"age"', "finite number"]),
        ({"range": (True, 3)}, ['"age"', "finite number"]),
        ({"protected": "yes"}, ['"age"', "true or false"]),
        ({"tolerance": 1}, ['"age"', "protected", "Remove its tolerance"]),
        ({"tolerance": -1}, ['"age"', "negative"]),
        ({"tolerance": float("nan")}, ['"age"', "tolerance", "finite"]),
        ({"scale": {"mean": 1, "sd": 2}}, ['"age"', "scale", "std"]),
        ({"scale": {"mean": 1, "std": 0}}, ['"age"', "std > 0"]),
        ({"scale": {"min": 1, "max": 1}}, ['"age"', "max > min"]),
        ({"scale": {"mean": "1", "std": 1}}, ['"age"', "scale mean", "finite"]),
        ({"scale": {"mean": 0, "std": 1e-300}}, ['"age"', "float32"]),
    ],
)
def test_a_wrong_numeric_feature_is_refused(change, words):
    given_ = {"name": "age", "kind": "integer", "range": (17, 90), "protected": True}
    with refused(*words):
        Feature(**(given_ | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"categories": None}, ["needs categories"]),
        ({"categories": ()}, ["needs categories"]),
        ({"categories": "ab"}, ["needs categories"]),
        ({"categories": ("a",)}, ["at least two"]),
        ({"categories": ("1", 1.0)}, ['"1"', "twice"]),
        ({"categories": ("a", " ")}, ["must be text"]),
        ({"categories": ("a", None)}, ["must be text"]),
        ({"range": (0, 1)}, ["Remove its range"]),
        ({"tolerance": 1, "protected": False}, ["Remove its tolerance"]),
        ({"encoding": "one-hot", "scale": {"min": 0, "max": 1}}, ["no scale"]),
    ],
)
def test_a_wrong_categorical_feature_is_refused(change, words):
    given_ = {"name": "race", "kind": "categorical", "categories": ("a", "b"), "protected": True}
    with refused('"race"', *words):
        Feature(**(given_ | change))


def test_a_range_of_one_value_is_fine_when_not_protected():
    assert not Feature("x", "integer", range=(3, 3), tolerance=2).varies


def test_features_must_make_a_spec():
    with refused("no features"):
        Spec([])
    with refused("no feature is protected", "protected = true"):
        Spec([HOURS, GAIN])
    with refused('"age"', "twice"):
        Spec([AGE, HOURS, AGE])
    with refused('"age"', "both a feature and the label"):
        Spec([AGE], Label("age", "61"))
    with refused("[label]", "column"):
        Spec([AGE], {"column": 3, "positive": "x"})
    with refused("positive", "must be text"):
        Label("y", float("nan"))
    with refused('"age"', "the score of [label]"):
        Spec([AGE], Label("y", "1", score="age"))
    for score in ("", "y", 3):
        with refused("score must be the name of a column"):
            Label("y", "1", score=score)


@pytest.mark.parametrize(
    "change", [{"indicates": ""}, {"indicates": "m"}, {"range": (0, 2)}, {"kind": "continuous"}, {"missing": 1}]
)
def test_a_feature_that_marks_missing_values_is_0_or_1(change):
    plain = {"name": "m", "kind": "integer", "range": (0, 1), "indicates": "age"}
    assert Feature(**plain).width == 1
    with refused('feature "m"'):
        Feature(**(plain | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dropped": "d"}, ["dropped", '"d"', "not one of its categories"]),
        ({"encoding": "ordinal"}, ["dropped", "one-hot"]),
        ({"missing": "x"}, ["missing", '"x"', "not one of its categories"]),
        ({"categories": ("b",), "protected": False, "missing": None}, ["only category"]),
    ],
)
def test_what_makes_no_sense_is_refused(change, words):
    plain = {
        key: getattr(DROPPED_RACE, key) for key in ("kind", "categories", "encoding", "protected", "dropped", "missing")
    }
    with refused('"race"', *words):
        Feature("race", **(plain | change))
    entry = {key: value for key, value in (plain | change).items() if value is not None}
    entry |= {"name": "race", "categories": list(entry["categories"])}
    with pytest.raises(CheckError, match='feature "race"'):
        read_spec({"feature": [entry, {"name": "s", "kind": "integer", "range": [0, 1], "protected": True}]}, "spec")


@pytest.mark.parametrize("missing", [17, 61, 30.5, "x", float("nan")])
def test_a_missing_number_must_be_a_possible_one(missing):
    with refused('"age"', "missing"):
        Feature("age", "integer", range=(18, 60), missing=missing)
    entry = {"name": "age", "kind": "integer", "range": [18, 60], "missing": missing, "protected": True}
    with pytest.raises(CheckError, match=r'feature "age".*missing'):
        read_spec({"feature": [entry]}, "spec")


def test_a_scale_is_an_offset_and_a_factor():
    assert scale_parameters(None) == (0, 1)
    assert scale_parameters({"mean": 3, "std": 2}) == (3, 2)
    assert scale_parameters({"min": 3, "max": 5}) == (3, 2)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({1: "male", 3: "female"}, ['names has "3"', "not one of its values"]),
        ({1: "x", 2: "x"}, ['two values "x"']),
        ({1: ""}, ["a name must be text"]),
        (["male"], ["names must be a table"]),
    ],
)
def test_wrong_names_of_values_are_refused(names, words):
    for kind in ({"kind": "integer", "range": (1, 2)}, {"kind": "categorical", "categories": (1, 2)}):
        with refused('"sex"', *words):
            Feature("sex", **kind, names=names)


def test_names_are_shown_instead_of_codes():
    sex = Feature("sex", "integer", range=(1, 3), names={1: "male", "2": "female"})
    assert sex.names == {"1": "male", "2": "female"}
    assert [sex.show(code) for code in (1, 2.0, "2", 3)] == ["male", "female", "female", 3]
    assert Feature("sex", "integer", range=(1, 3), names={}).names is None
    with refused("names are for codes", "continuous"):
        Feature("income", "continuous", range=(0, 1), names={0: "none"})


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ({"classes": "ABC"}, ["must be a list"]),
        ({"classes": ("A", "B", "A")}, ['"A" is listed twice']),
        ({"classes": ("A", "B")}, ["three or more"]),
        ({"classes": ("A", "B", "C"), "positive": "A"}, ["Remove one of them"]),
        ({"classes": ("A", "B", "C"), "threshold": 0.3}, ["threshold"]),
    ],
)
def test_wrong_classes_are_refused(label, words):
    with refused(*words):
        Label("grade", **label)


def test_a_label_with_classes_needs_no_positive_value_and_is_no_number():
    label = Label("grade", classes=[1, 2.0, "C"])
    assert label.classes == ("1", "2", "C")
    assert not label.is_number
    assert [label.name_class(number) for number in range(4)] == ["1", "2", "C", "class 3"]
    features = [Feature("sex", "categorical", categories=("f", "m"), protected=True)]
    Spec(features, label)
    with refused('on = "output"', "has classes"):
        Spec(features, label, {"kind": "score", "delta": 1, "on": "output"})


@pytest.mark.parametrize("column", ["sex", "grade", "", 7])
def test_a_wrong_column_of_ids_is_refused(column):
    features = [Feature("sex", "categorical", categories=("f", "m"), protected=True)]
    with refused("[table]: id"):
        Spec(features, Label("grade", "A"), id_column=column)


def test_the_repr_shows_what_is_not_a_default():
    assert repr(HOURS) == "Feature(name='hours', kind='integer', range=(1, 100), tolerance=1.0)"


def test_a_dropped_category_has_no_column():
    assert (AGE.width, RACE.width, DROPPED_RACE.width, SEX.width) == (1, 3, 2, 1)
    np.testing.assert_array_equal(RACE.corners, np.eye(3))
    np.testing.assert_array_equal(DROPPED_RACE.corners, [[1, 0], [0, 0], [0, 1]])
    assert DROPPED_RACE.category_of(DROPPED_RACE.corners).tolist() == [0, 1, 2]


def test_the_extent_is_a_range_or_a_number_of_categories():
    assert (AGE.extent, GAIN.extent, RACE.extent) == ("17 to 90", "0 to 0.1", "(3 categories)")
    assert (AGE.bounds, RACE.bounds) == ((17, 90), (0, 2))


def test_neighbours_differ_within_the_reach():
    assert (AGE.reach, HOURS.reach, GAIN.reach) == (math.inf, 1, 0)
    assert [f.varies for f in (AGE, HOURS, GAIN, RACE, SEX)] == [True, True, False, True, False]
    part = replace(HOURS, tolerance=0.5)
    assert part.reach == 0
    assert not part.varies


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 2**16))
def test_scaling_is_monotone_and_can_be_undone(case, seed):
    spec, _ = case
    rng = np.random.default_rng(seed)
    for feature in spec.features:
        if feature.one_hot:
            continue
        values = np.sort(rng.uniform(*feature.bounds, 20))
        x = feature.scaled(values)
        assert np.all(np.diff(x) >= 0)
        assert np.all(np.abs(feature.unscaled(x.astype(np.float32)) - values) <= feature.slack(values))
