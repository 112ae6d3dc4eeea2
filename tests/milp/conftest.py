"""The solvers that are installed, and licensed."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import Solver, get_solver
from support.milp_problems import random_milp

MODULES = {"highs": "highspy", "scip": "pyscipopt", "gurobi": "gurobipy"}


@pytest.fixture(params=list(MODULES))
def solver(request: pytest.FixtureRequest) -> Solver:
    pytest.importorskip(MODULES[request.param])
    found = get_solver(request.param)
    if request.param == "gurobi":
        try:
            found.solve(random_milp(0, integers=True))
        except FairmendError as error:
            pytest.skip(str(error))
    return found
