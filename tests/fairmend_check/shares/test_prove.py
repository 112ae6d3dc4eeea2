"""Shares of all people: at most what is true, for random networks, specs and trees."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network import Activation, Affine, Network
from fairmend.spec import Claim, Feature, Label, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.spec import read_spec
from fairmend_check.shares import prove as proving
from fairmend_check.shares import prover as of_boxes
from fairmend_check.shares.people import People
from fairmend_check.shares.prove import LINEAR, LISTED, NOTHING, WHOLE, Leaves, prove_shares
from support.checker_models import checked_model, make_model
from support.examples import examples
from support.quantify_cases import SMALL, SPECS, TOLERANT, linear, unequal_people
from support.share_cases import (
    CONTINUOUS,
    checked_spec,
    many_linked,
    part_of,
    people_of_spec,
    random_leaves,
)
from support.strategies import random_network

RELU = Activation("relu")
FUNCTIONS = ["relu", "leaky_relu", "tanh", "sigmoid"]


def prove(net, spec, people, leaves):
    return prove_shares(checked_model(net), checked_spec(spec), people, leaves)


@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(list(SPECS)),
    hidden=st.sampled_from([[], [4], [5, 3]]),
    function=st.sampled_from(FUNCTIONS),
    threshold=st.sampled_from([0.5, 0.3, 0.9]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_counts_are_at_most_those_of_an_enumeration(seed, name, hidden, function, threshold, dtype):
    """In every leaf by itself, so that errors of two leaves cannot cancel."""
    rng = np.random.default_rng(seed)
    spec = Spec(SPECS[name].features, label=Label(column="y", positive="1", threshold=threshold))
    outputs = int(rng.integers(1, 5)) if threshold == 0.5 else int(rng.integers(1, 3))
    net = random_network(rng, spec.width, hidden, outputs, function, dtype).at_threshold(threshold)
    parts = [int(rng.integers(1, min(axis.cells, 8) + 1)) for axis in people_of_spec(spec).protected]
    people = people_of_spec(spec, parts, net.dtype.name)
    leaves = random_leaves(people, rng, 4)
    leaves = Leaves(leaves.first, leaves.last, rng.choice([LINEAR, LISTED, WHOLE], len(leaves.first)))
    for row in range(len(leaves.first)):
        found = prove(net, spec, people, part_of(leaves, row))
        unequal = unequal_people(net, spec, leaves, row)
        assert found.unfair <= unequal.sum()
        assert found.fair <= (~unequal).sum()


@examples(15)
@given(
    seed=st.integers(0, 2**32 - 1),
    function=st.sampled_from(FUNCTIONS),
    cells=st.sampled_from([1, 2, 2**16]),
)
def test_shares_of_continuous_people_agree_with_a_sample(seed, function, cells):
    """What is proven rests on these protected values and on full tolerances, so the sample finds it too."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, CONTINUOUS.width, [4], 1, function)
    people = people_of_spec(CONTINUOUS, [2, min(8, cells)], cells=cells)
    found = prove(net, CONTINUOUS, people, random_leaves(people, rng, 30))
    unequal = sampled_unequal(net, 2000, rng)
    assert found.fair / found.cells <= 1 - unequal.mean() + 0.05
    assert found.unfair / found.cells <= unequal.mean() + 0.05


def sampled_unequal(net, count, rng):
    """Return which random people get another class with another sex, age at the end of a piece, or income."""
    features = {feature.name: feature for feature in CONTINUOUS.features}
    income, others = rng.uniform(0, 100, count), CONTINUOUS.sample_inputs(count, rng)
    classes = []
    for sex, age, step in product((0, 1), np.linspace(18, 60, 9), (-2.5, 0, 2.5)):
        X = others.copy()
        values = {"sex": np.full(count, sex), "age": np.full(count, age), "income": np.clip(income + step, 0, 100)}
        for name, value in values.items():
            X[:, CONTINUOUS.columns(name)] = features[name].encode(value.astype(np.float64))
        classes.append(net.predict(X))
    return np.ptp(np.array(classes), axis=0) > 0


