"""Labels in a data frame: as 0 and 1, as classes, or as numbers to predict."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Label, Spec
from fairmend.spec.read_labels import find_classes, read_classes, read_labels
from support.spec_cases import AGE, refused


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
