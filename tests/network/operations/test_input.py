"""The input of a network."""

import pytest

from fairmend import FairmendError
from fairmend.network import Input


def test_named_inputs_make_up_the_columns():
    assert Input(3, (("cat", 1), ("cont", 2))).width([]) == 3
    with pytest.raises(FairmendError, match="do not have 4 columns together"):
        Input(4, (("cat", 1), ("cont", 2)))
    with pytest.raises(FairmendError, match="at least one input column"):
        Input(0)
