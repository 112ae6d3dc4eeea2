"""Clip: no line is on the wrong side."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_encloses


@pytest.mark.parametrize(
    "activation", [Activation("clip", 0.0, (0.0, 6.0)), Activation("clip", 0.0, (-1.0, 1.0))], ids=str
)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
