"""Branch and bound keeps an honest bound, wherever the solver stops."""

import math

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.milp import LinearProgram, Status
from fairmend.milp.highs import LpSolution
from fairmend.repairing.head import branch
from fairmend.repairing.head.branch import CornerProgram
from fairmend.repairing.head.problem import HeadProblem, SearchLimits
from fairmend.repairing.head.solve import repair_head
from support.head_cases import MARGIN, check, problem


@pytest.mark.parametrize("status", [Status.LIMIT, Status.ERROR])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_gap_is_honest_wherever_the_solver_gives_up(status, outputs, monkeypatch):
    weight, bias, features = problem(72, "box", outputs, 10, 3, spread=0.8)
    true = repair_head(weight, bias, features, margin=MARGIN)
    assert true.solves > 5
    solve = LinearProgram.solve
    for stop in range(true.solves):
        calls = iter(range(10**6))

        def stubbed(self, time_limit=math.inf, calls=calls, stop=stop):
            number = next(calls)
            gives_up = number == stop or (status is Status.LIMIT and number > stop)
            return LpSolution(status, math.inf, None) if gives_up else solve(self, time_limit)

        monkeypatch.setattr(LinearProgram, "solve", stubbed)
        found = repair_head(weight, bias, features, margin=MARGIN, search="branch")
        monkeypatch.setattr(LinearProgram, "solve", solve)
        check(weight, bias, features, found)
        assert found.bound <= true.objective + 1e-7, stop
        assert found.objective >= true.objective - 1e-7, stop


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_search_stops_after_so_many_solver_runs_with_an_honest_gap(outputs):
    weight, bias, features = problem(72, "box", outputs, 10, 3, spread=0.8)
    true = repair_head(weight, bias, features, margin=MARGIN)
    gaps = []
    for most in range(true.solves):
        found = repair_head(weight, bias, features, margin=MARGIN, most_solves=most)
        check(weight, bias, features, found)
        assert found.solves == most
        assert found.bound <= true.objective + 1e-7 <= found.objective + 2e-7
        gaps.append(found.gap)
    assert gaps[0] == 1.0
    assert repair_head(weight, bias, features, margin=MARGIN, most_solves=true.solves).gap == 0


def test_a_search_that_stops_without_a_repair_says_so():
    weight, bias, features = problem(72, "box", 3, 10, 3, spread=0.8)
    true = repair_head(weight, bias, features, margin=MARGIN)
    largest = max(np.abs(true.weight).max(), np.abs(true.bias).max()) * (1 + 1e-6)
    with pytest.raises(FairmendError, match="the search ended after 1 solver runs without a repair"):
        repair_head(weight, bias, features, margin=MARGIN, delta_limit=largest, most_solves=1)


@pytest.mark.parametrize("kind", ["linear", "box", "points"])
@pytest.mark.parametrize("outputs", [3, 7])
def test_the_corners_of_many_classes_give_the_optimum_of_the_milp(kind, outputs):
    weight, bias, features = problem(5, kind, outputs, 7, 3, spread=0.6)
    found = repair_head(weight, bias, features, margin=MARGIN)
    check(weight, bias, features, found)
    assert found.gap == 0
    milp = repair_head(weight, bias, features, margin=MARGIN, search="milp")
    assert found.objective == pytest.approx(milp.objective, rel=1e-6)


def test_many_classes_end_without_a_time_limit_and_say_the_gap(monkeypatch):
    weight, bias, features = problem(72, "box", 3, 10, 3, spread=0.8)
    true = repair_head(weight, bias, features, margin=MARGIN)
    monkeypatch.setattr(branch, "MANY_SOLVES", 5)
    found = repair_head(weight, bias, features, margin=MARGIN)
    check(weight, bias, features, found)
    assert found.solves == 5 < true.solves
    assert found.gap > 0
    assert found.bound <= true.objective <= found.objective


def test_many_classes_have_a_repair_after_few_solver_runs():
    """The change to a constant head, with which the search starts, loses every class but one."""
    weight, bias, features = problem(3, "linear", 20, 30, 8, spread=2.0)
    head = HeadProblem(weight, bias, features, MARGIN)
    constant = head.constant_change(SearchLimits())
    found = repair_head(weight, bias, features, margin=MARGIN, most_solves=60)
    check(weight, bias, features, found)
    assert found.gap > 0
    assert found.objective < constant.objective / 5
    assert len(set(found.classes.tolist())) > 5


def test_a_node_of_many_classes_has_the_same_bound_whichever_node_came_before():
    weight, bias, features = problem(4, "linear", 5, 8, 4, spread=0.5)
    head = HeadProblem(weight, bias, features, MARGIN)

    def bound_at(program, decisions):
        program.go_to(decisions)
        while True:
            objective, change = program.solve(math.inf)
            if change is None or not program.cut(head.signed(change), change):
                return objective

    nodes = [((0, 1), (1, 2), (2, 0)), ((0, 1), (3, 4)), ((2, 0), (1, 2)), ((0, 1), (1, 2), (2, 0), (4, 3)), ()]
    alone = [bound_at(CornerProgram(head, SearchLimits()), node) for node in nodes]
    walked = CornerProgram(head, SearchLimits())
    assert [bound_at(walked, node) for node in nodes] == pytest.approx(alone, abs=1e-7)
    assert [bound_at(walked, node) for node in reversed(nodes)] == pytest.approx(alone[::-1], abs=1e-7)
    assert alone[0] > 0
