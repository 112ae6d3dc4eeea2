"""Solutions are checked, not statuses: each against the problem, against the others, against brute force."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder, Status, available_solvers, get_solver, violation
from fairmend.milp.solver import run_interruptibly
from support.interrupts import take_interrupts
from support.milp_problems import (
    binary_milp,
    brute_force,
    infeasible,
    market_split,
    market_split_start,
    random_milp,
    ray_without_a_point,
    unbounded,
)
from support.named_case import named_case


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to send to a process there")
def test_ctrl_c_ends_a_solve_at_once(solver):
    script = (
        "from support.milp_problems import market_split\n"
        "from fairmend.milp import get_solver\n"
        f"problem, solver = market_split(), get_solver({solver.NAME!r})\n"
        "print('ready', flush=True)\n"
        "solver.solve(problem, time_limit=60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=take_interrupts,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)  # well into the solve
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=45)  # the solve alone would take 60
    finally:
        process.kill()
        process.wait()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    if solver.NAME != "gurobi":  # its library writes a line, whatever the settings
        assert output == ""
    assert process.returncode == -signal.SIGINT


def test_an_error_of_the_solver_is_raised_and_a_result_waited_for():
    done = []
    run_interruptibly(lambda: done.append(1), lambda: None)
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 / 0, lambda: None)


def check(milp, solution):
    """What an optimal solution must satisfy by itself."""
    assert solution.status is Status.OPTIMAL
    assert violation(milp, solution.x) <= 1e-6
    assert solution.objective == pytest.approx(milp.cost @ solution.x, abs=1e-9)
    assert solution.bound == solution.objective
    assert solution.gap == 0


def test_random_problems_have_the_optimum_that_highs_finds(solver):
    for seed, integers in product(range(15), (False, True)):
        with named_case(seed, integers):
            milp = random_milp(seed, integers=integers)
            solution = solver.solve(milp)
            check(milp, solution)
            assert solution.objective == pytest.approx(get_solver().solve(milp).objective, abs=1e-6)


def test_binary_problems_have_the_optimum_of_brute_force(solver):
    optima = []
    for seed in range(25):
        with named_case(seed):
            milp = binary_milp(seed)
            optima.append(brute_force(milp))
            solution = solver.solve(milp)
            if np.isinf(optima[-1]):
                assert solution.status is Status.INFEASIBLE
                assert solution.x is None
                assert solution.objective is None
            else:
                check(milp, solution)
                assert solution.objective == pytest.approx(optima[-1], abs=1e-6)
    assert 3 <= sum(np.isinf(optima)) <= 22  # both kinds


def test_solvers_agree_where_bounds_are_open(solver):
    for seed, integers in product(range(10), (False, True)):
        with named_case(seed, integers):
            milp = random_milp(seed, integers=integers, bounded=False)
            solution, reference = solver.solve(milp), get_solver().solve(milp)
            assert solution.status is reference.status
            assert solution.status in (Status.OPTIMAL, Status.UNBOUNDED)
            if solution.status is Status.OPTIMAL:
                check(milp, solution)
                assert solution.objective == pytest.approx(reference.objective, abs=1e-6)


def test_infeasible_and_unbounded_are_told_apart(solver):
    for integers in (False, True):
        with named_case(integers):
            assert solver.solve(infeasible(integers=integers)).status is Status.INFEASIBLE
            solution = solver.solve(unbounded(integers=integers))
            assert solution.status is Status.UNBOUNDED
            assert solution.x is None
            assert solution.bound == -np.inf


def test_a_ray_without_a_point_is_infeasible(solver):
    assert solver.solve(ray_without_a_point()).status is Status.INFEASIBLE


def test_bounds_that_cross_are_infeasible(solver):
    builder = MilpBuilder()
    x = builder.add_variables(2, lower=[0, 2], upper=[1, 1])
    assert solver.solve(builder.build()).status is Status.INFEASIBLE
    builder = MilpBuilder()
    x = builder.add_variables(2, upper=1)
    builder.add_row(x, [1, 1], 1, 0)
    assert solver.solve(builder.build()).status is Status.INFEASIBLE


def test_rows_that_say_nothing_are_harmless(solver):
    builder = MilpBuilder()
    x = builder.add_variables(2, upper=3, cost=-1.0, integer=True)
    builder.add_row(x, [1, 1])
    builder.add_row(x, [0, 0], -1, 1)
    solution = solver.solve(builder.build())
    check(builder.build(), solution)
    assert solution.objective == pytest.approx(-6)
    builder.add_row(x, [0, 0], 1)
    assert solver.solve(builder.build()).status is Status.INFEASIBLE


def test_no_rows_and_no_variables(solver):
    builder = MilpBuilder()
    assert solver.solve(builder.build()).objective == 0
    builder.add_variables(2, upper=3, cost=-1.0)
    assert solver.solve(builder.build()).objective == pytest.approx(-6)


def test_small_coefficients_count(solver):
    if solver.NAME == "scip":
        pytest.skip("SCIP treats coefficients below 1e-9 as zero")
    builder = MilpBuilder()
    x = builder.add_variables(2, upper=1e9, cost=[-1.0, 0.0])
    builder.add_row(x, [1e-10, 0], upper=0.01)
    assert solver.solve(builder.build()).objective == pytest.approx(-1e8, rel=1e-6)


def test_a_time_limit_leaves_an_honest_bound(solver):
    milp = market_split()
    solution = solver.solve(milp, time_limit=1.0)
    assert solution.status in (Status.FEASIBLE, Status.LIMIT)
    assert solution.bound <= 0  # the miss of a perfect split; the optimum is not below
    if solution.status is Status.FEASIBLE:
        assert violation(milp, solution.x) <= 1e-6
        assert solution.bound <= solution.objective
        assert solution.gap == pytest.approx(abs(solution.objective - solution.bound) / solution.objective)


def test_a_start_is_never_made_worse(solver):
    milp = market_split()
    begin = market_split_start(milp)
    assert violation(milp, begin) == 0
    solution = solver.solve(milp, start=begin, time_limit=0.5)
    assert solution.status is Status.FEASIBLE
    assert solution.objective <= milp.cost @ begin


def test_a_bad_start_does_no_harm(solver):
    milp = random_milp(3, integers=True)
    solution = solver.solve(milp, start=np.full(milp.variables, 1e3))
    assert solution.objective == pytest.approx(solver.solve(milp).objective, abs=1e-6)


def test_a_gap_is_kept(solver):
    milp = market_split(rows=2, columns=20)
    exact = solver.solve(milp)
    loose = solver.solve(milp, gap=0.5, start=market_split_start(milp))
    assert loose.status is Status.OPTIMAL
    assert loose.gap <= 0.5
    assert loose.bound <= exact.objective <= loose.objective


def test_threads_may_change_from_solve_to_solve(solver):
    milp = random_milp(1, integers=True)
    for threads in (1, 2, 1, None):
        check(milp, solver.solve(milp, threads=threads, seed=3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time_limit": -1}, "time_limit"),
        ({"gap": float("nan")}, "gap"),
        ({"threads": 0}, "threads"),
        ({"start": [1.0]}, "start"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(FairmendError, match=message):
        get_solver().solve(unbounded(integers=True), **arguments)


def test_a_solve_prints_nothing(solver, capfd):
    solver.solve(random_milp(0, integers=True))
    assert capfd.readouterr() == ("", "")


def test_an_unknown_status_is_passed_on_in_the_solvers_own_word(monkeypatch):
    solver = get_solver()
    monkeypatch.setattr(type(solver), "STATUS_MAP", {})
    with pytest.raises(FairmendError, match="kOptimal"):
        solver.solve(random_milp(0, integers=True))


def test_solvers_are_found_by_name(monkeypatch):
    assert available_solvers()[0] == "highs"
    assert get_solver().NAME == "highs"
    with pytest.raises(FairmendError, match="highs, scip, gurobi"):
        get_solver("cplex")
    monkeypatch.setattr("fairmend.milp.solver.find_spec", lambda module: None)
    assert available_solvers() == []
    with pytest.raises(FairmendError, match=r"pip install fairmend\[scip\]"):
        get_solver("scip")


def ill_scaled(size, where, *, integers):
    """A problem of three variables with one number of this size: in a row, the cost, a bound or a row's bound."""
    builder = MilpBuilder()
    x = builder.add_variables(
        3,
        lower=-size if where == "lower" else 0.0,
        upper=size if where == "upper" else 5.0,
        cost=[size if where == "cost" else 1.0, -1.0, 1.0],
        integer=integers,
    )
    builder.add_row(x, [size if where == "row" else 1.0, 1.0, -1.0], lower=size if where == "side" else 0.5)
    builder.add_row(x, [1.0, -1.0, 1.0], -1, 1)
    return builder.build()


