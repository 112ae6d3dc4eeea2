"""Distillation of a user's own module: a copy learns, the original stays, and nothing but its parameters changes."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.models.load import load_model
from fairmend.repairing.distil import distil_module
from support.canonical_cases import SPEC, people


class Net(nn.Module):
    """A network with a norm whose statistics must stay, and dropout that must not act."""

    def __init__(self, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Linear(8, 12), nn.BatchNorm1d(12)
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(12, outputs)

    def forward(self, x):
        hidden = nn.functional.layer_norm(self.drop(self.norm(self.first(x))), (12,))
        return self.last(torch.asinh(hidden))  # which fairmend does not read


def distilled(module, targets, steps=120):
    X, _ = people(400)
    model = load_model(module, spec=SPEC)
    return model, distil_module(model, X, targets(X), steps=steps, seed=0), X


def probabilities(X):
    positive = 1 / (1 + np.exp(-2 * X[:, 6]))
    return np.column_stack([1 - positive, positive])


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_copy_learns_and_the_original_stays(outputs):
    original = Net(outputs)
    before = {name: value.clone() for name, value in original.state_dict().items()}
    model, trained, X = distilled(original, probabilities)
    errors = [np.abs(_positive(each, X) - probabilities(X)[:, 1]).mean() for each in (model, trained)]
    assert errors[1] < errors[0]
    assert all(torch.equal(value, before[name]) for name, value in original.state_dict().items())
    state = trained.runner.module.state_dict()
    assert torch.equal(state["norm.running_mean"], before["norm.running_mean"])
    assert original.training


def _positive(model, X):
    found = model.probabilities(X)
    return found if found.ndim == 1 else found[:, 1]


def test_frozen_parameters_stay():
    module = Net()
    module.first.requires_grad_(False)
    _, trained, _ = distilled(module, probabilities, steps=20)
    assert torch.equal(trained.runner.module.first.weight, module.first.weight)
    assert not torch.equal(trained.runner.module.last.weight, module.last.weight)


def test_where_the_loss_is_not_lower_the_module_stays():
    model, trained, _ = distilled(Net(), lambda X: _own(X))
    assert trained is model or np.isfinite(trained.logits(people(5)[0])).all()


def _own(X):
    positive = load_model(Net(), spec=SPEC).probabilities(X)
    return np.column_stack([1 - positive, positive])


def test_a_module_without_parameters_is_refused():
    class Sum(nn.Module):
        def forward(self, x):
            return x.sum(dim=1, keepdim=True)

    with pytest.raises(FairmendError, match="no parameters to train"):
        distilled(Sum(), probabilities)
