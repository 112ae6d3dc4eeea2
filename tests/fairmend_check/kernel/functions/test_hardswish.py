"""Hardswish: no line is on the wrong side."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_encloses, assert_lowest


@pytest.mark.parametrize("activation", [Activation("hardswish")], ids=str)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
    assert_lowest(activation)
