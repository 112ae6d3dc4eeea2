"""Values that a network cannot look up are refused by the name of the feature."""

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup
from fairmend.quantifying.certificate import Evidence
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.leaves import Leaves
from fairmend.quantifying.space import Boxes, make_space
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


@pytest.mark.parametrize("protected", ["job", "level"])
def test_shares_of_a_network_with_a_table_are_certified(protected, tmp_path, monkeypatch):
    """By linear bounds: people are not listed."""
    monkeypatch.setattr("fairmend_check.shares.prove.FEW_INPUTS", 0)
    monkeypatch.setattr("fairmend_check.shares.prove.LISTED_INPUTS", 0)
    people = spec(protected=protected)
    network().save(tmp_path / "model.onnx")
    found = fairmend.quantify(tmp_path / "model.onnx", people, seconds=5, samples=0)
    space = make_space(network(), people)
    cells = np.stack(np.meshgrid(*(np.arange(axis.cells) for axis in space.axes), indexing="ij"), -1).reshape(-1, 2)
    decided = Decider(network(), space).decide(Boxes(cells, cells), np.full(len(cells), 1e-4))
    single = Leaves(Boxes(cells, cells), np.full(len(cells), 1 / len(cells)), decided)
    for leaves in (found.evidence.leaves, single):
        evidence = Evidence(network(), space, leaves)
        evidence.certificate().save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
        truth = unequal_people(network(), space, space.root(), 0)
        assert checked.readable
        assert checked.unfair <= truth.mean()
        assert checked.fair <= 1 - truth.mean()
    assert checked.valid, checked.reasons
    assert checked.fair + checked.unfair > 0.9
