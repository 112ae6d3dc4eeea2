"""Every elementwise function: what it claims about itself holds for exact values, on any interval."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network.functions import FUNCTIONS as TABLE
from support.examples import examples
from support.function_checks import kernel_function
from support.functions import FUNCTIONS, PARTIAL, WHOLE

EVERY = (*FUNCTIONS, *WHOLE)
each = pytest.mark.parametrize("activation", EVERY, ids=str)


def test_every_function_of_the_table_is_tested():
    assert {activation.name for activation in (*EVERY, *PARTIAL)} == set(TABLE)


@each
def test_the_derivative_is_that_of_finite_differences(activation):
    z = np.array([-6.3, -2.7, -1.1, -0.4, 0.2, 0.9, 1.7, 2.6, 4.2, 7.0])
    y, up, down = (activation.function.value(z + h) for h in (0, 1e-6, -1e-6))
    slope = activation.function.derivative(z, y)
    assert slope == pytest.approx((up - down) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("activation", PARTIAL, ids=str)
def test_the_derivative_above_0_is_that_of_finite_differences(activation):
    z = np.array([0.2, 0.9, 1.7, 2.6, 4.2, 7.0])
    y, up, down = (activation.function.value(z + h) for h in (0, 1e-6, -1e-6))
    assert activation.function.derivative(z, y) == pytest.approx((up - down) / 2e-6, abs=1e-6)


@examples(100)
@given(st.sampled_from(PARTIAL), st.floats(1e-3, 8), st.floats(1e-3, 8), st.sampled_from((-1, 1)))
def test_the_image_and_the_lines_in_the_domain(activation, one, other, sign):
    sign = sign if activation.name == "reciprocal" else 1
    function, (low, high) = activation.function, np.sort([[sign * one], [sign * other]], axis=0)
    ends = torch.tensor(low), torch.tensor(high)
    assert function.defined(*ends).all()
    for end, expected in zip(
        function.torch_image(*ends), kernel_function(activation).value_range(low, high), strict=True
    ):
        np.testing.assert_allclose(end.numpy(), expected, rtol=1e-9, atol=1e-9)
    lines, z = function.relax(*ends), np.linspace(low[0], high[0], 101)
    y, room = function.value(z), 1e-12 * (1 + 1 / np.abs(z).min() ** 2)
    assert (float(lines.lower_slope) * z + float(lines.lower_intercept) <= y + room).all()
    assert (float(lines.upper_slope) * z + float(lines.upper_intercept) >= y - room).all()


@pytest.mark.parametrize("activation", PARTIAL, ids=str)
def test_the_domain_is_said(activation):
    outside = torch.tensor([-1.0, -1e-30]), torch.tensor([1.0, 2.0])
    assert activation.function.domain
    assert not activation.function.defined(*outside).any()
    at_zero = activation.function.defined(torch.tensor([0.0]), torch.tensor([1.0]))
    assert bool(at_zero) == (activation.name == "sqrt")


@examples(250)
@given(st.sampled_from(EVERY), st.floats(-8, 8), st.floats(-8, 8))
def test_the_image_of_tensors_is_the_image(activation, one, other):
    """It is no wider, as that of two lines would be, and not narrower."""
    function, ends = activation.function, np.sort([[one], [other]], axis=0)
    units = len(activation.parameters) if activation.name == "prelu" else 1
    low, high = (np.tile(end, (1, units)) for end in ends)
    found = function.torch_image(torch.tensor(low), torch.tensor(high))
    for end, expected in zip(found, kernel_function(activation).value_range(low, high), strict=True):
        np.testing.assert_allclose(end.numpy(), expected, rtol=1e-9, atol=1e-9)
