"""GELU: no line is on the wrong side, and it bends as the file says."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_bends, assert_encloses, assert_lowest


@pytest.mark.parametrize("activation", [Activation("gelu")], ids=str)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
    assert_lowest(activation)
    assert_bends(activation, lambda z: 2 - z**2)
