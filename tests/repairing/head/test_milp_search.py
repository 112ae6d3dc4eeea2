"""The search over MILPs finds the optimum with any solver."""

import pytest

from fairmend.repairing.head.solve import repair_head
from support.head_cases import MARGIN, check, problem


@pytest.mark.parametrize("solver", ["scip"])
@pytest.mark.parametrize(("kind", "outputs"), [("box", 1), ("linear", 3), ("points", 1)])
def test_other_solvers_find_the_same_optimum(solver, kind, outputs):
    pytest.importorskip("pyscipopt")
    weight, bias, features = problem(11, kind, outputs, 6, 3)
    expected = repair_head(weight, bias, features, margin=MARGIN)
    found = repair_head(weight, bias, features, margin=MARGIN, solver=solver)
    check(weight, bias, features, found)
    assert found.objective == pytest.approx(expected.objective, abs=1e-6)
