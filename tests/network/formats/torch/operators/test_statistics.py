"""Functions that are compositions of others: PyTorch, which fuses some of them, stays within the checker's errors."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fairmend import FairmendError
from fairmend.network import load_network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors

CASES = {
    "cube": (lambda a: a**3, 8),
    "log1p": (lambda a: torch.log1p(a.square() - 0.5), 8),
    "sum of absolutes": (lambda a: a.norm(p=1, dim=-1, keepdim=True), 1),
    "log of a sum of exp": (lambda a: torch.logsumexp(a, -1, keepdim=True), 1),
    "over tokens": (lambda a: a.view(-1, 4, 2).logsumexp(1), 2),
    "towards": (lambda a: torch.lerp(a, a.flip(1), 0.3), 8),
    "gated": (lambda a: a.lerp(a.flip(1), torch.sigmoid(a)), 8),
    "a quotient that is added": (lambda a: torch.addcdiv(a, a, 1 + a.square(), value=0.5), 8),
    "length": (lambda a: a.norm(dim=-1, keepdim=True), 1),
    "vector norm": (lambda a: torch.linalg.vector_norm(a.view(-1, 2, 4), dim=(1, 2)).unsqueeze(1), 1),
    "normalize": (lambda a: F.normalize(a), 8),
    "normalize tokens": (lambda a: F.normalize(a.view(-1, 4, 2), dim=1, eps=1e-3).flatten(1), 8),
    "variance": (lambda a: a.var(-1, keepdim=True), 1),
    "variance of all": (lambda a: a.var(1, unbiased=False).unsqueeze(1), 1),
    "deviation": (lambda a: torch.std(a.view(-1, 2, 4), dim=2, correction=1), 2),
    "flip": (lambda a: a.flip(-1) * a, 8),
    "roll": (lambda a: a.roll(3, 1) * a, 8),
    "roll back": (lambda a: torch.roll(a.view(-1, 2, 4), (1, -1), (1, 2)).flatten(1) * a, 8),
}


class Between(nn.Module):
    """A layer with large biases, so that variances cancel, a function and a head."""

    def __init__(self, function, width, shift):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.function, self.head = nn.Linear(3, 8), function, nn.Linear(width, 1)
        self.first.bias.data += shift

    def forward(self, x):
        return self.head(self.function(self.first(x)))


def batched(module, path):
    """Return a module as a saved program."""
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(module, (torch.zeros(3, 3),), dynamic_shapes=batch), path)
    return path


@pytest.mark.parametrize("shift", [1.5, 40.0])
@pytest.mark.parametrize("case", CASES)
def test_what_pytorch_computes_is_within_the_checkers_bounds(case, shift, tmp_path):
    module = Between(*CASES[case], shift).eval()
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    with torch.no_grad():
        found = module(torch.from_numpy(X))[:, 0].double().numpy()
    for network in (load_network(module), load_network(batched(module, tmp_path / "m.pt2"))):
        model, points = kernel_model(network), X.astype(np.float64)
        layers = interval_layers(model, points, points)
        (low, high), nodes = layers[-1], layers[:-1]
        error = output_errors(model, points, points, nodes, np.ones((len(X), 1, 1)), thorough=True)[:, 0]
        assert (low[:, 0] - error <= found).all()
        assert (found <= high[:, 0] + error).all()
        assert np.isfinite(error).all()


REFUSED = {
    "log of rows": (lambda a: a - a.logsumexp(0), "adds up over axis 0"),
    "log of many": (lambda a: a.repeat(1, 9).logsumexp(1, keepdim=True), "takes exp of 72 numbers"),
    "all axes": (lambda a: a.var(), "is not over one axis"),
    "length of all": (lambda a: a.norm(), "over all axes"),
    "another norm": (lambda a: a.norm(p=3, dim=1, keepdim=True), "a norm other than"),
    "rows": (lambda a: a.flip(0), "turns around over axis 0"),
    "moved rows": (lambda a: a.roll(1), "moves along all axes"),
    "one number": (lambda a: a[:, :1].var(1, keepdim=True), "divides by 1 - 1"),
    "another power": (lambda a: a**5, "a power other than 3, 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_its_cause(case):
    function, words = REFUSED[case]
    with pytest.raises(FairmendError, match=words):
        load_network(Between(function, 8 if "row" in case or "power" in case else 1, 0.0).eval())
