"""The matrix that a model read tells every encoding and the order of the columns, one column at a time."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmend.spec.draft.draft import DraftFeature
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.draft.from_matrix import draft_from_matrix
from fairmend.spec.draft.guess import indicator_of
from support.encoding_cases import column_transformers, matrix_of, ordered, strangers
from support.spec_cases import refused

PEOPLE = strangers()
ORDER = ["Größe", "Stufe", "Guthaben", "Geschlecht", "Alter"]


def drafted(matrix, frame=PEOPLE, protected=("Geschlecht",), **options):
    return draft_from_matrix(draft_from_data(frame, protected, "Ausfall", **options), frame, matrix, "X.npy")


@pytest.mark.parametrize("name", column_transformers())
@pytest.mark.parametrize("rows", [None, 150])
def test_a_pipeline_is_read_from_its_matrix(name, rows):
    X = matrix_of(column_transformers()[name], PEOPLE, rows)
    for matrix in (X, X.astype(np.float32).astype(np.float64)):
        draft = drafted(matrix)
        np.testing.assert_allclose(draft.spec.encode(PEOPLE, np.float64), X, atol=2e-5)
        assert not draft.several


def test_any_order_is_read_and_columns_that_are_not_there_are_left_out():
    X = matrix_of(ordered(["Stufe", "Geschlecht", "Alter"]), PEOPLE)
    draft = drafted(X)
    assert [feature.name for feature in draft.spec.features] == ["Stufe", "Geschlecht", "Alter"]
    assert dict(draft.left_out)["Guthaben"] == "not in X.npy"
    with refused('"Größe" is protected', "not in X.npy"):
        drafted(X, protected=["Größe"])


def test_dummies_of_pandas_and_own_codes_are_read():
    raw = PEOPLE.drop(columns=["Kunde", "Ausfall"])
    dummies = pd.get_dummies(raw.fillna({"Alter": -1}), drop_first=True).to_numpy(np.float64)
    np.testing.assert_allclose(drafted(dummies).spec.encode(PEOPLE, np.float64), dummies)
    own = PEOPLE["Größe"].map({"klein": 2.0, "mittel": 4.0, "groß": 6.0}).fillna(0.0).to_numpy()
    sex = (PEOPLE["Geschlecht"] == "Frau").to_numpy(np.float64)
    matrix = np.column_stack([own, sex])
    draft = drafted(matrix)
    assert draft.spec.features[0].categories == ("(missing)", "klein", "mittel", "groß")
    np.testing.assert_allclose(draft.spec.encode(PEOPLE, np.float64), matrix, atol=1e-12)


def test_what_no_column_explains_is_refused():
    X = matrix_of(ordered(ORDER), PEOPLE)
    with refused("column 9 of X.npy is no column of the data"):
        drafted(np.column_stack([X, X[:, 4] ** 2]))
    with refused("column 5 of X.npy"):
        drafted(np.column_stack([X[:, :5], -X[:, 5], X[:, 6:]]))  # a spec cannot turn a number around


def test_columns_that_are_the_same_in_all_rows_are_named():
    twins = PEOPLE.assign(Kopie=PEOPLE["Guthaben"])
    draft = drafted(matrix_of(ordered(ORDER), twins), twins)
    assert draft.several
    assert any("could be Guthaben or Kopie" in line for line in draft.review)


def test_a_constant_column_is_that_of_the_data_and_no_number_that_differs():
    """With a standard deviation of 10^17, any number would be the same in all rows."""
    people = PEOPLE.assign(Land=1)
    X = np.column_stack([matrix_of(ordered(["Geschlecht", "Guthaben"]), people), np.ones(len(people))])
    draft = drafted(X, people)
    assert [feature.name for feature in draft.spec.features] == ["Geschlecht", "Guthaben", "Land"]
    assert not draft.several
    with refused("column 3 of X.npy is no column of the data"):
        drafted(X, people.drop(columns="Land"))


def test_a_draft_with_columns_that_mark_missing_values_is_read_from_the_matrix():
    """The draft guesses such columns if they give as many columns as the model reads."""
    X = matrix_of(ordered(["Stufe", "Geschlecht", "Alter"]), PEOPLE)
    draft = draft_from_data(PEOPLE, ["Geschlecht"], "Ausfall")
    marked = replace(draft, features=(*draft.features, DraftFeature(indicator_of("Alter"))))
    found = draft_from_matrix(marked, PEOPLE, X, "X.npy")
    assert [feature.name for feature in found.spec.features] == ["Stufe", "Geschlecht", "Alter"]
