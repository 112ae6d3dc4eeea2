"""Data frames: wrong values and columns are refused by feature and row, and listed for a report."""

import numpy as np
import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Label, Spec
from fairmend.spec.read_values import (
    RowsError,
    find_classes,
    find_problems,
    is_frame,
    read_classes,
    read_labels,
    read_values,
)
from support.spec_cases import AGE, RACE, refused


def test_labels_compare_as_text(spec, frame):
    y = spec.labels(frame)
    assert y.dtype == np.int8
    assert y.tolist() == [1, 0, 0]
    assert Spec([AGE], Label("y", 1)).labels(pd.DataFrame({"y": [1.0, 0.0]})).tolist() == [1, 0]
    assert Spec([AGE], Label("y", True)).labels(pd.DataFrame({"y": [True, False]})).tolist() == [1, 0]
    frame.loc[1, "income"] = None
    with refused("label", "row 1", "missing"):
        spec.labels(frame)
    with refused('no column "income"'):
        spec.labels(frame.drop(columns="income"))
    with refused("no label", "[label]"):
        Spec([AGE]).labels(frame)


def test_a_label_without_a_positive_value_is_a_number():
    spec = Spec([AGE], Label("price"), {"kind": "score", "delta": 1, "on": "output"})
    y = spec.labels(pd.DataFrame({"price": [1, "2.5", -3e5]}))
    assert y.dtype == np.float64
    assert y.tolist() == [1, 2.5, -3e5]
    with refused("label, row 11", "missing"):
        spec.labels(pd.DataFrame({"price": [1.0, None]}), first_row=10)
    with refused("label, row 0", '"high" is not a finite number'):
        spec.labels(pd.DataFrame({"price": ["high", "2"]}))
    with refused("label, row 1", "inf"):
        spec.labels(pd.DataFrame({"price": pd.Categorical([1.0, float("inf")])}))


@pytest.mark.parametrize("dtype", [object, "category", pd.CategoricalDtype(["unused", "b", "2", "a"])])
def test_texts_and_categoricals_give_the_same_labels(dtype):
    frame = pd.DataFrame({"y": pd.Series(["a", "2", "b", "a"], dtype=object).astype(dtype)})
    assert read_labels(Label("y", "a"), frame).tolist() == [1, 0, 0, 1]
    assert read_labels(Label("y", "a"), frame).dtype == np.int8
    classes = Label("y", classes=("2", "a", "b"))
    assert read_classes(classes, frame).tolist() == [1, 0, 2, 1]
    assert find_classes(Label("y", classes=("a", "b", "c")), frame["y"]).tolist() == [0, -1, 1, 0]
    gap = frame.assign(y=frame["y"].where([True, True, False, True]))
    assert find_classes(classes, gap["y"]).tolist() == [1, 0, -1, 1]
    with refused("label, row 7", "missing"):
        read_labels(Label("y", "a"), gap, 5)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("age", [61, 34, None], ['"age"', "row 2", "missing"]),
        ("age", [61, 130, 16], ['"age"', "row 1", "130", "17 to 90", "2 of the 3 rows checked have this problem"]),
        ("age", [61.5, 34, 17], ['"age"', "row 0", "61.5", "whole number"]),
        ("age", ["61", "thirty", "17"], ['"age"', "row 1", '"thirty"', "not a number"]),
        ("age", ["61", "inf", "17"], ['"age"', "row 1", "above"]),
        ("age", pd.array([61, None, 17], dtype="Int64"), ['"age"', "row 1", "missing"]),
        ("gain", [0, 0.1, np.nan], ['"gain"', "row 2", "missing"]),
        ("gain", [0, 0.1, -1e-9], ['"gain"', "row 2", "below"]),
        ("race", ["White", "Blck", "Other"], ['"race"', "row 1", '"Blck"', 'did you mean "Black"']),
        ("race", ["White", None, "Other"], ['"race"', "row 1", "missing"]),
        ("sex", ["male", "female", "x"], ['"sex"', "row 2", '"x"', "categories"]),
    ],
)
def test_a_wrong_value_is_refused_by_feature_and_row(spec, frame, column, values, words):
    frame.index = [10, 20, 30]  # rows are counted, whatever the index says
    frame[column] = values
    with refused(*words):
        spec.encode(frame)


