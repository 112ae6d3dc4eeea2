"""The affine layer as a step of a graph."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Affine


def test_it_computes_weight_times_x_plus_bias_of_its_width():
    affine, out = Affine(np.array([[1.0, 2.0]]), np.array([3.0])), np.empty((1, 1))
    affine.compute([np.array([[1.0, 1.0]])], out)
    assert out.tolist() == [[6.0]]
    assert affine.width([2]) == 1
    with pytest.raises(FairmendError, match="takes 2 values, but the layer before it gives 3"):
        affine.width([3])


def test_a_plain_layer_is_stored_as_it_is():
    affine = Affine(np.array([[1.0, 2.0]]), np.array([3.0]))
    (stored,) = affine.stored("fc")
    assert (stored.name, stored.weight is affine.weight, stored.norms) == ("fc", True, ())
