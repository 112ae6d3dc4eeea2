"""Threads and processes give the answers of this process, and what a worker sends is checked."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

import fairmend
from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.spec import Spec
from fairmend.tables import examine
from fairmend.workers import local
from fairmend.workers.engine import HERE, Failure, run_tasks
from fairmend.workers.local import Processes, Threads, call_for_data, call_remotely, pack, read_answer
from support.cli_case import run, small_network, small_people, small_spec
from support.engines import ClusterEngine
from support.killed_workers import COMMANDS, content, small_parts
from support.worker_tasks import end_at


@pytest.fixture(autouse=True)
def _start_processes_as_users_do(monkeypatch):
    monkeypatch.setattr(local, "get_context", get_context)


def add(shared, task):
    if task < 0:
        raise FairmendError("a negative task")
    return shared + task


def test_a_task_is_a_call_with_the_shared_part():
    assert call_remotely(pack(add, 10), 5) == 15
    assert call_remotely(pack(add, 20), 5) == 25
    assert call_remotely(pack(add, 20), -1) == Failure("a negative task")


@pytest.mark.parametrize(("place", "name"), [(0, "fairmend"), (1, "NumPy")])
def test_another_version_on_the_worker_is_refused_by_name(place, name):
    part = pack(add, 1)
    versions = [list(each) for each in part.versions]
    versions[place][1] = "0.0.1"
    found = call_remotely(replace(part, versions=tuple(map(tuple, versions))), 1)
    assert f"install {name} 0.0.1 on the workers" in found.message
    assert place or f"has fairmend {__version__}, and this program 0.0.1" in found.message


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_an_answer_is_plain_data():
    part = pack(add, 10)
    answer = call_for_data(part, 5)
    assert (type(answer), read_answer(part, answer, "tcp://here")) == (bytes, 15)
    assert read_answer(part, call_for_data(part, -1), "tcp://here") == Failure("a negative task")


@pytest.mark.parametrize("answer", [Evil(), pickle.dumps(Evil()), 15, b"", None, "text"])
def test_an_answer_that_is_not_plain_data_is_refused(answer):
    """A cluster that someone else runs may answer with anything; nothing of it is unpickled."""
    with pytest.raises(FairmendError, match="tcp://here: a worker sent "):
        read_answer(pack(add, 10), answer, "tcp://here")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_the_same_by_plain_data(monkeypatch, command):
    small_parts(monkeypatch)
    cluster = ClusterEngine()
    assert content(command, cluster) == content(command)
    assert cluster.sent


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_audit_gives_the_same_by_plain_data(monkeypatch, tmp_path, kind):
    """Slices of files, which workers read, with ids, labels, pairs and values out of range; and blocks of samples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examine, "_WORTHWHILE", 0)
    opened = lambda address, jobs: HERE if address is None else ClusterEngine()  # noqa: E731
    monkeypatch.setattr("fairmend.workers.engine.open_engine", opened)
    small_network().save("model.onnx")
    Spec(small_spec().features, small_spec().label, id_column="customer").save("spec.toml")
    people = small_people(400).assign(customer=[f"c{n}" for n in range(400)])
    people.loc[7, "credits"] = 9
    for number in range(4):
        part = people[number * 100 : number * 100 + 100]
        part.to_csv(f"{number}.csv", index=False) if kind == "csv" else part.to_parquet(f"{number}.parquet")

    def audit(*options):
        result = run("audit", "model.onnx", "--spec", "spec.toml", "--json", "--no-report", *options)
        assert result.exit_code == 1, result.stderr
        return {**json.loads(result.stdout), "seconds": None, "plan": None, "origin": None, "exact_seconds": None}

    files = ("--data", f"?.{kind}", "--out-of-range", "widen", "--out", "pairs.csv")
    found, lines = audit(*files), Path("pairs.csv").read_text()
    assert audit(*files, "--cluster", "tcp://here") == found
    assert Path("pairs.csv").read_text() == lines
    assert audit("--samples", 300) == audit("--samples", 300, "--cluster", "tcp://here")


def work(shared, task):
    shared.append(task)
    if task == 5:
        raise FairmendError("task 5 is wrong")
    return threading.get_ident(), len(shared), task


def test_tasks_run_in_other_threads_in_order():
    shared = []
    found = [result for _, result in run_tasks(Threads(2), work, shared, range(5))]
    assert [task for _, _, task in found] == list(range(5))
    assert threading.get_ident() not in {thread for thread, _, _ in found}
    assert shared == []  # the threads have copies
    for thread in {thread for thread, _, _ in found}:
        counts = [count for other, count, _ in found if other == thread]
        assert counts == list(range(1, len(counts) + 1))  # and keep them


def test_an_error_comes_in_the_place_of_its_task():
    results = run_tasks(Threads(3), work, [], range(8))
    assert [next(results)[0] for _ in range(5)] == list(range(5))
    with pytest.raises(FairmendError, match="task 5 is wrong"):
        next(results)


def test_tasks_run_in_other_processes_in_order():
    found = list(run_tasks(Processes(2), end_at, None, range(6)))
    assert [result[1] for _, result in found] == list(range(6))
    assert os.getpid() not in {result[0] for _, result in found}


def test_a_process_that_ends_is_an_error_that_says_what_to_do():
    with pytest.raises(FairmendError, match="pass fewer jobs"):
        list(run_tasks(Processes(2), end_at, 2, range(6)))


_WORKERS_OF_A_KILLED_PROCESS = """
import os, signal
from fairmend.workers.engine import run_tasks
from fairmend.workers.local import Processes
from support.worker_tasks import end_at

if __name__ == "__main__":
    print(next(run_tasks(Processes(1), end_at, None, range(6)))[1][0], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_workers_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(_WORKERS_OF_A_KILLED_PROCESS)
    paths = os.pathsep.join(path for path in sys.path if path)
    # The pipe stays open as long as a worker lives.
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert int(done.stdout) > 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always looks in the current folder first")
def test_processes_import_nothing_from_the_current_folder(tmp_path):
    """It may be someone else's: a module named like one of Python's own was run by every process."""
    for name in ("pickle", "struct", "signal", "multiprocessing", "random"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()\n")
    script = tmp_path / "scripts" / "run.py"
    script.parent.mkdir()
    script.write_text(
        "from fairmend.workers.engine import run_tasks\n"
        "from fairmend.workers.local import Processes\n"
        "from support.worker_tasks import end_at\n"
        "if __name__ == '__main__':\n"
        "    print(len(list(run_tasks(Processes(2), end_at, None, range(6)))))\n"
    )
    folders = [str(Path(fairmend.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("6\n", 0), done.stderr
    assert not (tmp_path / "imported").exists()
