"""Ray gives the answer of one process, also after a worker was killed; skipped where Ray is missing."""

import os
from pathlib import Path

import pytest

from fairmend.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.open_engine import open_engine
from support.killed_workers import COMMANDS, KillAtProgress, content, small_parts
from support.worker_tasks import square

pytest.importorskip("ray", reason="needs fairmend[ray]")
psutil = pytest.importorskip("psutil", reason="needs psutil, which comes with fairmend[dask]")
pytestmark = pytest.mark.filterwarnings("default")  # those of Ray are not ours


@pytest.fixture(autouse=True)
def _workers_find_the_tasks(monkeypatch):
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


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


def workers():
    """Return the processes of a Ray of this program that run tasks, or wait for some."""
    processes = psutil.Process().children(recursive=True)
    return [process.pid for process in processes if process.name().startswith(("ray::call", "ray::IDLE"))]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_gives_the_same_after_workers_were_killed(monkeypatch, capsys, command):
    small_parts(monkeypatch)
    kill = KillAtProgress(command, workers)
    found = content(command, "ray://local:2", kill)
    assert kill.killed
    assert found == content(command)
    assert capsys.readouterr().out == ""  # what Ray says about it is logged
