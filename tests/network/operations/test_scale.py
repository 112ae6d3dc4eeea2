"""Batch normalisation as a step of its own."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Scale
from fairmend.network.folding import Norm

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
