"""PyTorch modules that several tests load and save."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn


class Scorer(nn.Module):
    """As the original implementation's models are built."""

    def __init__(self, widths=(5, 7, 3, 1)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.sigmoid(self.layers[-1](x))


def rows(width: int, count: int = 40) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, width)).astype(np.float32)


def torch_output(module: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(torch.tensor(X)).numpy()


def trained_norm(width: int, **kwargs) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(width, **kwargs)
    rng = torch.Generator().manual_seed(width)
    norm.running_mean = torch.randn(width, generator=rng)
    norm.running_var = torch.rand(width, generator=rng) + 0.1
    if norm.affine:
        norm.weight.data = torch.randn(width, generator=rng)
        norm.bias.data = torch.randn(width, generator=rng)
    return norm


def adam_state(module: nn.Module) -> dict:
    """The state dict of torch.optim.Adam after a step; to import the optimizer itself takes seconds."""
    sizes = {name: torch.ones_like(p.detach()) for name, p in enumerate(module.parameters())}
    state = {
        name: {"step": torch.tensor(1.0), "exp_avg": one, "exp_avg_sq": one.square()} for name, one in sizes.items()
    }
    group = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "foreach": None}
    return {"state": state, "param_groups": [{**group, "params": list(sizes)}]}
