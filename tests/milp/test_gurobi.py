"""Gurobi: every status is known, and the limit of the free licence is explained."""

import numpy as np
import pytest

from fairmend.errors import FairmendError
from fairmend.milp import MilpBuilder, get_solver
from fairmend.milp.gurobi import Gurobi


def test_gurobis_size_limit_is_explained():
    pytest.importorskip("gurobipy")
    builder = MilpBuilder()
    x = builder.add_variables(2500, upper=1, cost=-1.0, integer=True)
    builder.add_row(x, np.ones(2500), upper=3)
    try:
        solution = get_solver("gurobi").solve(builder.build())
    except FairmendError as error:
        assert "2,000" in str(error) or "licence" in str(error)  # noqa: PT017 - a full licence raises nothing
    else:
        assert solution.objective == pytest.approx(-3)


def test_every_status_of_gurobi_is_mapped():
    gurobipy = pytest.importorskip("gurobipy")
    words = {word for word in dir(gurobipy.GRB.Status) if word.isupper()}
    assert set(Gurobi.STATUS_MAP) >= words  # newer releases have more words
