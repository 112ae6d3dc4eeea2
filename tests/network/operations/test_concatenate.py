"""Nodes side by side."""

import numpy as np

from fairmend.network import Concatenate


def test_sources_stand_side_by_side():
    out = np.empty((1, 3))
    Concatenate().compute([np.array([[1.0]]), np.array([[2.0, 3.0]])], out)
    assert out.tolist() == [[1.0, 2.0, 3.0]]
    assert Concatenate().width([1, 2]) == 3
