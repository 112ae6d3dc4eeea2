"""HiGHS: every status is known, small coefficients count, and what it does not accept is named."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder
from fairmend.milp.highs import Highs


def test_every_status_of_highs_is_mapped():
    import highspy

    assert set(Highs.STATUS_MAP) == set(highspy.HighsModelStatus.__members__)


def test_a_problem_that_highs_does_not_accept_is_named():
    builder = MilpBuilder()
    x = builder.add_variables(1, upper=1)
    builder.add_row(x, [1e20], upper=1)
    with pytest.raises(FairmendError, match=r"HiGHS does not accept Milp.*1e\+20 is not below 1e\+15"):
        Highs().solve(builder.build())
