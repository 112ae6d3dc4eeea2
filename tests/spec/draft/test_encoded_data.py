"""Drafts of data that is encoded already, and of matrices that a spec describes only in part."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.draft.from_matrix import draft_from_matrix
from support.spec_cases import refused

RNG = np.random.default_rng(0)
ROWS = 60
RAW = pd.DataFrame(
    {
        "sex": RNG.choice(["F", "M"], ROWS),
        "job": RNG.choice(["a", "b", "c"], ROWS),
        "income": RNG.lognormal(10, 0.5, ROWS),
        "branch": 7,
        "country": "CH",
    }
)
DUMMIES = pd.get_dummies(RAW[["sex", "job"]], dtype=int).assign(income=RAW["income"])


def standard(values):
    return (values - values.mean()) / values.std(ddof=0)


def test_one_hot_columns_become_one_feature_with_their_common_name():
    spec = draft_from_data(DUMMIES, ["sex"], inputs=6).spec
    assert [(f.name, f.columns) for f in spec.features[:2]] == [
        ("sex", ("sex_F", "sex_M")), ("job", ("job_a", "job_b", "job_c")),
    ]  # fmt: skip
    assert spec.features[1].categories == ("a", "b", "c")
    np.testing.assert_array_equal(spec.encode(DUMMIES, np.float64), DUMMIES.to_numpy(np.float64))


@pytest.mark.parametrize("joint", ["=", "__", "-", ": "])
def test_other_signs_between_name_and_category_are_known(joint):
    frame = DUMMIES.rename(columns=lambda name: name.replace("_", joint))
    assert [f.name for f in draft_from_data(frame, ["sex"]).spec.features] == ["sex", "job", "income"]


def test_one_of_the_columns_cannot_be_protected_alone():
    with refused('"sex_F" cannot be protected alone', "sex_F, sex_M", "--protected sex"):
        draft_from_data(DUMMIES, ["sex_F"])


def test_columns_that_do_not_sum_to_1_are_features_of_their_own():
    frame = DUMMIES.assign(sex_F=1)
    assert [f.name for f in draft_from_data(frame, ["sex_M"]).spec.features][:2] == ["sex_F", "sex_M"]


def test_constant_columns_of_a_matrix_are_found():
    """Scalers make them 0, and encoders a column of 1; the others are not blamed."""
    matrix = np.column_stack(
        [pd.get_dummies(RAW["sex"]), standard(RAW["income"]), np.zeros(ROWS), np.ones(ROWS)]
    ).astype(np.float64)
    made = draft_from_matrix(draft_from_data(RAW, ["sex"]), RAW, matrix)
    np.testing.assert_allclose(made.spec.encode(RAW, np.float64), matrix, atol=1e-9)
    assert [f.name for f in made.spec.features] == ["sex", "income", "branch", "country"]


def logarithm_and_target():
    target = RAW["job"].map({"a": 0.2, "b": 0.5, "c": 0.1})
    return np.column_stack([np.log(RAW["income"]), pd.get_dummies(RAW["sex"]), target]).astype(np.float64)


def test_columns_that_a_spec_cannot_describe_are_read_as_they_are():
    added = {}
    names = ["log", "sex_F", "sex_M", "income"]
    made = draft_from_matrix(draft_from_data(RAW, ["sex"]), RAW, logarithm_and_target(), names=names, added=added)
    assert [(f.name, f.kind) for f in made.spec.features] == [
        ("log", "as-is"), ("sex", "categorical"), ("income_encoded", "as-is"),
    ]  # fmt: skip
    np.testing.assert_allclose(made.spec.encode(RAW.assign(**added), np.float64), logarithm_and_target())
    assert "computed from a protected column" in made.review[-1]


def test_without_a_file_for_them_the_way_out_is_named():
    with refused("column 0 of the matrix", "--data-out"):
        draft_from_matrix(draft_from_data(RAW, ["sex"]), RAW, logarithm_and_target())


@pytest.mark.parametrize("scaled", [True, False])
def test_a_column_that_a_protected_one_determines_is_not_passed_on(scaled):
    """One-hot columns behind a scaler, and a target encoding: similar people would keep it."""
    dummies = pd.get_dummies(RAW["sex"], dtype=float)
    matrix = dummies.apply(standard) if scaled else dummies.assign(target=RAW["sex"].map({"F": 0.3, "M": 0.6}))
    with refused('is computed from "sex", which is protected'):
        draft_from_matrix(draft_from_data(RAW, ["sex"]), RAW, matrix.to_numpy(), added={})
