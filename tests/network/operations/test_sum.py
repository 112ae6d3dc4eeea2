"""The sum of nodes."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Sum


def test_it_adds_all_sources():
    out = np.empty((1, 2))
    Sum().compute([np.array([[1.0, 2.0]])] * 3, out)
    assert out.tolist() == [[3.0, 6.0]]


def test_sources_of_several_widths_are_refused():
    with pytest.raises(FairmendError, match="a sum of 1, 2 numbers"):
        Sum().width([1, 2])
