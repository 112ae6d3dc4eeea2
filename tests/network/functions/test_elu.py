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


def test_the_kink_is_found_in_both_directions():
    z, zero = np.array([[-0.1], [1.0]]), np.zeros(1)
    below, above = (Activation("elu", parameters=(alpha,)).function for alpha in (0.5, 2.0))
    assert below.lowest(np.array([0.7]), *z) == pytest.approx(zero, abs=1e-14)
    assert above.highest(np.array([1.5]), *z) == pytest.approx(zero, abs=1e-14)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1e-9, 1e9, np.nan])
def test_alpha_is_moderate(alpha):
    with pytest.raises(FairmendError, match="alpha must lie between 1e-06 and 1e"):
        Activation("elu", parameters=(alpha,))
