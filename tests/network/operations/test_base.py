"""The number of sources of an operation."""

import pytest

from fairmend import FairmendError
from fairmend.network.operations.base import require_sources


def test_too_few_and_too_many_sources_are_refused():
    require_sources("sum", [1, 1, 1], 2)
    with pytest.raises(FairmendError, match="sum has 1 sources; it must have at least 2"):
        require_sources("sum", [1], 2)
    with pytest.raises(FairmendError, match="relu has 2 sources; it must have 1"):
        require_sources("relu", [1, 1], 1, 1)
