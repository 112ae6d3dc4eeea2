"""Softplus: no line is on the wrong side."""

import numpy as np
import pytest

from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.rounding import Precision
from support.enclosures import assert_encloses


@pytest.mark.parametrize(
    "activation", [Activation("softplus", 0.0, (1.0,)), Activation("softplus", 0.0, (4.0,))], ids=str
)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)


def test_there_is_no_bound_in_float64_where_exp_overflows():
    """ONNX Runtime computes log(1 + exp(z)) in float64, which is infinite from 710 on."""
    softplus = function_of(Activation("softplus", 0.0, (1.0,)))
    low, high = np.array([-1e4, -1e4]), np.array([699.0, 710.0])
    assert np.isfinite(softplus.rounding(low, high, Precision.of("float64"))).tolist() == [True, False]
    assert np.isfinite(softplus.rounding(low, high, Precision.of("float32"))).all()
