"""Hardsigmoid: no line is on the wrong side."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_encloses


@pytest.mark.parametrize(
    "activation", [Activation("hardsigmoid", 0.0, (1 / 6, 0.5)), Activation("hardsigmoid", 0.0, (0.2, -0.1))], ids=str
)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
