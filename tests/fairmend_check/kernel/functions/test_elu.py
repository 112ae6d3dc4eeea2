"""ELU, CELU and SELU: no line is on the wrong side."""

import pytest

from fairmend_check.kernel.functions import Activation
from support.enclosures import assert_encloses


@pytest.mark.parametrize(
    "activation",
    [
        Activation("elu", 0.0, (1.0,)),
        Activation("elu", 0.0, (2.5,)),
        Activation("celu", 0.0, (0.25,)),
        Activation("selu"),
    ],
    ids=str,
)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)
