"""The map in words."""

import json

import numpy as np
import pytest

import fairmend
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.unequal_map import _words
from fairmend.spec import Feature, Spec
from support.quantify_cases import SMALL, linear

SPEC = Spec([*SMALL.features, Feature(name="income", kind="continuous", range=(0, 65536))])


@pytest.mark.parametrize(
    ("axis", "first", "last", "words"),
    [
        (0, 5, 9, "hours from 5"),
        (0, 0, 3, "hours up to 3"),
        (0, 2, 3, "hours 2 to 3"),
        (0, 0, 0, "hours 0"),
        (1, 0, 1, "colour red or green"),
        (2, 3, 3, "level top"),
        (3, 100, 199, "income 100 to 200"),
        (3, 0, 99, "income up to 100"),
    ],
)
def test_a_range_in_words(axis, first, last, words):
    people = Decider(linear([1, 0, 0, 0, 0, 0, 0], 0), SPEC).people
    assert _words(SPEC.features[1 + axis], people.axes[axis], first, last) == words


def test_a_result_in_plain_values_and_in_a_line():
    found = fairmend.quantify(linear([10, 0.1, 0, 0, 0, 0], -220), SMALL, seconds=5)
    assert repr(found).startswith("QuantifyResult(fair 0 %, unfair 100 %, undecided 0 %; 1 boxes")
    document = json.loads(json.dumps(found.as_dict()))
    assert document["boxes"][0]["text"] == "all people: age decides"
    assert document["boxes"][0]["positive"] == {"age": 24}
    assert document["rows"] is None
    assert np.isclose(document["unfair"], 1)
