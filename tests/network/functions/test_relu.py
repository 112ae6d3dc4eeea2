"""ReLU: exact in every framework."""

import numpy as np
import torch.nn.functional as F

from fairmend.network import Activation
from fairmend.network.functions import Precision
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("relu"), F.relu, onnx_node=("Relu", {}))


def test_a_unit_that_is_off_has_no_rounding():
    none = np.array([-2.0]), np.array([-1.0])
    assert Activation("relu").function.rounding(*none, Precision.of(np.float32)) == 0
