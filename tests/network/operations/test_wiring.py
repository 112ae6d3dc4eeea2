"""Operations without numbers: widths, values, and sources that are refused."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Columns, Concatenate, Input, Sum

# The input of a network.


def test_named_inputs_make_up_the_columns():
    assert Input(3, (("cat", 1), ("cont", 2))).width([]) == 3
    with pytest.raises(FairmendError, match="do not have 4 columns together"):
        Input(4, (("cat", 1), ("cont", 2)))
    with pytest.raises(FairmendError, match="at least one input column"):
        Input(0)


# A choice of columns.


def test_columns_come_in_the_order_given_and_may_repeat():
    choice, out = Columns((2, 0, 2)), np.empty((1, 3))
    choice.compute([np.array([[1.0, 2.0, 3.0]])], out)
    assert out.tolist() == [[3.0, 1.0, 3.0]]
    assert choice.width([3]) == 3


@pytest.mark.parametrize("indices", [(), (3,), (-1,)])
def test_columns_that_are_not_there_are_refused(indices):
    with pytest.raises(FairmendError, match="of a node that has 3"):
        Columns(indices).width([3])


# Nodes side by side.


def test_sources_stand_side_by_side():
    out = np.empty((1, 3))
    Concatenate().compute([np.array([[1.0]]), np.array([[2.0, 3.0]])], out)
    assert out.tolist() == [[1.0, 2.0, 3.0]]
    assert Concatenate().width([1, 2]) == 3


# The sum of nodes.


def test_it_adds_all_sources():
    out = np.empty((1, 2))
    Sum().compute([np.array([[1.0, 2.0]])] * 3, out)
    assert out.tolist() == [[3.0, 6.0]]


def test_sources_of_several_widths_are_refused():
    with pytest.raises(FairmendError, match="a sum of 1, 2 numbers"):
        Sum().width([1, 2])
