"""Processes give what one process gives, and one that ends is an error that says what to do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.processes import Processes
from support.worker_tasks import end_at


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
from fairmend.workers.processes import Processes
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
        "from fairmend.workers.processes import Processes\n"
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
