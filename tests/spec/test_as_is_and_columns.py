"""Columns that are read as they are, and data that is one-hot already: what a spec says of them, and refuses."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_blindness
from fairmend.searching.oracle import ValueSpace
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.neighbourhood import neighbourhood
from fairmend_check.kernel.spec import first_difference, read_spec
from support.spec_cases import refused

SEX = {"name": "sex", "kind": "categorical", "categories": ["F", "M"], "encoding": "one-hot", "protected": True}
GROUP = {**SEX, "columns": ["sex_F", "sex_M"]}
JOB = {"name": "job", "kind": "categorical", "categories": ["a", "b", "c"], "encoding": "one-hot", "dropped": "b"}
JOB_GROUP = {**JOB, "columns": ["job_a", "job_c"]}
LOG = {"name": "log_income", "kind": "as-is"}
PEOPLE = pd.DataFrame(
    {"sex_F": [1, 0, 0], "sex_M": [0, 1, 1], "log_income": [10.25, -3.5, 0.0], "job_a": [0, 1, 0], "job_c": [0, 0, 1]}
)


def spec(*features):
    return Spec.from_dict({"feature": list(features)})


ALL = spec(GROUP, LOG, JOB_GROUP)


def test_the_columns_are_passed_on_as_the_data_has_them():
    np.testing.assert_array_equal(ALL.encode(PEOPLE), PEOPLE.to_numpy(np.float32))


def test_a_table_that_fairmend_wrote_has_one_column_for_the_group():
    decoded = ALL.decode(ALL.encode(PEOPLE))
    assert decoded["sex"].tolist() == ["F", "M", "M"]
    assert decoded["job"].tolist() == ["b", "a", "c"]
    np.testing.assert_array_equal(ALL.encode(decoded), ALL.encode(PEOPLE))


def test_a_spec_file_holds_both(tmp_path):
    ALL.save(tmp_path / "spec.toml")
    assert Spec.load(tmp_path / "spec.toml") == ALL
    assert ALL.data_columns[0] == {"log_income"}
    assert {"sex_F", "job_c"} <= ALL.data_columns[1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sex_F": [1, 1, 0]}, ("row 1", "2 of its columns", "exactly one")),
        ({"sex_M": [0, 0, 1]}, ("row 1", "0 of its columns", "set dropped")),
        ({"sex_F": [0.5, 0, 0]}, ("row 0", '"sex_F" is 0.5', "neither 0 nor 1")),
        ({"job_a": [0, 1, 1]}, ("row 2", "at most one")),
        ({"log_income": [np.inf, 0, 0]}, ("row 0", "fits in float32")),
        ({"log_income": [1e39, 0, 0]}, ("row 0", "fits in float32")),
        ({"log_income": ["x", 0, 0]}, ("row 0", "fits in float32")),
        ({"log_income": [np.nan, 0, 0]}, ("row 0", "missing")),
    ],
)
def test_rows_that_do_not_fit_are_refused(changed, words):
    with refused(*words):
        ALL.encode(PEOPLE.assign(**changed))


def test_a_missing_one_hot_column_is_refused_by_name():
    with refused('no column "sex_M"', 'feature "sex"'):
        ALL.encode(PEOPLE.drop(columns="sex_M"))


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([SEX, {**LOG, "protected": True}], ("as-is", "cannot have protected")),
        ([SEX, {**LOG, "tolerance": 0.1}], ("as-is", "cannot have tolerance")),
        ([SEX, {**LOG, "bands": [0, 1]}], ("as-is", "cannot have bands")),
        ([SEX, {**LOG, "range": [0, 1]}], ("as-is", "takes no range")),
        ([SEX, {**LOG, "scale": {"mean": 0, "std": 1}}], ("as-is", "takes no scale")),
        ([{**SEX, "columns": ["sex_F"]}], ("1 names for 2 categories",)),
        ([{**SEX, "columns": ["sex_F", "sex_F"]}], ('"sex_F" twice',)),
        ([{**SEX, "columns": "sex_F"}], ("must be a list",)),
        ([{**SEX, "columns": []}], ("must be a list",)),
        ([{**SEX, "encoding": "ordinal", "columns": ["sex_F", "sex_M"]}], ("one-hot",)),
        ([GROUP, {**JOB, "columns": ["job_a", "sex_F"]}], ('"sex_F" is a column of "sex"',)),
        ([GROUP, {"name": "sex_F", "kind": "as-is"}], ('the feature "sex_F"',)),
    ],
)
def test_what_makes_no_sense_is_refused_by_fairmend_and_by_the_checker(features, words):
    with refused(*words):
        spec(*features)
    with pytest.raises(CheckError):
        read_spec({"feature": features}, "spec")


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ({**SEX, "columns": ["sex_M", "sex_F"]}, ('"sex_M" has the name of the category "M"', 'stands for "F"')),
        ({**SEX, "dropped": "F", "columns": ["sex_F"]}, ('stands for "M"', "dropped has no column")),
        ({**JOB, "columns": ["job_c", "job_a"]}, ('stands for "a"', "in the order of the categories")),
    ],
)
def test_columns_that_are_named_after_other_categories_are_refused(feature, words):
    with refused(*words):
        spec({**feature, "protected": True})


@pytest.mark.parametrize("columns", [["x1", "x2"], ["first_M", "second_M"], ["sex_F_is", "sex_M"], ["F", "non_M"]])
def test_columns_may_have_any_other_names(columns):
    assert spec({**SEX, "columns": columns}).width == 2


def test_a_link_cannot_set_a_column_that_is_read_as_it_is():
    link = {"when": {"sex": "F"}, "then": {"log_income": {"offset": 1}}}
    with refused("a link cannot set it"):
        Spec.from_dict({"feature": [GROUP, LOG], "link": [link]})
    with pytest.raises(CheckError, match="passes as it is"):
        read_spec({"feature": [GROUP, LOG], "link": [link]}, "spec")


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(["float32", "float64"]))
def test_similar_people_have_the_same_number_in_both_readings(value, dtype):
    x = ALL.as_inputs(np.array([[1, 0, value, 0, 1]]), dtype)
    theirs = neighbourhood(read_spec(ALL.to_dict(), "spec"), x[0].astype(np.float64), dtype)
    assert [axis.feature.name for product in theirs for axis in product.axes] == ["sex"]
    _, points = next(ALL.points(x, dtype=dtype))
    assert (points[:, 2] == x[0, 2]).all()
    assert len(points) == 2


def test_specs_with_other_columns_are_other_specs():
    ours, theirs = (read_spec({"feature": [f]}, "spec") for f in (GROUP, {**SEX, "columns": ["female", "male"]}))
    assert "columns is" in first_difference(ours, theirs)


def network(weights):
    rng = np.random.default_rng(0)
    first = (np.asarray(weights) * rng.normal(size=(4, 5))).astype(np.float32)
    layers = [Affine(first, np.zeros(4, np.float32)), Affine(np.ones((1, 4), np.float32), np.zeros(1, np.float32))]
    return Network(layers, [Activation("relu")])


def test_a_claim_for_everyone_holds_for_every_number_of_such_a_column(tmp_path):
    """No range bounds it, and a weight on it must not make the claim fail, nor may one on the protected one pass."""
    for number, (weights, valid) in enumerate((([0, 0, 1, 1, 1], True), ([1, 1, 1, 1, 1], False))):
        model, path, net = tmp_path / f"m{number}.onnx", tmp_path / f"c{number}.json", network(weights)
        net.save(model)
        certificate_of_blindness(net, ALL, [0, 1], method="blind").save(path, model)
        ALL.save(tmp_path / "spec.toml")
        assert fairmend.check(path, model, tmp_path / "spec.toml").valid is valid


def test_what_needs_a_range_refuses_the_column_by_name():
    with refused("quantify needs all possible values", '"log_income"'):
        fairmend.quantify(network([1, 1, 1, 1, 1]), ALL)
    with refused("random samples", '"log_income"', "--data"):
        fairmend.audit(network([1, 1, 1, 1, 1]), ALL, samples=100)


def test_samples_take_the_numbers_of_the_data():
    X = ALL.sample_inputs(50, np.random.default_rng(0), like=ALL.encode(PEOPLE))
    assert set(X[:, 2].tolist()) <= {10.25, -3.5, 0.0}


def test_testers_leave_such_columns_alone():
    space = ValueSpace(ALL, np.float32)
    assert space.free.tolist() == [False, False, True]
    V = space.values(ALL.encode(PEOPLE))
    np.testing.assert_array_equal(space.encode(V), ALL.encode(PEOPLE))
    assert (space.influence(V, np.ones((3, 5)))[:, 1] == 0).all()
