"""The logistic sigmoid."""

import torch

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("sigmoid"), torch.sigmoid, onnx_node=("Sigmoid", {}))
