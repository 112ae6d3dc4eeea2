"""Our Adam takes the steps of PyTorch's."""

import sys

import numpy as np
import pytest
import torch

from fairmend.base.gpu import CPU
from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Fold, Norm
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.training import Adam, DerivedBiases, StepGraph, chunks_of_inputs, step_entries
from support.repair_cases import random_regions
from support.strategies import random_network


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_is_torchs_adam(dtype):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(30, generator=generator, dtype=dtype)
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    mine, other = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(20):
        scale = torch.randn(30, generator=generator, dtype=dtype)
        for parameters in (ours, theirs):
            ((parameters * scale) ** 2).sum().add((parameters**3).sum() * (step % 3)).backward()
        mine.step()
        other.step()
        other.zero_grad()
        assert ours.grad is None
        torch.testing.assert_close(ours, theirs, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=0)
    assert not torch.equal(ours, start)


def test_adam_without_a_gradient_says_so():
    with pytest.raises(RuntimeError, match="backward"):
        Adam(torch.zeros(2, requires_grad=True), 0.1).step()


RNG = np.random.default_rng(4)


def network():
    """Return a network whose second layer has a bias, whose first has none, and whose last has a norm before it."""
    norm = Norm("bn", RNG.normal(size=2), np.full(2, 2.0), RNG.normal(size=2), RNG.normal(size=2), 1e-5, "bn")
    head = Affine.from_fold(Fold(RNG.normal(size=(1, 2)), None, (norm,), (), "here"))
    first, second = Affine.without_bias(RNG.normal(size=(3, 2))), Affine(RNG.normal(size=(2, 3)), RNG.normal(size=2))
    return Network([first, second, head], [Activation("relu")] * 2)


def test_the_biases_of_the_layers_as_they_are_are_their_own():
    net = network()
    given = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in net.affines]
    found = DerivedBiases(net, torch.float64, CPU).replace(given)
    for (weight, bias), affine in zip(found, net.affines, strict=True):
        np.testing.assert_array_equal(weight, affine.weight)
        np.testing.assert_allclose(bias, affine.bias, atol=1e-12)
    assert found[1][1] is given[1][1]


def test_changed_weights_of_several_networks_give_what_can_be_stored():
    net = network()
    weights = [torch.tensor(RNG.normal(size=(4, *a.weight.shape))) for a in net.affines]
    biases = [torch.ones((4, len(a.bias)), dtype=torch.float64) for a in net.affines]
    found = DerivedBiases(net, torch.float64, CPU).replace(list(zip(weights, biases, strict=True)))
    for k in range(4):
        own = [Affine(weight[k].numpy(), bias[k].numpy()) for weight, bias in found]
        for stored, affine in zip(net.with_affines(own).affines, own, strict=True):
            np.testing.assert_allclose(stored.weight, affine.weight, rtol=1e-12)
            np.testing.assert_allclose(stored.bias, affine.bias, atol=1e-12)


STEP_1 = sys.modules[calibrate.__module__]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class FakeGraph:
    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


def test_a_replay_returns_the_same_tensors_and_sets_the_gradient():
    parameters = torch.ones(3, requires_grad=True)
    (2 * parameters).sum().backward()
    graph = FakeGraph()
    step = StepGraph(graph, parameters, "losses")
    parameters.grad = None
    assert step.replay() == "losses"
    assert graph.replays == 1
    assert parameters.grad.tolist() == [2.0, 2.0, 2.0]


@needs_gpu
def test_recorded_steps_train_as_others_do(monkeypatch):
    rng = np.random.default_rng(0)
    net, regions = random_network(rng, 4, (20, 20)), random_regions(rng, 4, 2, 10, dtype=np.float32)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 2, 60)
    recorded = calibrate(net, regions, X, y, steps=5, device=torch.device("cuda", 0))
    monkeypatch.setattr(STEP_1, "record_step", lambda step, parameters: None)
    plain = calibrate(net, regions, X, y, steps=5, device=torch.device("cuda", 0))
    np.testing.assert_allclose(recorded.history.fair, plain.history.fair, rtol=1e-5)
    np.testing.assert_allclose(recorded.history.task, plain.history.task, rtol=1e-5)


@pytest.mark.parametrize("pieces", [1, 2, 5, 6, 7, 100])
def test_chunks_hold_every_input_once(pieces):
    regions = random_regions(np.random.default_rng(0), 3, 1, 5, pieces=3)
    chunks = list(chunks_of_inputs(regions, pieces))
    assert [i for chunk in chunks for i in range(chunk.start, chunk.stop)] == list(range(5))
    assert all(chunk.stop - chunk.start == 1 or 3 * (chunk.stop - chunk.start) <= pieces for chunk in chunks)
    assert len(chunks) == -(-5 // max(1, pieces // 3))


def test_linear_bounds_need_a_matrix_for_each_pair_of_layers():
    affines = [Affine(np.zeros((n, m)), np.zeros(n)) for m, n in ((3, 10), (10, 20), (20, 30), (30, 1))]
    network = Network(affines, [Activation("relu")] * 3)
    pairs = 10 * 20 + 10 * 30 + 20 * 30
    assert step_entries(network, "linear") - step_entries(network, "interval") == 8 * pairs
