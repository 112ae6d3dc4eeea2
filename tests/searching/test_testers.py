"""Each tester follows its paper: the gradients it uses, the neurons it calls biased, and how its populations evolve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.device import compute_on
from fairmend.base.gpu import CPU
from fairmend.network import Activation, Affine, Network, gradients
from fairmend.searching.oracle import Oracle
from fairmend.searching.result import DiscoveredInstances
from fairmend.searching.testers import (
    METHODS,
    _evolve,
    _fitness,
    _make_children,
    _mutate,
    backward,
    biased_neurons,
    difference_gradient,
    forward,
    layer_nodes,
    loss_gradient,
    output_gradient,
)
from support.examples import examples
from support.search_cases import biased, check_starts, people, spec
from support.strategies import networks, random_network

# The gradients are those of autograd and of finite differences.


@examples(40)
@given(networks(), st.integers(0, 2**32 - 1))
def test_gradients_are_those_of_autograd(net, seed):
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(seed).normal(size=(5, net.inputs))
    rng = np.random.default_rng(seed + 1)
    values = forward(net, X)
    slopes = [rng.normal(size=values[node].shape) for node in layer_nodes(net)]
    inputs = torch.tensor(X, requires_grad=True)
    at, total = inputs, torch.zeros(())
    for i, affine in enumerate(net.affines):
        at = at @ torch.tensor(affine.weight.T.astype(float)) + torch.tensor(affine.bias.astype(float))
        if i < len(net.activations):
            activation = net.activations[i]
            at = {
                "relu": torch.relu,
                "leaky_relu": lambda v, slope=activation.slope: torch.nn.functional.leaky_relu(v, slope),
                "tanh": torch.tanh,
                "sigmoid": torch.sigmoid,
                "identity": lambda v: v,
            }[activation.name](at)
        total = total + (at * torch.tensor(slopes[i])).sum()
    total.backward()
    found = backward(net, values, dict(zip(layer_nodes(net), slopes, strict=True)))
    assert found == pytest.approx(inputs.grad.numpy(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_loss_rises_and_the_probability_falls_towards_the_decision(outputs):
    case = spec()
    oracle = Oracle(biased(case, outputs), case, np.random.default_rng(0))
    V = oracle.space.values(people(case))
    X, net = oracle.space.encode(V).astype(np.float64), oracle.net.astype(np.float64)
    answers, rows = oracle.predict(V), np.arange(len(V))

    def chance(inputs):
        p = net.probabilities(inputs)
        return np.where(answers == 1, p, 1 - p) if outputs == 1 else p[rows, answers]

    for gradient, function in ((output_gradient, chance), (loss_gradient, lambda X: -np.log(chance(X)))):
        G = gradient(oracle, V)
        for column in range(case.width):
            off = np.zeros(case.width)
            off[column] = 1e-6
            slope = (function(X + off) - function(X - off)) / 2e-6
            assert np.median(np.abs(G[:, column] - slope)) < 1e-6


def test_products_on_a_device_give_the_same_gradients(monkeypatch):
    monkeypatch.setattr(gradients, "_WORTH_MOVING", 0)
    rng = np.random.default_rng(5)
    net = random_network(rng, 4, [6, 5], 3)
    X = rng.normal(size=(7, 4)).astype(np.float32)
    slope = rng.normal(size=(7, 3))

    def gradient():
        values = forward(net, X)
        return backward(net, values, {len(values) - 1: slope})

    expected = gradient()
    with compute_on(CPU):
        found, again = gradient(), gradient()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.tobytes() == again.tobytes()


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