def test_a_planted_person_in_a_box_is_not_fair():
    """Age decides for one of 120 people: hours 9, blue and level top. Everyone else gets class 1."""
    first = Affine(np.array([[1, 30, 0, 0, 100, 100]], np.float32), np.array([40 - 20 - 491.5], np.float32))
    net = Network([first, Affine(np.array([[-1]], np.float32), np.array([1], np.float32))], [Activation("relu")])
    assert unequal_people(net, SMALL).sum() == 1
    people = people_of_spec(SMALL, [5])
    root = random_leaves(people, np.random.default_rng(3), 0)
    assert prove(net, SMALL, people, root).fair <= 119
    found = prove(net, SMALL, people, random_leaves(people, np.random.default_rng(3), 3000))
    assert (found.fair, found.unfair) == (119, 1)


def test_single_cells_decide_everyone():
    net = random_network(np.random.default_rng(1), SMALL.width, [4])
    people = people_of_spec(SMALL, [5])
    found = prove(net, SMALL, people, random_leaves(people, np.random.default_rng(3), 3000))
    truth = unequal_people(net, SMALL)
    assert (found.cells, found.fair, found.unfair) == (120, (~truth).sum(), truth.sum())


def test_a_tolerance_alone_can_decide():
    """Only hours and grade are read: some people are treated unequally within the tolerances."""
    net = linear([0, 0, 1, 0.3, 0], -1.03)
    truth = unequal_people(net, TOLERANT)
    people = people_of_spec(TOLERANT)
    found = prove(net, TOLERANT, people, random_leaves(people, np.random.default_rng(3), 500))
    assert 0 < found.unfair <= truth.sum()
    assert found.fair == (~truth).sum()


def test_leaves_without_a_claim_are_left_out():
    net, people = linear([0.01, 1, 0, 0, 0, 0], -0.9), people_of_spec(SMALL)
    leaves = random_leaves(people, np.random.default_rng(3), 4)
    nothing = Leaves(leaves.first, leaves.last, np.full(len(leaves.first), NOTHING))
    assert prove(net, SMALL, people, leaves).fair > 0
    found = prove(net, SMALL, people, nothing)
    assert (found.fair, found.unfair) == (0, 0)


@pytest.mark.parametrize("weight", [0.0, -0.0, 1e-30])
def test_a_blind_network_is_fair_to_everyone(weight):
    """Also where its lead is 0; but a weight that is not 0 may decide there."""
    people = people_of_spec(SMALL)
    found = prove(linear([weight, 0, 0, 0, 0, 0], 0), SMALL, people, random_leaves(people, np.random.default_rng(0), 0))
    assert (found.fair, found.unfair) == ((120, 0) if weight == 0 else (0, 0))


def test_numbers_that_overflow_prove_nothing():
    net = Network(
        [
            Affine(np.full((2, 6), 3e38, np.float32), np.zeros(2, np.float32)),
            Affine(np.ones((1, 2), np.float32), np.ones(1, np.float32)),
        ],
        [Activation("relu")],
    )
    people = people_of_spec(SMALL)
    found = prove(net, SMALL, people, random_leaves(people, np.random.default_rng(0), 10))
    assert (found.fair, found.unfair) == (0, 0)


def test_a_spec_of_protected_features_only_is_one_person():
    spec = Spec([Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)])
    people = people_of_spec(spec, [2])
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    assert vars(prove(linear([1], -0.5), spec, people, leaves)) == {"cells": 1, "fair": 0, "unfair": 1}
    assert vars(prove(linear([1], 0.5), spec, people, leaves)) == {"cells": 1, "fair": 1, "unfair": 0}


