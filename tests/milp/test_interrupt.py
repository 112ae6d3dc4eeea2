"""Ctrl-C ends a solve, and errors of a solve are raised."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairmend.milp.interrupt import run_interruptibly


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
