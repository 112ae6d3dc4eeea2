"""Functions without numbers of their own, fused or by hand: every framework computes them within the bound."""

import pytest
import torch
import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def gelu_tanh_by_hand(z):
    return 0.5 * z * (1 + ((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)).tanh())


PLAIN = {
    "gelu": ([F.gelu, lambda z: 0.5 * z * (1 + (z / 2**0.5).erf())], ("Gelu", {})),
    "gelu_tanh": ([lambda z: F.gelu(z, approximate="tanh"), gelu_tanh_by_hand], ("Gelu", {"approximate": "tanh"})),
    "hardswish": ([F.hardswish, lambda z: z * F.relu6(z + 3) / 6], ("HardSwish", {})),
    "identity": ([lambda z: z], ("Identity", {})),
    "mish": ([F.mish, lambda z: z * F.softplus(z).tanh()], ("Mish", {})),
    "relu": ([F.relu], ("Relu", {})),
    "selu": ([F.selu], ("Selu", {})),
    "sigmoid": ([torch.sigmoid], ("Sigmoid", {})),
    "silu": ([F.silu, lambda z: z * z.sigmoid()], None),
}


@pytest.mark.parametrize("name", PLAIN)
def test_frameworks_compute_it(name):
    functions, node = PLAIN[name]
    check_inference(Activation(name), *functions, onnx_node=node)
