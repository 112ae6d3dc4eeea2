"""Ray gives the answer of one process, also after a worker was killed; skipped where Ray is missing."""

import os
import signal

import pytest

from fairmend.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.open_engine import open_engine

pytest.importorskip("ray", reason="needs fairmend[ray]")
pytestmark = pytest.mark.filterwarnings("default")  # those of Ray are not ours


def square(shared, task):
    if task == shared.get("wrong"):
        raise FairmendError("a wrong task")
    if task == 5 and not os.path.exists(shared["killed"]):
        open(shared["killed"], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def test_results_are_complete_after_a_worker_was_killed(tmp_path):
    with open_engine("ray://local:2") as engine:
        assert engine.slots == 2
        shared = {"killed": str(tmp_path / "killed")}
        found = list(run_tasks(engine, square, shared, range(12)))
    assert (tmp_path / "killed").exists()
    assert found == [(task, task * task) for task in range(12)]


def test_an_error_of_a_task_is_raised_here(tmp_path):
    with (
        open_engine("ray://local:2") as engine,
        pytest.raises(FairmendError, match="a wrong task"),
    ):
        list(run_tasks(engine, square, {"wrong": 3, "killed": str(tmp_path)}, range(5)))
