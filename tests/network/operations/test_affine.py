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


def test_a_layer_without_a_bias_stores_none_and_stays_without():
    layer = Affine.without_bias(np.array([[1.0, 2.0]], np.float32))
    assert layer.bias.tolist() == [0]
    assert layer.stored("fc")[0].bias is None
    assert layer.size == 2
    changed = Affine(np.array([[3.0, 4.0]]), np.array([5.0])).stored_as(layer)
    assert changed == Affine(np.array([[3, 4]], np.float32), np.zeros(1, np.float32))
    assert changed.stored("fc")[0].bias is None
    assert not changed.astype(np.float64).stores_bias
    assert Affine(layer.weight, layer.bias).size == 3


def test_a_layer_that_stores_no_bias_cannot_have_one():
    with pytest.raises(FairmendError, match="stores no bias, but the bias given is not 0"):
        Affine(np.ones((1, 2)), np.ones(1), stores_bias=False)
