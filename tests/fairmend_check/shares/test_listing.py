"""Leaves whose people are listed: counted as an enumeration counts them."""

import tracemalloc

import numpy as np
import pytest

from fairmend.network import Activation, Affine, Network
from fairmend.quantifying.decide import Decider
from fairmend.spec import Feature, Spec
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.shares import listing
from fairmend_check.shares.listing import count_inputs, list_people
from fairmend_check.shares.people import Boxes
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.tally import Counts
from support.checker_models import checked_model
from support.quantify_cases import LINKED, SMALL, SPECS, TOLERANT, unequal_people
from support.share_cases import CONTINUOUS, checked_spec, many_linked, people_of_spec, random_leaves
from support.strategies import random_network


@pytest.fixture(params=["forms first", "all listed"], autouse=True)
def _forms(request, monkeypatch):
    """Linear forms decide most people before the others are listed; without them, all are."""
    if request.param == "all listed":
        monkeypatch.setattr(listing._Listed, "_decide_by_forms", lambda self, rows: None)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 300, 10**6])
def test_people_are_counted_one_by_one(outputs, at_once, monkeypatch):
    monkeypatch.setattr(listing, "_NUMBERS", at_once)
    rng = np.random.default_rng(3)
    net, people = random_network(rng, SMALL.width, [5], outputs), people_of_spec(SMALL)
    leaves = random_leaves(people, rng, 6)
    model, n = checked_model(net), len(leaves.first)
    found = Counts(np.zeros(n), np.zeros(n), np.zeros(n, bool))
    prover = Prover(model, checked_spec(SMALL), people)
    list_people(prover, leaves, found, np.arange(1, n))
    unequal = [unequal_people(net, SMALL, leaves, row) for row in range(n)]
    assert found.unfair.tolist() == [0, *(each.sum() for each in unequal[1:])]
    assert found.fair.tolist() == [0, *((~each).sum() for each in unequal[1:])]
    assert found.exact.tolist() == [False] + [True] * (n - 1)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("at_once", [1, 10**6])
@pytest.mark.parametrize("name", ["tolerant", "many", "offsets", "dropped"])
def test_similar_people_within_tolerances_and_many_protected_values_are_listed(name, at_once, outputs, monkeypatch):
    monkeypatch.setattr(listing, "_NUMBERS", at_once)
    rng, spec = np.random.default_rng(outputs), {**SPECS, **LINKED}[name]
    net, people = random_network(rng, spec.width, [5], outputs), people_of_spec(spec)
    leaves = random_leaves(people, rng, 3)
    n = len(leaves.first)
    found = Counts(np.zeros(n), np.zeros(n), np.zeros(n, bool))
    prover = Prover(checked_model(net), checked_spec(spec), people)
    list_people(prover, leaves, found, np.arange(n))
    unequal = [unequal_people(net, spec, leaves, row) for row in range(n)]
    assert found.unfair.tolist() == [each.sum() for each in unequal]
    assert found.fair.tolist() == [(~each).sum() for each in unequal]


def test_tolerances_in_many_features_take_no_memory_for_differences_that_leave_the_range():
    """Twelve features with two values each: 4,096 people, who are all similar, but 3^12 differences within 1."""
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    spec = Spec([sex, *(Feature(name=f"f{k}", kind="integer", range=(0, 1), tolerance=1) for k in range(12))])
    net, people = random_network(np.random.default_rng(0), spec.width, [4]), people_of_spec(spec)
    found, cell = Counts(np.zeros(1), np.zeros(1), np.zeros(1, bool)), np.zeros((1, 12), np.int64)
    prover = Prover(checked_model(net), checked_spec(spec), people)
    tracemalloc.start()
    list_people(prover, Boxes(cell, cell), found, np.arange(1))
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()
    assert found.fair[0] + found.unfair[0] == 1


def test_only_single_people_are_listed():
    """With tolerances, all cells are similar to someone in the box of all people."""
    for spec, inputs in ((SMALL, 600), (TOLERANT, 288), (CONTINUOUS, np.inf)):
        people = people_of_spec(spec)
        root = random_leaves(people, np.random.default_rng(0), 0)
        assert count_inputs(people, root).tolist() == [inputs]


def test_a_linked_feature_of_many_categories_needs_memory_for_each(monkeypatch):
    """People of two leaves, each with two sexes, fit into what is evaluated at once, but not with all categories."""
    spec = many_linked(1, 100)
    people, net = people_of_spec(spec), random_network(np.random.default_rng(3), spec.width, [])
    prover, rows = Prover(checked_model(net), checked_spec(spec), people), []
    whole = people.inputs
    object.__setattr__(people, "inputs", lambda cells, *of: [rows.append(len(cells)), whole(cells, *of)][1])
    monkeypatch.setattr(listing, "_NUMBERS", 2 * 200 * 100)
    job = np.arange(4)[:, None] * [1, 0]
    list_people(prover, Boxes(job, job), Counts(np.zeros(4), np.zeros(4), np.zeros(4, bool)), np.arange(4))
    assert rows in ([1, 1, 1, 1], [])  # forms decide all of them


@pytest.mark.parametrize("seed", range(20))
def test_a_run_in_single_precision_is_within_the_error_of_inference(seed):
    """Otherwise twice this error would not bound what another program computes."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, SMALL.width, [30, 20], int(rng.integers(1, 4)))
    decider = Decider(net, SMALL)
    people, model = decider.people, decider.model
    error = decider.prover.errors(people.everyone)[0]
    cells = rng.integers(0, people.everyone.last + 1, (500, len(people.axes)))
    run = listing._OwnRun.of(model)
    outputs, same, apart = run(model, people.inputs(cells, people.values, np.float32))
    low, high = interval_layers(model, *[people.inputs(cells, people.values)] * 2)[-1]
    assert outputs is same
    assert apart == np.inf
    forms = decider.prover.requirement.outputs
    off = np.abs((outputs - (low + high) / 2) @ forms.T).max()
    assert 0 < off <= error


def test_only_affine_layers_and_relus_are_run_in_single_precision():
    rng = np.random.default_rng(0)
    plain = random_network(rng, SMALL.width, [4], 1)
    assert listing._OwnRun.of(checked_model(plain)) is not None
    assert listing._OwnRun.of(checked_model(plain.astype(np.float64))) is None
    layers = [Affine(np.ones((1, width), np.float32), np.zeros(1, np.float32)) for width in (SMALL.width, 1)]
    for name, runs in (("relu", True), ("tanh", False)):
        model = checked_model(Network(layers, [Activation(name)]))
        assert (listing._OwnRun.of(model) is not None) == runs
