"""Hard swish."""

import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("hardswish"), F.hardswish, lambda z: z * F.relu6(z + 3) / 6, onnx_node=("HardSwish", {}))
