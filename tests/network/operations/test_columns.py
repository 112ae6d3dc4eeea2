"""A choice of columns."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Columns


def test_columns_come_in_the_order_given_and_may_repeat():
    choice, out = Columns((2, 0, 2)), np.empty((1, 3))
    choice.compute([np.array([[1.0, 2.0, 3.0]])], out)
    assert out.tolist() == [[3.0, 1.0, 3.0]]
    assert choice.width([3]) == 3


@pytest.mark.parametrize("indices", [(), (3,), (-1,)])
def test_columns_that_are_not_there_are_refused(indices):
    with pytest.raises(FairmendError, match="of a node that has 3"):
        Columns(indices).width([3])
