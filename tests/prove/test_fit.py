"""Specs that do not describe what a network reads."""

import numpy as np
import pytest

from fairmend import FairmendError, Feature, Spec
from fairmend.network import Affine, Columns, Concatenate, Input, Lookup, Network, Node
from fairmend.prove.fit import require_fit


def network(names=(("cat", 1), ("cont", 1))):
    head = Affine(np.ones((1, 3)), np.zeros(1))
    nodes = [Node(Input(2, names)), Node(Columns((0,)), (0,)), Node(Lookup(np.eye(2)), (1,), "emb"),
             Node(Columns((1,)), (0,)), Node(Concatenate(), (2, 3)), Node(head, (4,), "head")]  # fmt: skip
    return Network.from_nodes(nodes)


SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True, input="cat")
AGE = Feature("age", "integer", range=(18, 70), input="cont")


def test_features_in_the_order_of_the_inputs_fit():
    require_fit(network(), Spec([SEX, AGE]))


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([SEX], "reads 2 columns, but the spec describes 1"),
        ([AGE, SEX], "feature 'age' has input = 'cont', but the network reads it elsewhere.*cat \\(1 columns\\), cont"),
        ([Feature("sex", "integer", range=(0, 2), protected=True), AGE], "table of 2 rows.*whole numbers from 0 to 1"),
        ([Feature("sex", "continuous", range=(0, 1), protected=True), AGE], "it has continuous values from 0 to 1"),
        ([Feature("sex", "integer", range=(0, 1), scale={"mean": 0, "std": 2}, protected=True), AGE], "scaled"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(features, words):
    with pytest.raises(FairmendError, match=words) as caught:
        require_fit(network(), Spec(features))
    assert "\n" not in str(caught.value)


def test_an_input_of_a_model_that_has_one_only_is_refused():
    with pytest.raises(FairmendError, match="one input without a name"):
        require_fit(network(names=()), Spec([SEX, AGE]))
