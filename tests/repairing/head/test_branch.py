"""Branch and bound keeps an honest bound, wherever the solver stops."""

import math

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.milp import LinearProgram, Status
from fairmend.milp.highs import LpSolution
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
