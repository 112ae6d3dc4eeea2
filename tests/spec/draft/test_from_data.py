"""A draft from data encodes the data; what is protected, dropped or left out is as asked."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Spec
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.validation import MOST_FEATURES
from support.pipeline_cases import people
from support.spec_cases import refused


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
