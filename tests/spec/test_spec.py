"""Spec: the columns in order, inputs from frames and arrays, samples, and pairs of people."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given

from fairmend import FairmendError, Feature
from fairmend.spec import Label, Spec
from support.spec_cases import AGE, RACE, refused
from support.strategies_spec import specs_and_inputs, unhurried


def test_columns_follow_the_order_of_the_features(spec):
    assert spec.width == 7
    assert spec.column_names == ["age", "hours", "gain", "race=White", "race=Black", "race=Other", "sex"]
    assert [spec.columns(f.name) for f in spec.features][2:] == [slice(2, 3), slice(3, 6), slice(6, 7)]
    assert spec.protected == [AGE, RACE]
    with refused('no feature "rase"', 'did you mean "race"'):
        spec.columns("rase")


def test_the_repr_says_what_matters(spec):
    assert repr(spec) == (
        "Spec(5 features in 7 columns; protected: age 17 to 90, race (3 categories); tolerance: hours ±1; "
        'label: income = ">50K")'
    )


def test_spec_takes_dicts_and_compares_by_content(spec):
    plain = Spec(
        [{"name": "age", "kind": "integer", "range": [17, 90], "protected": True}],
        {"column": "y", "positive": 1},
    )
    assert plain == Spec([AGE], Label("y", "1"))
    assert hash(plain) == hash(Spec([AGE], Label("y", "1")))
    assert plain != Spec([AGE])
    assert len({spec, Spec(spec.features, spec.label)}) == 1


def test_a_network_of_another_width_is_refused(spec):
    spec.require_inputs(7)
    with refused("model.onnx reads 6 columns", "spec.toml describes 7 (age, hours", "Use the spec of the data"):
        spec.require_inputs(6, "model.onnx", "spec.toml")


@unhurried
@given(case=specs_and_inputs())
def test_sampled_inputs_are_inputs(case):
    spec, X = case
    assert np.array_equal(spec.as_inputs(X, X.dtype), X)
    assert spec.as_inputs(X).dtype == np.float32
    assert spec.as_inputs(spec.as_inputs(X)).shape == X.shape


def test_samples_cover_every_integer_and_category(spec):
    values = spec.decode(spec.sample_inputs(5000, np.random.default_rng(0)))
    assert sorted(values["age"].unique()) == list(range(17, 91))
    assert set(values["race"]) == {"White", "Black", "Other"}
    assert 0 <= values["gain"].min() < 0.001
    assert 0.099 < values["gain"].max() <= 0.1


def test_wrong_arrays_are_refused(spec, frame):
    X = spec.encode(frame)
    with refused("shape (7,)", "(rows, 7)"):
        spec.as_inputs(X[0])
    with refused("shape (3, 6)", "race=White"):
        spec.as_inputs(X[:, 1:])
    with refused("no rows"):
        spec.as_inputs(X[:0])
    with refused("no rows"):
        spec.as_inputs(frame.iloc[:0])
    with refused("not an array of numbers"):
        spec.as_inputs([["a"] * 7])
    with refused("not an array of numbers"):
        spec.as_inputs([[1], [1, 2]])


def test_errors_count_rows_from_the_first_row_of_a_larger_table(spec, frame):
    X = spec.encode(frame)
    for row, column, value in ((1, 0, np.nan), (1, 0, 91), (2, 3, 1)):
        wrong = X.copy()
        wrong[row, column] = value
        with refused(f"row {1000 + row}:"):
            spec.as_inputs(wrong, first_row=1000)
    for column, value in (("age", 16), ("race", "Blck")):
        wrong = frame.copy()
        wrong.loc[2, column] = value
        for read in (spec.encode, spec.as_inputs):
            with refused(f'"{column}"', "row 1002:"):
                read(wrong, first_row=1000)
    frame.loc[1, "income"] = None
    with refused("label", "row 1001:"):
        spec.labels(frame, first_row=1000)


def test_arrays_are_read_without_pandas():
    code = (
        "import sys, fairmend.spec as s\n"
        "spec = s.Spec([s.Feature('age', 'integer', range=(17, 90), protected=True)])\n"
        "spec.regions([[30], [40]])\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pair_is_described_in_the_users_values(spec, frame):
    X = spec.encode(frame)
    X[1, 1:] = X[0, 1:]
    assert spec.describe_pair(X[0], X[1]) == "the same person, age 34 instead of 61"
    X[1, 6] = 0
    assert spec.describe_pair(X[0], X[1]).endswith(", age 34 instead of 61, sex female instead of male")
    assert spec.describe_pair(X[0], X[0]) == "the same person, no difference"
    near = X[0].copy()
    near[2] = np.nextafter(near[2], np.float32(0))
    assert re.search(r"gain (\S+) instead of (?!\1)", spec.describe_pair(X[0], near))


def test_the_threshold_of_the_label_is_kept_in_files_and_left_out_at_one_half(tmp_path):
    spec = Spec([AGE], Label("y", "1", threshold=0.3))
    spec.save(tmp_path / "spec.toml")
    assert 'positive = "1"\nthreshold = 0.3\n' in (tmp_path / "spec.toml").read_text()
    assert Spec.load(tmp_path / "spec.toml") == spec == Spec([AGE], Label("y", "1")).at_threshold(0.3)
    assert "threshold: 0.3" in repr(spec)
    assert spec.threshold == 0.3
    assert spec.at_threshold(0.5).to_dict() == Spec([AGE], Label("y", "1")).to_dict()
    assert Spec([AGE]).threshold == 0.5
    with pytest.raises(FairmendError, match=r"a threshold needs \[label\]"):
        Spec([AGE]).at_threshold(0.3)


def test_a_network_that_ignores_features_is_compared_in_the_others_only():
    spec = Spec([AGE, Feature("hours", "integer", range=(0, 9), tolerance=1)])
    fewer = spec.ignoring(["age"])
    assert [feature.name for feature in fewer.varying] == ["hours"]
    assert fewer.neighbourhood_sizes(fewer.sample_inputs(1, np.random.default_rng(0)))[0] <= 3
    assert spec.ignoring([]) == spec


@pytest.mark.parametrize("threshold", [0, 1, -1, 1.5])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(FairmendError, match=r"\[label\]: threshold must be a probability above 0 and below 1"):
        Label("y", "1", threshold=threshold)


def test_a_number_to_predict_has_no_threshold():
    with pytest.raises(FairmendError, match='"price" has no positive value'):
        Label("price", threshold=0.3)


def test_a_label_of_many_classes_has_no_threshold():
    with pytest.raises(FairmendError, match=r'"grade" has 3 classes\. Remove the threshold'):
        Label("grade", classes=("A", "B", "C"), threshold=0.3)
