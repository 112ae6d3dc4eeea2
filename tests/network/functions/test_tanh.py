"""The hyperbolic tangent."""

import torch

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("tanh"), torch.tanh, onnx_node=("Tanh", {}))
