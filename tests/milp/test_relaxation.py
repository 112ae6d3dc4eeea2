"""Multipliers of a relaxation: weak duality by hand, and a ray where there is no point."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder, Relaxation, Status
from support.milp_problems import infeasible, random_milp


def dual_value(milp, lower, upper, multipliers, cost):
    """The bound that the multipliers give: rows at the side that their sign names, variables at their worse end."""
    dense = np.zeros((milp.rows, milp.variables))
    dense[np.repeat(np.arange(milp.rows), np.diff(milp.indptr)), milp.indices] = milp.values
    reduced = cost - multipliers @ dense
    side = np.where(multipliers > 0, milp.row_lower, milp.row_upper)
    used = np.abs(multipliers) > 1e-12
    least = np.where(reduced > 0, reduced * lower, reduced * upper)
    return float(multipliers[used] @ side[used] + least.sum())


@pytest.mark.parametrize("seed", range(10))
def test_every_solve_has_multipliers_that_prove_its_optimum(seed):
    milp = random_milp(seed, integers=True)
    relaxation, rng = Relaxation(milp), np.random.default_rng(seed)
    for _ in range(5):
        lower = np.minimum(milp.lower + rng.random(milp.variables), milp.upper)
        solution = relaxation.solve(lower, milp.upper)
        if solution.status is Status.OPTIMAL:
            assert dual_value(milp, lower, milp.upper, solution.multipliers, milp.cost) == pytest.approx(
                float(milp.cost @ solution.x), abs=1e-6
            )


def test_a_ray_proves_that_there_is_no_point():
    milp = infeasible(integers=False)
    solution = Relaxation(milp).solve(milp.lower, milp.upper)
    assert solution.status is Status.INFEASIBLE
    assert solution.x is None
    assert dual_value(milp, milp.lower, milp.upper, solution.multipliers, np.zeros(milp.variables)) > 0


def test_out_of_time_leaves_nothing():
    milp = random_milp(0, integers=True)
    solution = Relaxation(milp).solve(milp.lower, milp.upper, time_limit=0.0)
    assert solution.status is Status.OPTIMAL or solution.multipliers is None


def test_a_coefficient_that_highs_does_not_accept_is_named():
    builder = MilpBuilder()
    x = builder.add_variables(2, upper=1.0)
    builder.add_row(x, [1e300, 1.0], upper=1.0)
    with pytest.raises(FairmendError, match="HiGHS does not accept"):
        Relaxation(builder.build())
