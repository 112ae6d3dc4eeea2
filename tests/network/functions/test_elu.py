"""ELU, with alpha below and above 1."""

import numpy as np
import pytest
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_frameworks_compute_it(alpha):
    node = ("Elu", {"alpha": alpha})
    check_inference(Activation("elu", parameters=(alpha,)), lambda z: F.elu(z, alpha), onnx_node=node)


def test_it_is_convex_up_to_alpha_1():
    assert Activation("elu", parameters=(1.0,)).function.convex
    assert not Activation("elu", parameters=(1.1,)).function.convex


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1e-9, 1e9, np.nan])
def test_alpha_is_moderate(alpha):
    with pytest.raises(FairmendError, match="alpha must lie between 1e-06 and 1e"):
        Activation("elu", parameters=(alpha,))
