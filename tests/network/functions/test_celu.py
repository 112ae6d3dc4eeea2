"""CELU: its slope at 0 is 1."""

import pytest
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize("alpha", [0.3, 1.0, 3.0])
def test_frameworks_compute_it(alpha):
    node = ("Celu", {"alpha": alpha})
    check_inference(Activation("celu", parameters=(alpha,)), lambda z: F.celu(z, alpha), onnx_node=node)


def test_alpha_is_moderate():
    with pytest.raises(FairmendError, match="alpha must lie between"):
        Activation("celu", parameters=(0.0,))
