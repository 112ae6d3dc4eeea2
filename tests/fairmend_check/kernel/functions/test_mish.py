"""Mish: no line is on the wrong side, and it bends as the file says."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_bends, assert_encloses, assert_lowest


@pytest.mark.parametrize("activation", [Activation("mish")], ids=str)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
    assert_lowest(activation)
    assert_bends(activation, curvature)


def curvature(z):
    w = z.exp()
    return 2 * w**3 + 6 * w**2 + 8 * w + 4 + z * (2 + 2 * w - 3 * w**2 - 2 * w**3)