def test_listed_people_are_decided_in_one_leaf():
    """Of five classes as well, and all who are decided are."""
    net = random_network(np.random.default_rng(9), SMALL.width, [6], 5)
    truth = unequal_people(net, SMALL)
    assert 0 < truth.sum() < 120
    people = people_of_spec(SMALL)
    root = random_leaves(people, np.random.default_rng(0), 0)
    found = prove(net, SMALL, people, Leaves(root.first, root.last, np.array([LISTED])))
    assert (found.fair, found.unfair) == ((~truth).sum(), truth.sum())


def test_many_classes_are_counted_in_a_leaf():
    """By hours alone one of three classes leads; age moves the borders a little."""
    first = np.array([[0, -3, 0, 0, 0, 0], [0.1, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0]], np.float32)
    net = Network([Affine(first, np.zeros(3, np.float32))], [])
    truth = unequal_people(net, SMALL)
    people = people_of_spec(SMALL, [5])
    found = prove(net, SMALL, people, random_leaves(people, np.random.default_rng(0), 0))
    assert 0 < found.fair <= (~truth).sum()
    assert found.unfair <= truth.sum()


def test_a_leaf_that_is_claimed_as_a_whole_is_halved(monkeypatch):
    """The lead is |hours'| - 0.1 and more: the bounds of all hours together are too loose for it."""
    monkeypatch.setattr(proving, "FEW_INPUTS", 0)
    first = Affine(np.array([[0, 1, 0, 0, 0, 0], [0.001, -1, 0, 0, 0, 0]], np.float32), np.zeros(2, np.float32))
    net = Network([first, Affine(np.ones((1, 2), np.float32), np.array([-0.1], np.float32))], [Activation("relu")])
    odd = [replace(f, scale={"mean": 4.5, "std": 3}) if f.name == "hours" else f for f in SMALL.features]
    people = people_of_spec(Spec(odd))
    root = random_leaves(people, np.random.default_rng(0), 0)
    assert prove(net, Spec(odd), people, root).fair < 120
    assert prove(net, Spec(odd), people, Leaves(root.first, root.last, np.array([WHOLE]))).fair == 120


def work_of(net, spec, people, leaves):
    """Return what proving leaves costs: the least limit that allows it."""
    made = []

    class Noted(of_boxes.Work):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_boxes, "Work", Noted)
        prove(net, spec, people, leaves)
    return made[0].done


def test_too_much_work_is_refused(monkeypatch):
    """At once, if the bounds of all leaves are too much."""
    people = people_of_spec(SMALL)
    monkeypatch.setattr(of_boxes, "MAX_WORK", 1)
    monkeypatch.setattr(proving, "_prove_leaves", None)
    with pytest.raises(CheckError, match=r"more than 1 multiplications .* the limit for one certificate"):
        prove(linear([1, 1, 0, 0, 0, 0], -0.9), SMALL, people, random_leaves(people, np.random.default_rng(3), 4))


def test_each_halving_of_a_leaf_is_work(monkeypatch):
    """A leaf that is claimed as a whole is halved into 31 boxes if it is not proven; a forger can claim that of all."""
    monkeypatch.setattr(proving, "FEW_INPUTS", 0)
    people, net = people_of_spec(SMALL), linear([1, 0.1, 0, 0, 0, 0], -22.05)
    root = random_leaves(people, np.random.default_rng(0), 0)
    whole = Leaves(root.first, root.last, np.array([WHOLE]))
    work = work_of(net, SMALL, people, whole)
    assert work > 3 * work_of(net, SMALL, people, root)
    monkeypatch.setattr(of_boxes, "MAX_WORK", work - 1)
    with pytest.raises(CheckError, match="the limit for one certificate"):
        prove(net, SMALL, people, whole)


