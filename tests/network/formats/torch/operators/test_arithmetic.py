"""Sums, factors and tables."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import Scale, Sum, load_network
from support.torch_graphs import Model, pair

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
SUMS = {
    "difference": lambda m, x: m.b(m.a(x).relu() - m.c(x)),
    "alpha": lambda m, x: m.b(torch.sub(m.a(x).relu(), m.c(x), alpha=0.5)),
    "rsub": lambda m, x: m.b(torch.rsub(m.a(x).relu(), 2.0)),
    "negative": lambda m, x: m.b(-m.a(x).relu() * 0.5 + m.g),
    "reciprocal": lambda m, x: m.b(m.a(x).relu() * torch.rsqrt(m.g**1 if False else m.g + 4)),
    "sum of columns": lambda m, x: m.b(m.a(x).relu()) + m.c(x).relu().sum(1, keepdim=True) * 0,
    "linear": lambda m, x: F.linear(m.a(x).relu(), m.b.weight, m.b.bias),
    "addmm": lambda m, x: torch.addmm(m.b.bias, m.a(x).relu(), m.b.weight.t()),
    "addcmul of parameters": lambda m, x: m.b(torch.addcmul(m.shift, m.a(x).relu(), m.gain)),
    "addcmul with a value": lambda m, x: m.b(torch.addcmul(m.c(x), m.gain, m.a(x).relu(), value=-0.5)),
    "addcmul of constants": lambda m, x: m.b(torch.addcmul(m.a(x).relu(), m.gain, m.shift, value=2)),
    "times one, then in place": lambda m, x: m.b((h := m.a(x).relu()) + (h * 1).add_(1.0)),
    "plus zero, then in place": lambda m, x: m.b((h := m.a(x).relu()) + (h + 0).mul_(2.0)),
    "over one, then in place": lambda m, x: m.b((h := m.a(x).relu()) + (h / 1).mul_(2.0)),
    "batch_norm": lambda m, x: m.b(F.batch_norm(m.a(x), m.mean, m.variance, m.gain, m.shift, eps=0.01)),
}


def module_of(forward):
    torch.manual_seed(0)
    numbers = {name: torch.rand(6) + 0.5 for name in ("mean", "variance", "gain", "shift")}
    return pair(forward, c=nn.Linear(4, 6), g=torch.rand(6), **numbers).eval()


@pytest.mark.parametrize("case", [case for case in SUMS if case != "sum of columns"])
def test_arithmetic_is_what_torch_computes(case):
    module = module_of(SUMS[case])
    with torch.no_grad():
        expected = module(torch.tensor(X)).numpy()[:, 0]
    assert np.allclose(load_network(module).logits(X), expected, atol=1e-5)


def test_a_sum_inside_is_a_step_and_a_scaling_beside_a_layer_is_not():
    network = load_network(module_of(SUMS["difference"]))
    kinds = [type(node.operation) for node in network.nodes]
    assert Sum in kinds
    assert Scale not in kinds


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda m, x: m.b(m.a(x) @ m.c(x).t()), "multiplies the rows with each other"),
        (lambda m, x: m.b(m.a(x) // 2), "floordiv"),
        (lambda m, x: m.b(torch.div(m.a(x), 2, rounding_mode="floor")), "rounds"),
        (lambda m, x: m.b(m.a(x) + m.mean[:, None]), r"combines shapes \(rows, 6\) and \(6, 1\)"),
        (lambda m, x: m.b(F.batch_norm(m.a(x), None, None, training=True)), "running statistics"),
    ],
)
def test_products_quotients_and_mixed_rows_are_refused(forward, words):
    with pytest.raises(FairmendError, match=words):
        load_network(module_of(forward))


def test_tables_that_change_or_have_no_size_are_refused():
    with pytest.raises(FairmendError, match="max_norm"):
        load_network(
            Model(lambda m, x: m.b(m.e(x[:, 0].long())), e=nn.Embedding(4, 2, max_norm=1.0), b=nn.Linear(2, 1))
        )
    with pytest.raises(FairmendError, match="num_classes"):
        load_network(Model(lambda m, x: m.b(F.one_hot(x[:, 0].long()).float()), b=nn.Linear(2, 1)))
