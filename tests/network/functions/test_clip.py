"""Clip: ReLU6, Hardtanh, clamp."""

import numpy as np
import pytest
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, 1.0), (0.1, 0.3), (-np.inf, 2.0), (0.5, np.inf)])
def test_frameworks_compute_it(low, high):
    check_inference(Activation("clip", parameters=(low, high)), lambda z: z.clamp(low, high))


def test_relu6_and_hardtanh_are_clips():
    check_inference(Activation("clip", parameters=(0, 6)), F.relu6)
    check_inference(Activation("clip", parameters=(-1, 1)), F.hardtanh)


@pytest.mark.parametrize("ends", [(1.0, 0.0), (0.0, 0.0), (-np.inf, np.inf), (np.nan, 1.0)])
def test_ends_must_be_in_order(ends):
    with pytest.raises(FairmendError, match="below the second"):
        Activation("clip", parameters=ends)


def test_an_infinite_end_becomes_the_largest_number_of_the_network():
    one_sided = Activation("clip", parameters=(0.5, np.inf)).astype(np.float32)
    assert one_sided.parameters == (0.5, float(np.finfo(np.float32).max))
