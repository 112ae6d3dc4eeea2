"""Powers, exp, log, absolute values and waves: what frameworks compute is within the bounds of their errors."""

import numpy as np
import pytest
import torch

from fairmend.network import Activation
from support.function_checks import check_inference

PLAIN = {
    "abs": (torch.abs, "Abs"),
    "square": (torch.square, None),
    "exp": (torch.exp, "Exp"),
    "sin": (torch.sin, "Sin"),
    "cos": (torch.cos, "Cos"),
}
POSITIVE = {
    "log": (torch.log, "Log"),
    "reciprocal": (torch.reciprocal, "Reciprocal"),
    "sqrt": (torch.sqrt, "Sqrt"),
    "rsqrt": (torch.rsqrt, None),
}


@pytest.mark.parametrize("name", [*PLAIN, *POSITIVE])
def test_frameworks_compute_it(name):
    function, operator = (PLAIN | POSITIVE)[name]
    power = {"square": 2.0, "reciprocal": -1.0, "sqrt": 0.5, "rsqrt": -0.5}.get(name)
    functions = (
        [function] if power is None else [function, lambda z: z**power, lambda z: torch.pow(z, torch.tensor(power))]
    )
    node = None if operator is None else (operator, {})
    check_inference(Activation(name), *functions, onnx_node=node, positive=name in POSITIVE)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_lines_of_a_wave_move_by_whole_turns(name):
    """They enclose it wherever the interval is, with gradients of the ends."""
    rng = np.random.default_rng(0)
    low = torch.tensor(rng.uniform(-300, 300, 500), requires_grad=True)
    high = (low + torch.tensor(10.0 ** rng.uniform(-2, 1.2, 500))).detach().requires_grad_()
    lines = Activation(name).function.relax(low, high)
    sum(line.sum() for line in lines).backward()
    assert torch.isfinite(low.grad).all()
    assert torch.isfinite(high.grad).all()
    left, right = low.detach().numpy(), high.detach().numpy()
    below, bottom, above, top = (line.detach().numpy() for line in lines)
    z = left + np.linspace(0, 1, 301)[:, None] * (right - left)
    y = getattr(np, name)(z)
    assert (below * z + bottom <= y + 1e-10).all()
    assert (above * z + top >= y - 1e-10).all()