def test_work_grows_with_pairs_of_classes(monkeypatch):
    """Each is bounded and counted by itself: of 100 classes, a leaf takes seconds."""
    people = people_of_spec(SMALL)
    root = random_leaves(people, np.random.default_rng(3), 0)
    rng = np.random.default_rng(0)
    few, many = (work_of(random_network(rng, SMALL.width, [], count), SMALL, people, root) for count in (3, 12))
    assert many > 12 * 11 / (3 * 2) * few / 2
    monkeypatch.setattr(of_boxes, "MAX_WORK", 10**9)
    with pytest.raises(CheckError, match="the limit for one certificate"):
        prove(random_network(rng, SMALL.width, [], 100), SMALL, people, root)


def test_work_for_scores_grows_with_pairs_of_pieces(monkeypatch):
    """Comparing many pieces of one leaf takes hours, and the memory for all pairs at once."""
    spec = Spec([replace(SMALL.features[0], range=(0, 499)), *SMALL.features[1:]], claim=Claim("score", 0.1, "logit"))
    net = linear([1, 1, 0, 0, 0, 0], -0.9)
    many = people_of_spec(spec, [500])
    with monkeypatch.context() as patch:
        patch.setattr(of_boxes, "MAX_WORK", 5 * 10**8)
        with pytest.raises(CheckError, match="the limit for one certificate"):
            prove(net, spec, many, random_leaves(many, np.random.default_rng(3), 0))
    monkeypatch.setattr(proving, "MAX_NUMBERS", 500**2)
    with pytest.raises(CheckError, match="a box needs more numbers than the limit"):
        prove(net, spec, many, random_leaves(many, np.random.default_rng(3), 0))


def test_progress_counts_leaves(monkeypatch):
    monkeypatch.setattr(proving, "_MOST_LEAVES", 2)
    people, calls = people_of_spec(SMALL), []
    net = checked_model(linear([1, 1, 0, 0, 0, 0], -0.9))
    leaves = random_leaves(people, np.random.default_rng(3), 4)
    prove_shares(net, checked_spec(SMALL), people, leaves, lambda *counts: calls.append(counts))
    assert calls == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("proof", [WHOLE, LISTED, LINEAR])
@pytest.mark.parametrize("cells", [1, 2, 2**16])
def test_a_continuous_feature_counts_with_its_whole_range(proof, cells):
    """However few cells a certificate gives it."""
    age = Feature(name="age", kind="continuous", range=(0, 1), protected=True)
    hours = Feature(name="hours", kind="integer", range=(0, 9))
    assert all_in_one(linear([1, 0.001], -0.5), Spec([age, hours]), proof, cells).fair == 0
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    income = Feature(name="income", kind="continuous", range=(0, 1))
    found = all_in_one(linear([0.1, 1], -0.05), Spec([sex, income]), proof, cells)
    assert found.unfair <= 0.11 * found.cells


def all_in_one(net, spec, proof, cells, parts=None):
    """Return what is proven of one leaf that holds everyone."""
    people = people_of_spec(spec, parts, cells=cells)
    last = np.array([[axis.cells - 1 for axis in people.axes]])
    return prove(net, spec, people, Leaves(np.zeros_like(last), last, np.array([proof])))


def test_a_tolerance_above_the_range_makes_nobody_unequal():
    age = Feature(name="age", kind="integer", range=(0, 9), protected=True)
    hours = Feature(name="hours", kind="integer", range=(0, 9), tolerance=100)
    spec = Spec([age, hours])
    hidden = Affine(np.array([[1, 0], [1, 0], [0, 1]], np.float32), np.array([-5, -5, 1], np.float32))
    net = Network([hidden, Affine(np.array([[1, -1, 0.05]], np.float32), np.array([-1.05], np.float32))], [RELU])
    people = people_of_spec(spec)
    for first, last in ((0, 0), (9, 9), (0, 9)):
        leaves = Leaves(np.array([[first]]), np.array([[last]]), np.array([LINEAR]))
        assert prove(net, spec, people, leaves).unfair == 0