def test_ill_scaled_problems_end_with_a_status_or_a_reason(solver, capfd):
    sizes, places = (1e15, 1e20, 1e25, 1e100, 1e300, 1e-300), ("row", "cost", "lower", "upper", "side")
    for size, where, integers in product(sizes, places, (False, True)):
        with named_case(size, where, integers):
            with suppress(FairmendError):  # anything else would fail the test
                solution = solver.solve(ill_scaled(size, where, integers=integers), time_limit=10)
                assert solution.x is None or np.isfinite(solution.x).all()
            assert "ERROR" not in capfd.readouterr().err


def test_a_bound_that_no_number_meets_is_infeasible(solver):
    for infinity in (np.inf, -np.inf):
        with named_case(infinity):
            builder = MilpBuilder()
            builder.add_variables(1, lower=infinity, upper=infinity)
            assert solver.solve(builder.build()).status is Status.INFEASIBLE
            builder = MilpBuilder()
            builder.add_row(builder.add_variables(1), [1.0], lower=infinity, upper=infinity)
            assert solver.solve(builder.build()).status is Status.INFEASIBLE


def test_what_a_solver_raises_becomes_a_reason(monkeypatch):
    def fail(*arguments):
        raise Exception("SCIP: error in input data!")  # PySCIPOpt raises this class

    solver = get_solver()
    monkeypatch.setattr(type(solver), "_run", fail)
    with pytest.raises(FairmendError, match=r"highs failed on Milp\(2 variables.*error in input data"):
        solver.solve(unbounded(integers=True))


@pytest.mark.parametrize("name", ["lower", "upper", "cost"])
def test_not_a_number_is_refused_before_a_solver_sees_it(name):
    builder = MilpBuilder()
    builder.add_variables(1, **{name: np.nan})
    with pytest.raises(FairmendError, match=f"{name} holds NaN"):
        builder.build()
