"""A table look-up."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Lookup

TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_it_gives_the_row_that_the_column_names():
    out = np.empty((2, 2))
    Lookup(TABLE).compute([np.array([[1.0], [0.0]])], out)
    assert out.tolist() == [[3.0, 4.0], [1.0, 2.0]]


@pytest.mark.parametrize("index", [2.0, -1.0, 0.5])
def test_what_is_no_row_of_the_table_is_refused(index):
    with pytest.raises(FairmendError, match=r"row 0 holds .* a whole number from 0 to 1"):
        Lookup(TABLE).indices(np.array([[index]]))


def test_two_are_equal_if_their_bits_are():
    assert Lookup(TABLE) == Lookup(TABLE.copy())
    assert Lookup(TABLE) != Lookup(-TABLE)
    assert Lookup(np.zeros((1, 1))) != Lookup(-np.zeros((1, 1)))


def test_the_hull_of_fixed_rows_is_one_array_and_that_of_others_encloses_them():
    fixed = Lookup(TABLE).hull(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert fixed[0] is fixed[1]
    assert fixed[0].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    low, high = Lookup(TABLE).hull(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert (low.tolist(), high.tolist()) == ([[3.0, 4.0], [1.0, 2.0]], [[3.0, 4.0], [3.0, 4.0]])
