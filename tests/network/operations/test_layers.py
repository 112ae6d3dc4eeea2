"""Affine layers, scalings and look-ups: their numbers, values, and what is refused."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Affine, Lookup, Scale
from fairmend.network.folding import Norm

# The affine layer as a step of a graph.


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


# Batch normalisation as a step of its own.


NORM = Norm("bn", np.array([1.0, 2.0]), np.array([3.0, 15.0]), np.array([2.0, 4.0]), np.array([0.0, 1.0]), 1.0)


def test_it_computes_what_its_norms_do():
    scale, out = Scale((NORM,), 2, np.dtype(np.float64)), np.empty((1, 2))
    scale.compute([np.array([[3.0, 2.0]])], out)
    assert out.tolist() == [[2.0, 1.0]]
    assert scale == Scale((NORM,), 2, np.dtype(np.float64))
    assert scale.astype(np.float32).factor.dtype == np.float32


def test_a_width_that_does_not_fit_is_refused():
    with pytest.raises(FairmendError, match="a scaling of 2 units reads 3 numbers"):
        Scale((NORM,), 2, np.dtype(np.float64)).width([3])


def test_another_dtype_keeps_the_numbers():
    norm = Norm("a norm", np.array([0.1, 0.2]), np.array([0.3, 0.7]), np.array([1.1, -1.3]), np.array([0.5, 0.0]), 1e-5)
    scale = Scale((norm,), 2, np.dtype(np.float32), "a file")
    wide = scale.astype(np.float64)
    assert wide.factor.dtype == wide.shift.dtype == np.float64
    assert (wide.factor == scale.factor).all()
    assert (wide.shift == scale.shift).all()
    assert wide.astype(np.float32) == scale


# A table look-up.


TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_it_gives_the_row_that_the_column_names():
    out = np.empty((2, 2))
    Lookup(TABLE).compute([np.array([[1.0], [0.0]])], out)
    assert out.tolist() == [[3.0, 4.0], [1.0, 2.0]]


@pytest.mark.parametrize("index", [2.0, -1.0, 0.5])
def test_what_is_no_row_of_the_table_is_refused(index):
    with pytest.raises(FairmendError, match=r"row 0 holds .* a whole number from 0 to 1"):
        Lookup(TABLE).indices(np.array([[index]]))


def test_two_are_equal_if_their_bits_are():
    assert Lookup(TABLE) == Lookup(TABLE.copy())
    assert Lookup(TABLE) != Lookup(-TABLE)
    assert Lookup(np.zeros((1, 1))) != Lookup(-np.zeros((1, 1)))


def test_the_hull_of_fixed_rows_is_one_array_and_that_of_others_encloses_them():
    fixed = Lookup(TABLE).hull(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert fixed[0] is fixed[1]
    assert fixed[0].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    low, high = Lookup(TABLE).hull(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert (low.tolist(), high.tolist()) == ([[3.0, 4.0], [1.0, 2.0]], [[3.0, 4.0], [3.0, 4.0]])
