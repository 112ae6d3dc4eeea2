"""Columns that the model does not read: their groups, piece by piece, and which features tell them."""

import numpy as np
import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.evaluate.groups import GroupColumns, require_group_columns
from fairmend.evaluate.proxies import proxy_table
from fairmend.spec import Feature, Spec
from support.cli_case import small_people, small_spec

SPEC = Spec(
    [
        Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True),
        Feature("town", "categorical", categories=("a", "b", "c")),
        Feature("income", "continuous", range=(0, 1)),
    ]
)


def column_of(values, pieces=1):
    found = GroupColumns(["race"])
    for part in np.array_split(np.array(values, dtype=object), pieces):
        found.add(pd.DataFrame({"race": part}))
    (column,) = found.columns()
    return column


def texts(column):
    return column[1].distinct[column[1].codes].tolist()


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_groups_are_the_same_in_pieces_and_missing_ones_are_a_group(pieces):
    values = ["x", "y", None, "x", "z", "y", float("nan"), "x"]
    assert texts(column_of(values, pieces)) == ["x", "y", "(missing)", "x", "z", "y", "(missing)", "x"]


def test_many_numbers_are_numbers_and_many_texts_are_refused():
    feature, _ = column_of(list(range(200)))
    assert (feature.kind, feature.range) == ("continuous", (0.0, 199.0))
    with pytest.raises(FairmendError, match="the column has 200 different values, and not all are"):
        column_of([f"id {number}" for number in range(200)])


def people(rows=900):
    rng = np.random.default_rng(0)
    sex, town, income = rng.integers(0, 2, rows), rng.integers(0, 3, rows), rng.random(rows)
    X = np.column_stack([sex == 0, sex == 1, town, income]).astype(np.float32)
    return X, town, rng


def test_the_feature_that_tells_the_column_comes_first():
    X, town, rng = people()
    race = np.where((town == 1) ^ (rng.random(len(X)) < 0.1), "b", "w")
    found = proxy_table(SPEC, X, np.arange(len(X)), column_of(race))
    assert found.features[0].feature == "town"
    assert found.features[0].drop > 0.2
    assert 0.8 < found.auc < 0.97
    assert (found.groups, found.rows, found.reason) == (2, 900, None)


def test_features_that_know_nothing_are_at_chance():
    X, _, rng = people()
    found = proxy_table(SPEC, X, np.arange(len(X)), column_of(rng.choice(["v", "w", "x"], len(X))))
    assert found.auc == pytest.approx(0.5, abs=0.07)
    assert found.groups == 3


def test_small_groups_are_left_out_and_one_group_tells_nothing():
    X, _, _ = people()
    found = proxy_table(SPEC, X, np.arange(len(X)), column_of(["b"] * 10 + ["w"] * 890))
    assert (found.auc, found.groups, found.rows) == (None, 1, 890)
    assert "fewer than two groups have at least 30" in found.reason


def test_columns_that_cannot_have_groups_are_refused():
    spec, names = small_spec(), list(small_people().columns)
    require_group_columns(["remark"], spec, names)
    for name, words in (("age", "the model reads this column"), ("good", "is the label"), ("remrk", "no such column")):
        with pytest.raises(FairmendError, match=words):
            require_group_columns([name], spec, names)