def test_wrong_columns_are_refused(spec, frame):
    with refused('no column "race"', 'did you mean "Race"'):
        spec.encode(frame.rename(columns={"race": "Race"}))
    with refused('2 columns "age"'):
        spec.encode(pd.concat([frame, frame[["age"]]], axis=1))
    with refused("float32 or float64"):
        spec.encode(frame, np.int32)


def test_numbers_may_come_as_text_categories_or_float32(spec, frame):
    expected = spec.encode(frame)
    frame["age"] = ["61", " 34", "17.0"]
    frame["hours"] = pd.Categorical([40, 1, 100])
    frame["gain"] = frame["gain"].astype(np.float32)  # 0.1 in float32 lies above 0.1
    np.testing.assert_allclose(spec.encode(frame), expected, rtol=1e-6, atol=1e-6)


def test_without_it_a_missing_value_is_refused_and_the_error_says_what_to_do():
    spec = Spec([Feature("sex", "categorical", categories=("f", "m"), protected=True)])
    with refused('"sex"', "row 1", "missing = "):
        spec.encode(pd.DataFrame({"sex": ["f", None]}))


def test_every_problem_is_found_with_its_rows(frame):
    frame["age"] = [16, None, 91]
    missing, outside = find_problems(AGE, frame)
    assert (missing.feature, missing.rows.tolist()) == ("age", [1])
    assert "missing" in missing.message
    assert (outside.rows.tolist(), outside.message[:22]) == ([0, 2], "16 is below the range ")
    assert find_problems(RACE, frame) == []
    (absent,) = find_problems(RACE, frame.drop(columns="race"))
    assert absent.rows.size == 0
    assert 'no column "race"' in absent.message


def test_only_a_data_frame_is_a_frame(frame):
    assert is_frame(frame)
    assert not any(is_frame(other) for other in (frame["age"], frame.to_numpy(), [[1]], None))


def test_a_feature_marks_the_missing_values_of_another_column():
    age = Feature("age", "integer", range=(17, 90), missing=40, protected=True)
    spec = Spec([Feature("age is missing", "integer", range=(0, 1), indicates="age"), age])
    frame = pd.DataFrame({"age": [61, None, 17]})
    X = spec.encode(frame)
    assert X.tolist() == [[0, 61], [1, 40], [0, 17]]
    np.testing.assert_array_equal(spec.encode(spec.decode(X)), X)  # a column of its own comes first
    with refused('no column "age" for feature "age is missing"'):
        spec.encode(frame.rename(columns={"age": "years"}))


def test_rows_with_one_problem_are_counted_in_all_parts_of_a_table(spec, frame):
    part = frame.assign(age=[300] * len(frame))
    with pytest.raises(RowsError) as caught:
        spec.encode(part, first_row=10)
    assert "row 10" in str(caught.value)
    whole = str(caught.value.counted([frame, part, part]))
    assert whole.endswith(f" {2 * len(frame)} of all {3 * len(frame)} rows have this problem.")
    assert "rows checked" not in whole


@pytest.mark.parametrize("missing", [None, "b"])
def test_categoricals_and_texts_give_the_same_codes(missing):
    feature = Feature("c", "categorical", categories=("a", "b", "1"), encoding="one-hot", missing=missing)
    column = pd.Series(["b", "1", "a", "b", None if missing else "a"], dtype=object)
    numbered = column.astype(pd.CategoricalDtype(["unused", "1", "b", "a"]))
    found = [read_values(feature, pd.DataFrame({"c": values})) for values in (column, numbered)]
    assert found[0].tolist() == found[1].tolist()
    with pytest.raises(RowsError, match='row 1: "unused" is not one of its categories'):
        read_values(feature, pd.DataFrame({"c": pd.Categorical(["a", "unused"])}))


def test_values_that_are_lists_are_refused_in_one_line():
    spec = Spec([Feature("sex", "categorical", categories=("[1]", "[2]"), protected=True)])
    with pytest.raises(FairmendError, match='column "sex": unhashable type'):
        spec.encode(pd.DataFrame({"sex": [[1], [2]]}))
