"""The search over MILPs finds the optimum with any solver."""

import numpy as np
import pytest

from fairmend.milp import Status, get_solver
from fairmend.repairing.head.milp_search import MasterProblem
from fairmend.repairing.head.problem import HeadProblem, SearchLimits
from fairmend.repairing.head.solve import repair_head
from support.head_cases import MARGIN, check, problem
from support.repair_cases import smallest_change


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_optimum_over_all_regions_is_that_of_brute_force(outputs):
    weight, bias, features = problem(3, "box", outputs, 5, 2)
    head = HeadProblem(weight, bias, features, MARGIN)
    master = MasterProblem(head, np.inf)
    assert master.add_regions(np.arange(features.count), head.no_change())
    assert not master.add_regions(np.arange(features.count), head.no_change())
    assert master.regions == list(range(features.count))
    incumbent = head.constant_change(SearchLimits())
    milp, read, start = master.build(incumbent.objective, incumbent)
    assert milp.cost @ start == pytest.approx(incumbent.objective)
    solution = get_solver("highs").solve(milp)
    assert solution.status is Status.OPTIMAL
    change = read(solution.x)
    assert change.objective == pytest.approx(smallest_change(weight, bias, features, MARGIN), abs=1e-6)
    assert (head.slack(change).max(axis=1) >= MARGIN - 1e-7).all()


def test_a_fixed_class_is_kept():
    weight, bias, features = problem(4, "box", 1, 4, 2)
    head = HeadProblem(weight, bias, features, MARGIN)
    for label in (0, 1):
        master = MasterProblem(head, np.inf)
        master.add_regions(np.array([0]), head.no_change(), np.full(features.count, label))
        milp, read, start = master.build(np.inf, None)
        assert start is None
        change = read(get_solver("highs").solve(milp).x)
        assert head.slack(change)[0, label] >= MARGIN - 1e-7


@pytest.mark.parametrize("solver", ["scip"])
@pytest.mark.parametrize(("kind", "outputs"), [("box", 1), ("linear", 3), ("points", 1)])
def test_other_solvers_find_the_same_optimum(solver, kind, outputs):
    pytest.importorskip("pyscipopt")
    weight, bias, features = problem(11, kind, outputs, 6, 3)
    expected = repair_head(weight, bias, features, margin=MARGIN)
    found = repair_head(weight, bias, features, margin=MARGIN, solver=solver)
    check(weight, bias, features, found)
    assert found.objective == pytest.approx(expected.objective, abs=1e-6)
