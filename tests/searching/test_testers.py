"""Each tester follows its paper: the gradients it uses, the neurons it calls biased, and how its populations evolve."""

import numpy as np
import pytest

from fairmend.network import Activation, Affine, Network
from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.gradients import forward, layer_nodes, loss_gradient, output_gradient
from fairmend.searching.oracle import Oracle
from fairmend.searching.testers import (
    METHODS,
    _evolve,
    _fitness,
    _make_children,
    _mutate,
    biased_neurons,
    difference_gradient,
)
from support.search_cases import biased, check_starts, people, spec


@pytest.mark.parametrize(("tester", "gradient"), [("adf", loss_gradient), ("eidig", output_gradient)])
def test_a_tester_uses_the_gradient_of_its_paper_and_more_steps_reach_more_idis(tester, gradient):
    check_starts(METHODS[tester].find_starts)
    assert METHODS[tester].rule.gradient is gradient


def test_the_neuron_that_reads_the_protected_feature_is_the_biased_one():
    case = spec()
    weight = np.zeros((10, case.width), np.float32)
    weight[:, 0] = 1
    weight[7, case.columns("sex")] = 5
    head = Affine(np.ones((1, 10), np.float32), np.zeros(1, np.float32))
    net = Network([Affine(weight, np.zeros(10, np.float32)), head], [Activation("relu")])
    oracle = Oracle(net, case, np.random.default_rng(0))
    hidden, outputs = biased_neurons(oracle, oracle.space.values(people(case)))
    assert np.flatnonzero(hidden).tolist() == [7]
    assert not outputs.any()


def test_the_gradient_is_that_of_finite_differences():
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    V = oracle.space.values(people(case, 40))
    others = oracle.neighbours(V, oracle.find_partners(V).partner)
    mask = [np.ones(len(affine.bias), np.bool_) for affine in oracle.net.affines]
    X, Y = (oracle.space.encode(side).astype(np.float64) for side in (V, others))

    def difference(off):
        here, there = forward(oracle.net, X + off), forward(oracle.net, Y + off)
        chosen = zip(layer_nodes(oracle.net), mask, strict=True)
        return sum((np.abs(here[node] - there[node]) * each).sum(axis=1) for node, each in chosen)

    G = difference_gradient(oracle, mask, V, others)
    assert np.abs(G).max() > 0
    for column in range(case.width):
        off = np.zeros(case.width)
        off[column] = 1e-6
        slope = (difference(off) - difference(-off)) / 2e-6
        assert np.median(np.abs(G[:, column] - slope)) < 1e-6


def test_an_idi_is_fitter_than_anyone_else():
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    found = oracle.find_partners(oracle.space.values(people(case)))
    fitness = _fitness(found)
    assert 0 < found.unequal.sum() < len(fitness)
    assert fitness[found.unequal].min() > fitness[~found.unequal].max()


def test_children_have_the_features_of_fit_parents():
    rng = np.random.default_rng(0)
    population = np.arange(4, dtype=float)[None, :, None] + np.zeros((1, 4, 3))
    fitness = np.array([[0.0, 1.0, 2.0, 3.0]])
    children = np.concatenate([_make_children(population, fitness, rng) for _ in range(50)])
    assert set(np.unique(children)) <= {0.0, 1.0, 2.0, 3.0}
    assert children.mean() > population.mean()


def test_mutation_never_changes_protected_features():
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    population = oracle.space.values(people(case, 60)).reshape(6, 10, -1)
    mutated = _mutate(oracle, population, rng)
    free = oracle.space.free
    assert np.array_equal(mutated[..., ~free], population[..., ~free])
    assert (mutated[..., free] != population[..., free]).any()


def test_every_start_is_an_idi():
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    seeds = oracle.space.values(people(case, 40))
    starts, partners = _evolve(oracle, seeds, 3, DiscoveredInstances(oracle), rng, None)
    assert len(starts) > 0
    assert (oracle.predict(starts) != oracle.predict(oracle.neighbours(starts, partners))).all()
