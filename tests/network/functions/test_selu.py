"""SELU, with the constants of every framework."""

import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("selu"), F.selu, onnx_node=("Selu", {}))
