"""Bounds that step 1 trains with, of networks that multiply and normalise: true, and about as narrow as the proof's."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.common.products import Builder, Gated
from benchmarks.repairs.products import width_ratios
from fairmend.bounds import Boxes, feature_bounds
from fairmend.network import load_network
from fairmend_check.kernel.bounds import form_bounds


class Normed(nn.Module):
    """Two layers after a normalisation each, around a sum; the last number is a feature."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.layers = norm, nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        x = self.layers[0](x)
        x = x + torch.relu(self.layers[1](self.norm(x)))
        return self.head(torch.tanh(self.layers[2](self.norm(x))))


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6), nn.LayerNorm(6, eps=0.5)], ids=str)
@pytest.mark.parametrize("radius", [0.0, 0.05, 0.5, 3.0])
def test_features_of_normalised_networks_stay_within_their_bounds(norm, radius):
    torch.manual_seed(0)
    network = load_network(Normed(norm).eval()).astype(np.float64)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 6))
    reach = radius * (np.arange(6) < 3)
    parameters = [(torch.tensor(a.weight, requires_grad=True), torch.tensor(a.bias)) for a in network.affines[:-1]]
    lower, upper = feature_bounds(network, parameters, Boxes.from_arrays(X - reach, X + reach, torch.float64))
    for _ in range(50):
        features = network.features(X + reach * rng.uniform(-1, 1, X.shape).round(rng.integers(0, 2)))
        assert (features >= lower.detach().numpy() - 1e-9).all()
        assert (features <= upper.detach().numpy() + 1e-9).all()
    (upper - lower).sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight, _ in parameters)


def test_training_has_about_the_widths_of_the_proof():
    for name, ratio in width_ratios(radius=0.1).items():
        assert ratio < 1.1, name


@pytest.mark.parametrize("radius", [0.01, 0.05])
def test_what_a_function_multiplies_has_its_values_not_those_of_its_lines(radius):
    """A line below ReLU is negative, and so would be the gate."""
    torch.manual_seed(0)
    module = Gated(32).double()
    network = load_network(nn.Sequential(module, nn.Linear(1, 1).double()), example=np.zeros((1, 32)))
    X = np.random.default_rng(0).normal(size=(6, 32))
    forms = np.broadcast_to(np.array([[1.0], [-1.0]]), (6, 2, 1))
    least, _ = form_bounds(module.build(Builder(32)), forms, X - radius, X + radius)
    parameters = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
    lower, upper = feature_bounds(network, parameters, Boxes.from_arrays(X - radius, X + radius, torch.float64))
    assert ((upper - lower).numpy()[:, 0] <= 1.03 * -least.sum(axis=1)).all()
