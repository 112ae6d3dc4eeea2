"""What is decided about a box is true for everyone in it, by enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup
from fairmend.quantifying.certificate import Evidence
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.search import Leaves
from fairmend.spec import Claim, Feature, Spec
from fairmend_check.shares.people import Boxes
from fairmend_check.shares.prove import is_blind
from support.examples import examples
from support.quantify_cases import (
    CONTINUOUS,
    LINKED,
    MANY,
    SMALL,
    SPECS,
    TOLERANT,
    linear,
    people_of,
    random_boxes,
    spreads_of,
    unequal_people,
)
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import unhurried


def decide(net, spec, boxes=None, pieces=None, error=None, **options):
    """Return the shares of boxes, or of everyone, that are treated equally and unequally: by bounds, and if listed."""
    decider = Decider(net, spec, pieces, **options)
    boxes = decider.people.everyone if boxes is None else boxes
    error = np.full(len(boxes), decider.prover.errors(decider.people.everyone)[0] if error is None else error)
    found = [decider.decide(boxes, error)] + ([decider.list_people(boxes, error)] if decider.people.finite else [])
    return [each.counts.shares(boxes) for each in found]


def require_lower_bounds(found, truth):
    """``truth`` is the share of each box that is treated unequally."""
    for fair, unfair in found:
        assert (unfair <= np.array(truth) + 1e-12).all()
        assert (fair <= 1 - np.array(truth) + 1e-12).all()


@unhurried
@given(
    name=st.sampled_from([*SPECS, *LINKED]),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 4),
    activation=st.sampled_from(ACTIVATIONS),
    dtype=st.sampled_from([np.float32, np.float64]),
    threshold=st.sampled_from([0.5, 0.3]),
    pieces=st.sampled_from([None, 64, 8, 2]),
    counting=st.booleans(),
)
def test_decided_shares_are_lower_bounds(name, seed, outputs, activation, dtype, threshold, pieces, counting):
    rng, spec = np.random.default_rng(seed), {**SPECS, **LINKED}[name]
    net = random_network(rng, spec.width, rng.integers(2, 6, rng.integers(1, 3)).tolist(), outputs, activation, dtype)
    if outputs <= 2 and not spec.links:
        net = net.at_threshold(threshold)
        spec = Spec(spec.features, label=fairmend.Label(column="y", positive="1", threshold=threshold))
    boxes = random_boxes(spec, rng, 4)
    truth = [unequal_people(net, spec, boxes, row).mean() for row in range(4)]
    require_lower_bounds(decide(net, spec, boxes, pieces, counting=counting), truth)


@examples(30)
@given(
    name=st.sampled_from([*SPECS, *LINKED]),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    on=st.sampled_from(["probability", "logit"]),
    pieces=st.sampled_from([None, 2]),
)
def test_decided_shares_of_scores_are_lower_bounds(name, seed, outputs, on, pieces):
    """Delta is the spread of someone in the box, so that ties are near."""
    rng, spec = np.random.default_rng(seed), {**SPECS, **LINKED}[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    boxes = random_boxes(spec, rng, 3)
    spread = [spreads_of(net, with_claim(spec, 0.5, on), boxes, row) for row in range(3)]
    delta = float(np.clip(rng.choice(spread[0]), 1e-6, 0.999))
    truth = [(each > delta).mean() for each in spread]
    require_lower_bounds(decide(net, with_claim(spec, delta, on), boxes, pieces), truth)


def with_claim(spec, delta, on):
    return Spec(spec.features, links=spec.links, claim=Claim("score", delta, on))


def test_a_linear_network_is_decided_but_for_the_slab_of_rounding():
    """Class 1 if hours + age is large: everyone near the boundary is treated unequally, and counted as such."""
    net = linear([1, 3, 0, 0, 0, 0], -22.5)
    unequal = unequal_people(net, SMALL).mean()
    assert 0.1 < unequal < 0.9
    for fair, unfair in decide(net, SMALL):
        assert unfair[0] == pytest.approx(unequal, abs=1e-6)
        assert fair[0] == pytest.approx(1 - unequal, abs=1e-6)


@pytest.mark.parametrize(("beyond", "decided"), [(2e-7, False), (1e-4, True)])
def test_a_logit_that_a_probability_may_round_to_the_threshold_is_not_decided(beyond, decided):
    """The file has no sigmoid; a program that computes one in float32 and compares with 0.7 rounds such a logit."""
    spec = Spec(SMALL.features, label=fairmend.Label(column="y", positive="1", threshold=0.7))
    net = linear([0, 1e-9, 0, 0, 0, 0], np.log(0.7 / 0.3) + beyond).at_threshold(0.7)
    for fair, _ in decide(net, spec, error=0.0):
        assert (fair[0] == 1) == decided


def test_some_of_three_classes_are_proven_to_be_unequal_for_part_of_a_box():
    proven = []
    for seed in range(20):
        net = random_network(np.random.default_rng(seed), SMALL.width, [4], 3)
        boxes = random_boxes(SMALL, np.random.default_rng(seed), 20)
        truth = np.array([unequal_people(net, SMALL, boxes, row).mean() for row in range(20)])
        found = decide(net, SMALL, boxes, 2)
        require_lower_bounds(found, truth)
        proven += found[0][1][(found[0][1] > 0) & (found[0][1] < 1) & (truth < 1)].tolist()
    assert proven


def test_a_box_of_one_cell_is_not_split():
    decider = Decider(linear([1, 3, 0, 0, 0, 0], -22.5), SMALL)
    cell = decider.people.everyone.first
    assert decider.decide(Boxes(cell, cell), np.zeros(1)).axis[0] == -1


def test_a_single_cell_is_decided_with_the_error_of_inference_at_that_cell():
    decider = Decider(linear([0.01, 3, 0, 0, 0, 0], 0.1), SMALL, counting=False)
    cell = decider.people.everyone.last
    found = decider.decide(Boxes(cell, cell), np.array([1e6]))
    assert found.counts.fair[0] == 1
    assert found.error[0] < 1e-3


def test_what_both_cases_have_in_common_cancels():
    """The score changes a lot with hours, but by 0.4 with age for everyone: one box is enough."""
    net = linear([0.1, 50, 0, 0, 0, 0], 0)
    for delta, fair in ((0.41, 1), (0.39, 0)):
        found = fairmend.quantify(net, with_claim(SMALL, delta, "logit"), seconds=5)
        assert (found.fair, found.unfair, found.leaves) == (fair, 1 - fair, 1)
        assert not fair or not found.boxes
    assert found.boxes[0].text == "all people: age decides"
    assert (found.boxes[0].positive, found.boxes[0].negative) == ({"age": 24}, {"age": 20})
    assert found.boxes[0].classes is None


@pytest.mark.parametrize("outputs", [1, 2])
def test_people_of_a_continuous_space_are_counted(outputs):
    spec = with_claim(CONTINUOUS, 0.1, "probability")
    net = random_network(np.random.default_rng(3), spec.width, [4], outputs)
    found = fairmend.quantify(net, spec, seconds=10, share=0.1, samples=5000)
    assert found.undecided <= 0.1
    assert found.unfair - 0.02 <= found.sampled <= 1 - found.fair + 0.02


def test_rows_are_counted_too():
    spec = with_claim(SMALL, 0.05, "probability")
    net = random_network(np.random.default_rng(5), spec.width, [4])
    beyond = spreads_of(net, spec)[[0, -1]] > 0.05
    found = fairmend.quantify(net, spec, seconds=5, X=people_of(spec)[[0, -1]])
    assert (found.rows.unfair, found.rows.fair) == (beyond.sum(), (~beyond).sum())


def test_few_protected_values_are_pieces_of_their_own_and_many_are_ranges():
    few, many = (
        Decider(random_network(np.random.default_rng(0), s.width, [3]), s).people.pieces for s in (SMALL, MANY)
    )
    assert len(few.first) == 5
    assert 2 <= len(many.first) <= 4
    covered = set()
    for first, last in zip(many.first.tolist(), many.last.tolist(), strict=True):
        covered |= set(product(*(range(start, end + 1) for start, end in zip(first, last, strict=True))))
    assert len(covered) == 43 * 3


def test_protected_columns_that_are_not_read_need_one_piece():
    decider = Decider(linear([0, 1, 0, 0, 0, 0], 0), SMALL)
    assert decider.parts == [1]
    assert is_blind(decider.model, decider.people)
    tolerant = Decider(linear([0, 0, 1, 0, 0], 0), TOLERANT)
    assert not is_blind(tolerant.model, tolerant.people)


def test_too_many_values_are_refused():
    spec = Spec([SMALL.features[0], Feature(name="amount", kind="integer", range=(0, 10**10))])
    with pytest.raises(FairmendError, match='"amount" has 10,000,000,001 values; quantify takes at most'):
        Decider(linear([1, 1], 0), spec)


def network_with_a_table():
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


def looked_up(kind="integer", high=3, protected="level"):
    return Spec(
        [
            Feature(name="job", kind=kind, range=(0, high), protected=protected == "job"),
            Feature(name="level", kind="integer", range=(-2, 2), protected=protected == "level"),
            Feature(name="hours", kind="integer", range=(-3, 3)),
        ]
    )


@pytest.mark.parametrize("protected", ["job", "level"])
def test_a_network_with_a_table_is_quantified(protected):
    net, spec = network_with_a_table(), looked_up(protected=protected)
    found = fairmend.quantify(net, spec, seconds=5)
    assert found.unfair == pytest.approx(unequal_people(net, spec).mean(), abs=1e-6)
    assert found.undecided < 1e-6


@pytest.mark.parametrize("wrong", [{"kind": "continuous"}, {"high": 4}])
def test_values_without_a_row_are_refused(wrong):
    with pytest.raises(FairmendError, match='"job": the network looks up its value in a table of 4 rows'):
        fairmend.quantify(network_with_a_table(), looked_up(**wrong), seconds=1)


@pytest.mark.parametrize("protected", ["job", "level"])
def test_shares_of_a_network_with_a_table_are_certified(protected, tmp_path, monkeypatch):
    """By linear bounds: people are not listed."""
    monkeypatch.setattr("fairmend_check.shares.prove.FEW_INPUTS", 0)
    monkeypatch.setattr("fairmend_check.shares.prove.LISTED_INPUTS", 0)
    net, spec = network_with_a_table(), looked_up(protected=protected)
    net.save(tmp_path / "model.onnx")
    found = fairmend.quantify(tmp_path / "model.onnx", spec, seconds=5, samples=0)
    decider = Decider(net, spec)
    single = Leaves(decider.people.everyone, decider.decide(decider.people.everyone, np.full(1, 1e-4)))
    while (rows := np.flatnonzero((single.boxes.last > single.boxes.first).any(axis=1))).size:
        halves = single.boxes.take(rows).halved((single.boxes.last - single.boxes.first)[rows].argmax(axis=1))
        single.replace(rows, halves, decider.decide(halves, np.full(len(halves), 1e-4)))
    truth = unequal_people(net, spec)
    for leaves in (found.evidence.leaves, single):
        evidence = Evidence(net, spec, decider.people, decider.parts, leaves)
        evidence.certificate().save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
        assert checked.readable
        assert checked.unfair <= truth.mean()
        assert checked.fair <= 1 - truth.mean()
    assert checked.valid, checked.reasons
    assert checked.fair + checked.unfair > 0.9
