"""Values that a network cannot look up are refused by the name of the feature."""

import numpy as np
import pytest

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup
from fairmend.quantify.space import make_space
from fairmend.spec import Feature, Spec
from support.quantify_cases import unequal_people


def network():
    """A network that looks up its first column in a table of 4 rows."""
    rng = np.random.default_rng(0)
    nodes = [
        Node(Input(3), ()),
        Node(Columns((0,)), (0,)),
        Node(Lookup(rng.normal(size=(4, 2)).astype(np.float32)), (1,)),
        Node(Columns((1, 2)), (0,)),
        Node(Concatenate(), (2, 3)),
        Node(Affine(rng.normal(size=(3, 4)).astype(np.float32), np.zeros(3, np.float32)), (4,), "a"),
        Node(Activation("relu"), (5,)),
        Node(Affine(rng.normal(size=(1, 3)).astype(np.float32), np.full(1, 0.1, np.float32)), (6,), "b"),
    ]
    return Network.from_nodes(nodes)


def spec(kind="integer", high=3, protected="level"):
    return Spec(
        [
            Feature(name="job", kind=kind, range=(0, high), protected=protected == "job"),
            Feature(name="level", kind="integer", range=(-2, 2), protected=protected == "level"),
            Feature(name="hours", kind="integer", range=(-3, 3)),
        ]
    )


@pytest.mark.parametrize("protected", ["job", "level"])
def test_a_network_with_a_table_is_quantified(protected):
    net, people = network(), spec(protected=protected)
    found = fairmend.quantify(net, people, seconds=5)
    space = make_space(net, people)
    assert found.unfair == pytest.approx(unequal_people(net, space, space.root(), 0).mean(), abs=1e-6)
    assert found.undecided < 1e-6


@pytest.mark.parametrize("wrong", [{"kind": "continuous"}, {"high": 4}])
def test_values_without_a_row_are_refused(wrong):
    with pytest.raises(FairmendError, match='"job": the network looks up its value in a table of 4 rows'):
        fairmend.quantify(network(), spec(**wrong), seconds=1)
