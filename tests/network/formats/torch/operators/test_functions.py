"""Functions and methods of PyTorch, whatever form they are called in."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.torch_graphs import pair

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
CALLS = {
    "F.relu6": lambda h: F.relu6(h),
    "clamp": lambda h: torch.clamp(h, -0.5, 0.7),
    "clamp_": lambda h: h.clamp_(min=0),
    "clip": lambda h: h.clip(min=-1, max=1),
    "F.elu": lambda h: F.elu(h, 0.4, True),
    "F.selu": lambda h: F.selu(h),
    "F.celu": lambda h: F.celu(h, alpha=2.0),
    "F.softplus": lambda h: F.softplus(h, beta=2),
    "F.gelu": lambda h: F.gelu(h, approximate="tanh"),
    "F.silu": lambda h: F.silu(h),
    "F.mish": lambda h: F.mish(h),
    "F.hardswish": lambda h: F.hardswish(h),
    "F.hardsigmoid": lambda h: F.hardsigmoid(h),
    "F.hardtanh": lambda h: F.hardtanh(h, -2.0, 2.0),
    "clamp max": lambda h: h.clamp(max=0.3),
    "clamp_max": lambda h: torch.clamp_max(h, -0.2),
    "clamp min": lambda h: h.clamp(min=0.1),
    "F.softsign": lambda h: F.softsign(h),
    "F.rrelu": lambda h: F.rrelu(h, 0.1, 0.3, training=False),
    "abs": lambda h: h.abs(),
    "torch.absolute": lambda h: torch.absolute(h),
    "square": lambda h: torch.square(h),
    "power": lambda h: h**2,
    "product with itself": lambda h: h * h,
    "exp_": lambda h: h.exp_(),
    "log": lambda h: torch.log(h.abs() + 1),
    "reciprocal": lambda h: (h**2 + 1).reciprocal(),
    "quotient": lambda h: 3 / (h**2 + 1),
    "power -1": lambda h: torch.pow(h**2 + 1, -1),
    "sqrt": lambda h: torch.sqrt(h**2 + 1),
    "rsqrt": lambda h: torch.rsqrt(h**2 + 1),
    "power -0.5": lambda h: (h**2 + 1) ** -0.5,
    "sin": lambda h: torch.sin(h),
    "cos": lambda h: h.cos(),
    "torch.where": lambda h: torch.where(h > 0, h, 0.2 * h),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_function_is_what_torch_computes(call):
    torch.manual_seed(0)
    module = pair(lambda m, x: m.b(CALLS[call](m.a(x)))).eval()
    with torch.no_grad():
        expected = module(torch.tensor(X)).numpy()[:, 0]
    assert np.allclose(load_network(module).logits(X), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda h: F.softplus(h, threshold=5), "threshold below 20"),
        (lambda h: F.softplus(h, threshold=200), "threshold above 80"),
        (lambda h: F.softplus(h, threshold=float("inf")), "threshold above 80"),
        (lambda h: F.prelu(h, torch.ones(6)), "register_buffer"),
        (lambda h: h.sinh(), r"sinh\(\)"),
        (lambda h: h**5, "a power other than 3, 2, 1, 0.5, -0.5 and -1"),
        (lambda h: 2**h, "an exponent that is not one number"),
        (lambda h: torch.where(h > 1, h, 0.5 * h), "a number other than 0"),
        (lambda h: torch.where(h > 0, 0.5 * h, h), "other than as PReLU"),
        (lambda h: torch.where(h > 0, h, 0.5 * h.relu()), "other than as PReLU"),
        (lambda h: torch.where(h > 0, h, h.tanh()), "other than as PReLU"),
        (lambda h: torch.softmax(h, 1, dtype=torch.float64), "dtype"),
    ],
)
def test_what_would_be_another_function_is_refused(call, words):
    with pytest.raises(FairmendError, match=words):
        load_network(pair(lambda m, x: m.b(call(m.a(x)))))


def test_a_slope_is_rounded_to_float32_as_torch_does():
    torch.manual_seed(0)
    x = torch.randn(1000)
    exact = np.where(x.numpy() > 0, x.numpy(), x.numpy().astype(np.float64) * float(np.float32(0.1)))
    assert np.array_equal(torch.nn.functional.leaky_relu(x, 0.1).numpy(), exact.astype(np.float32))
    module = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.LeakyReLU(0.1), torch.nn.Linear(1, 1))
    assert load_network(module).activations[0].slope == float(np.float32(0.1))


def test_a_softmax_inside_is_a_node_and_its_logarithm_is_for_the_output_alone():
    inside = load_network(nn.Sequential(nn.Linear(4, 3), nn.Softmax(1), nn.Linear(3, 2)))
    assert [node.operation.kind for node in inside.nodes] == ["input", "affine", "softmax", "affine"]
    with pytest.raises(FairmendError, match="only after the last affine layer"):
        load_network(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1), nn.Linear(3, 2)))
