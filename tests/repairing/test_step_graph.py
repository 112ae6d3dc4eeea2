"""Recorded steps. What they compute on a GPU is compared in tests/base/test_device_choice.py as well."""

import sys

import numpy as np
import pytest
import torch

from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.step_graph import StepGraph
from support.repair_cases import random_regions
from support.strategies import random_network

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
