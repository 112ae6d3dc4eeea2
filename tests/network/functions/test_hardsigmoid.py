"""Hard sigmoid: that of PyTorch and Keras, and that of ONNX."""

import pytest
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize("numbers", [(0.2, 0.5), (1 / 6, 0.5), (3.0, -4.0)])
def test_frameworks_compute_it(numbers):
    slope, offset = numbers
    node = ("HardSigmoid", {"alpha": slope, "beta": offset})
    check_inference(Activation("hardsigmoid", parameters=numbers), onnx_node=node)


def test_it_is_that_of_pytorch():
    check_inference(Activation("hardsigmoid", parameters=(1 / 6, 0.5)), F.hardsigmoid, lambda z: F.relu6(z + 3) / 6)


def test_its_slope_is_positive():
    with pytest.raises(FairmendError, match="the slope must lie between"):
        Activation("hardsigmoid", parameters=(-0.2, 0.5))
