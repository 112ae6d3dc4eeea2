"""Constants of a program, as descriptions name them."""

import numpy as np

from fairmend.network.formats.torch.program import Constant


def test_a_constant_is_named_by_its_key_or_listed():
    assert Constant(np.ones(2), "mean").reference == "mean"
    turned = Constant(np.ones((2, 3)), "W").moved(np.transpose)
    assert turned.transposed
    assert turned.reference == [1.0] * 6
    assert Constant(np.array([3.0])).reference == 3.0
    assert Constant(np.ones(2)).number is None
