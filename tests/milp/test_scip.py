"""SCIP: rows without a constraint are left out, and equalities and ranges are kept."""

import numpy as np
import pytest

from fairmend.milp import MilpBuilder, Status, get_solver


def test_rows_of_every_kind_are_passed_on():
    pytest.importorskip("pyscipopt")
    builder = MilpBuilder()
    x = builder.add_variables(4, upper=9, cost=[1.0, -1.0, 1.0, -1.0], integer=True)
    builder.add_row(x[:1], [1], 3, 3)
    builder.add_row(x[1:2], [2], -np.inf, 9)
    builder.add_row(x[2:3], [1], 2, np.inf)
    builder.add_row(x[3:], [3], 4, 8)
    builder.add_row(x, [1, 1, 1, 1])
    solution = get_solver("scip").solve(builder.build())
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.x, [3, 4, 2, 2], atol=1e-6)
