"""HiGHS: every status is known, small coefficients count, and what it does not accept is named."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import LinearProgram, MilpBuilder, Status, get_solver
from fairmend.milp.highs import Highs


def solve_from_scratch(cost, lower, upper, rows):
    builder = MilpBuilder()
    x = builder.add_variables(len(cost), lower, upper, cost)
    for values, low, high in rows:
        builder.add_rows(x, values, low, high)
    return get_solver().solve(builder.build())


@pytest.mark.parametrize("seed", range(10))
def test_every_solve_has_the_optimum_of_a_new_solve(seed):
    rng = np.random.default_rng(seed)
    cost, lower, upper = rng.normal(size=5), np.full(5, -1.0), np.ones(5)
    program, rows = LinearProgram(cost, lower, upper), []
    statuses = set()
    for _ in range(12):
        if rows and rng.random() < 0.3:
            rows.pop()
            program.remove_rows(np.arange(2 * len(rows), program.rows))
        else:
            values = rng.normal(size=(2, 5))
            low = rng.normal(size=2)
            rows.append((values, low, low + 1.5))
            program.add_rows(np.arange(5), *rows[-1])
        assert program.rows == 2 * len(rows)
        solution, reference = program.solve(), solve_from_scratch(cost, lower, upper, rows)
        statuses.add(solution.status)
        assert solution.status is reference.status
        if solution.status is Status.OPTIMAL:
            assert solution.objective == pytest.approx(reference.objective, abs=1e-7)
            assert cost @ solution.x == pytest.approx(solution.objective, abs=1e-9)
    assert Status.OPTIMAL in statuses


def test_without_a_solution_there_is_no_x():
    program = LinearProgram(np.ones(1), np.zeros(1), np.ones(1))
    program.add_rows(np.arange(1), np.ones((1, 1)), np.array([2.0]), np.array([3.0]))
    solution = program.solve()
    assert (solution.status, solution.x) == (Status.INFEASIBLE, None)


def test_a_row_that_highs_does_not_accept_is_named():
    program = LinearProgram(np.ones(1), np.zeros(1), np.ones(1))
    with pytest.raises(FairmendError, match=r"does not accept a row of the repair: .* is not below 1e\+15"):
        program.add_rows(np.arange(1), np.full((1, 1), 1e20), np.zeros(1), np.ones(1))


def test_every_status_of_highs_is_mapped():
    import highspy

    assert set(Highs.STATUS_MAP) == set(highspy.HighsModelStatus.__members__)


def test_a_problem_that_highs_does_not_accept_is_named():
    builder = MilpBuilder()
    x = builder.add_variables(1, upper=1)
    builder.add_row(x, [1e20], upper=1)
    with pytest.raises(FairmendError, match=r"HiGHS does not accept Milp.*1e\+20 is not below 1e\+15"):
        Highs().solve(builder.build())
