"""ReLU: exact in every framework."""

import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("relu"), F.relu, onnx_node=("Relu", {}))
