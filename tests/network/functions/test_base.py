"""Every elementwise function: what it claims about itself holds for exact values, on any interval."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.network.functions import FUNCTIONS as TABLE
from support.function_checks import kernel_function
from support.functions import FUNCTIONS

each = pytest.mark.parametrize("activation", FUNCTIONS, ids=str)


def test_every_function_of_the_table_is_tested():
    assert {activation.name for activation in FUNCTIONS} == set(TABLE)


@each
def test_the_derivative_is_that_of_finite_differences(activation):
    z = np.array([-6.3, -2.7, -1.1, -0.4, 0.2, 0.9, 1.7, 2.6, 4.2, 7.0])
    y, up, down = (activation.function.value(z + h) for h in (0, 1e-6, -1e-6))
    slope = activation.function.derivative(z, y)
    assert slope == pytest.approx((up - down) / 2e-6, abs=1e-6)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(FUNCTIONS), st.floats(-8, 8), st.floats(-8, 8))
def test_the_image_of_tensors_is_the_image(activation, one, other):
    """It is no wider, as that of two lines would be, and not narrower."""
    function, ends = activation.function, np.sort([[one], [other]], axis=0)
    units = len(activation.parameters) if activation.name == "prelu" else 1
    low, high = (np.tile(end, (1, units)) for end in ends)
    found = function.torch_image(torch.tensor(low), torch.tensor(high))
    for end, expected in zip(found, kernel_function(activation).value_range(low, high), strict=True):
        np.testing.assert_allclose(end.numpy(), expected, rtol=1e-9, atol=1e-9)
