"""Leaky ReLU, with slopes below and above 1."""

import pytest
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize("slope", [0.0, 0.01, 0.3, 1.0, 1.7, 12.0])
def test_frameworks_compute_it(slope):
    node = ("LeakyRelu", {"alpha": slope})
    check_inference(Activation("leaky_relu", slope), lambda z: F.leaky_relu(z, slope), onnx_node=node)


def test_a_negative_slope_is_refused():
    with pytest.raises(FairmendError, match="leaky_relu has slope -1"):
        Activation("leaky_relu", -1.0)