@pytest.mark.parametrize("irrelevant", [6, 40])
def test_shares_of_more_people_than_a_double_can_count_are_rounded_down(irrelevant):
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    hours = Feature(name="hours", kind="integer", range=(0, 1))
    others = [Feature(name=f"f{k}", kind="integer", range=(1, 5755)) for k in range(irrelevant)]
    found = all_in_one(linear([2, 10, *[0] * irrelevant], -11), Spec([sex, hours, *others]), LINEAR, 2, parts=[2])
    assert 0.499 * found.cells < found.unfair <= found.cells // 2
    assert 0.499 * found.cells < found.fair <= found.cells // 2


def test_listed_people_may_have_many_features():
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    spec = Spec([sex, *(Feature(name=f"f{k}", kind="integer", range=(0, 1)) for k in range(70))])
    people = people_of_spec(spec)
    first = np.zeros((1, 70), np.int64)
    last = first.copy()
    last[0, :3] = 1
    found = prove(linear([1, 1, *[0] * 69], -1.5), spec, people, Leaves(first, last, np.array([LISTED])))
    assert (found.fair, found.unfair) == (4, 4)


def rows_at_once(monkeypatch):
    """Return a list that will have the number of boxes of each step."""
    rows, whole = [], of_boxes.Prover.prove

    def prove_some(self, boxes, count):
        rows.append(len(boxes))
        return whole(self, boxes, count)

    monkeypatch.setattr(of_boxes.Prover, "prove", prove_some)
    return rows


def test_halves_are_not_proven_all_at_once(monkeypatch):
    """Four halvings make 16 boxes of each, and all of them would need memory."""
    monkeypatch.setattr(proving, "_MOST_LEAVES", 2)
    rows, people = rows_at_once(monkeypatch), people_of_spec(SMALL)
    leaves = random_leaves(people, np.random.default_rng(3), 4)
    monkeypatch.setattr(proving, "FEW_INPUTS", 0)
    undecided = linear([1e-9, 0, 0, 0, 0, 0], 0)
    assert prove(undecided, SMALL, people, replace(leaves, proof=np.full(5, WHOLE))).fair == 0
    assert max(rows) == 2
    assert sum(rows) > 40


def test_leaves_that_need_many_coefficients_are_proven_some_at_once(monkeypatch):
    """Those of each lead in each piece, and in a column for each category of a linked feature."""
    spec = many_linked(1, 1000)
    people = people_of_spec(spec, [2])
    rows, net = rows_at_once(monkeypatch), linear([1, 0.001], -0.5)
    coefficients = 2 * len(people.pieces.first) * people.width
    monkeypatch.setattr(proving, "FEW_INPUTS", 0)
    monkeypatch.setattr(proving, "_COEFFICIENTS", 3 * coefficients)
    prove(net, spec, people, random_leaves(people, np.random.default_rng(3), 6))
    assert rows == [3, 3, 1]
    monkeypatch.setattr(proving, "MAX_NUMBERS", coefficients - 1)
    with pytest.raises(CheckError, match="a box needs more numbers than the limit"):
        prove(net, spec, people, random_leaves(people, np.random.default_rng(3), 6))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("on", [None, "probability", "logit"])
def test_of_what_overflows_nothing_is_proven(on):
    """The spec of a certificate may have any scale that is finite."""
    age = {"name": "age", "kind": "integer", "range": [0, 4], "protected": True, "scale": {"mean": -1e308, "std": 1}}
    hours = {"name": "hours", "kind": "integer", "range": [-1, 1], "tolerance": 1}
    claim = {} if on is None else {"claim": {"kind": "score", "delta": 0.1, "on": on}}
    spec = read_spec({"feature": [age, hours], **claim}, "spec")
    people = People.of(spec, "float64", 1, [1])
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    found = prove_shares(make_model([(np.ones((1, 2)), None)], []), spec, people, leaves)
    assert found.unfair == 0
    assert on is None or found.fair == 0
