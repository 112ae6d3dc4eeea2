"""SCIP: rows without a constraint are left out, and equalities and ranges are kept."""

import sys

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder, Status, get_solver
from fairmend.milp.scip import _errors_not_printed


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


def test_an_error_inside_scip_is_a_status_and_not_an_exception(monkeypatch):
    """PySCIPOpt raises a bare Exception, for example where the LP solver fails on numbers of very different sizes."""
    pytest.importorskip("pyscipopt")

    def fail(solve, stop):
        raise Exception("SCIP: error in LP solver!")

    monkeypatch.setattr("fairmend.milp.scip.run_interruptibly", fail)
    builder = MilpBuilder()
    builder.add_variables(1, upper=1, cost=[1.0])
    solution = get_solver("scip").solve(builder.build())
    assert solution.status is Status.ERROR
    assert solution.x is None


def test_numbers_beyond_the_infinity_of_scip_are_refused_with_a_reason():
    pytest.importorskip("pyscipopt")
    builder = MilpBuilder()
    x = builder.add_variables(2, upper=1, cost=[1.0, 1.0])
    builder.add_row(x, [1e21, 1.0], 1e20, np.inf)
    with pytest.raises(FairmendError, match="counts as infinite"):
        get_solver("scip").solve(builder.build())


@pytest.mark.skipif(sys.platform == "win32", reason="functions of SCIP cannot be called there")
def test_errors_of_scip_are_raised_and_not_printed(capfd):
    """The LP solver of SCIP once printed its failures to stderr."""
    pyscipopt = pytest.importorskip("pyscipopt")

    def fail():
        model = pyscipopt.Model()
        model.addCons(1e21 * model.addVar() >= 1)

    with _errors_not_printed(), pytest.raises(Exception, match="error in input data"):
        fail()
    assert capfd.readouterr() == ("", "")
    with pytest.raises(Exception, match="error in input data"):
        fail()
    assert "ERROR" in capfd.readouterr().err  # others who use SCIP see what they always saw
