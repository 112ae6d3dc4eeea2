"""Ray gives the answer of one process, also after a worker was killed; skipped where Ray is missing."""

import logging
import os
import sys
import threading
from pathlib import Path

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import open_engine, run_tasks
from fairmend.workers.ray_engine import RayMessages, _RayPool, _reason
from support.killed_workers import COMMANDS, KillAtProgress, content, small_parts
from support.worker_tasks import file_of_module, square


def say(text, name):
    thread = threading.Thread(target=lambda: sys.stdout.write(text), name=name)
    thread.start()
    thread.join()


def test_messages_of_ray_go_to_the_log(capsys, caplog):
    caplog.set_level(logging.INFO, "fairmend")
    before, messages = sys.stdout, RayMessages()
    messages.start()
    say("a worker died\n", "ray_listen_error_messages")
    say("mine, ", "worker")
    sys.stdout.write("and mine")
    assert sys.stdout.encoding == before.encoding
    with messages.shutting_down():
        sys.stdout.write("and others\n")
    assert sys.stdout is before
    assert capsys.readouterr().out == "mine, and mine"
    assert caplog.messages == ["a worker died", "and others"]


ray = pytest.importorskip("ray", reason="needs fairmend[ray]")
grpc = pytest.importorskip("grpc", reason="needs grpcio, which comes with fairmend[ray]")
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


class LostRay:
    """A Ray whose client server has ended: every call fails."""

    exceptions = ray.exceptions

    def remote(self, **_):
        return lambda function: self

    def put(self, part):
        return part

    def __init__(self, error):
        self.error = error

    def wait(self, *_, **__):
        raise self.error

    cancel = wait


@pytest.mark.parametrize("error", [ConnectionError("disconnected"), grpc.RpcError("not found")])
def test_a_lost_connection_is_one_clear_error(error):
    """Also if the tasks under way cannot be cancelled any more."""
    pool = _RayPool(LostRay(error), None, "ray://host:10001")
    pool._numbers["reference"] = 0
    with pytest.raises(FairmendError, match=r"^ray://host:10001: the connection to Ray was lost; start again$"):
        pool.next_finished()
    pool.cancel()


def test_the_reason_of_a_failed_connection_is_the_end_of_a_traceback():
    error = ConnectionAbortedError("Initialization failure from server:\nTraceback:\n  line 1\nRuntimeError: no room")
    assert _reason(error) == "Initialization failure from server: RuntimeError: no room"
    assert _reason(ConnectionError("timeout\nmore")) == "timeout"


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


def test_workers_import_nothing_from_the_current_folder(monkeypatch, tmp_path):
    """It may be someone else's. Ray itself lets workers look there first."""
    (tmp_path / "colorsys.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with open_engine("ray://local:1") as engine:
        assert Path.cwd() == tmp_path
        ((_, file),) = run_tasks(engine, file_of_module, None, ["colorsys"])
    assert not Path(file).is_relative_to(tmp_path)
