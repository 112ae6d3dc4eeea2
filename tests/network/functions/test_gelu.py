"""GELU by erf, fused or by hand."""

import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("gelu"), F.gelu, lambda z: 0.5 * z * (1 + (z / 2**0.5).erf()), onnx_node=("Gelu", {}))
