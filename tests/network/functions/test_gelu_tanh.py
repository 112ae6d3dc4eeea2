"""GELU by tanh, fused or by hand."""

import torch
import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def by_hand(z):
    return 0.5 * z * (1 + ((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)).tanh())


def test_frameworks_compute_it():
    node = ("Gelu", {"approximate": "tanh"})
    check_inference(Activation("gelu_tanh"), lambda z: F.gelu(z, approximate="tanh"), by_hand, onnx_node=node)
