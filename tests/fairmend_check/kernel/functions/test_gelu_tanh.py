"""GELU by tanh: no line is on the wrong side, and it bends as the file says."""

import flint
import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_bends, assert_encloses, assert_lowest


@pytest.mark.parametrize("activation", [Activation("gelu_tanh")], ids=str)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
    assert_lowest(activation)
    assert_bends(activation, curvature)


def curvature(z):
    k, c = (2 / flint.arb.pi()).sqrt(), flint.arb("0.044715")
    return 1 + 6 * c * z**2 - k * z * (k * (z + c * z**3)).tanh() * (1 + 3 * c * z**2) ** 2
