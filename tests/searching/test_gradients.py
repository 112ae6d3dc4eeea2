"""The gradients are those of autograd and of finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.base.device import compute_on
from fairmend.base.gpu import CPU
from fairmend.searching import gradients
from fairmend.searching.gradients import backward, forward, layer_nodes, loss_gradient, output_gradient
from fairmend.searching.oracle import Oracle
from support.search_cases import biased, people, spec
from support.strategies import networks, random_network


@settings(deadline=None, max_examples=40)
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
