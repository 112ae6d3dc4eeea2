"""Processes of this machine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import Pool
from fairmend.workers.remote_call import SharedPart, call_remotely, pack
from fairmend.workers.threads import ExecutorPool

_SAFE_PATH = "PYTHONSAFEPATH"

_part: SharedPart | None = None  # of a worker: each process has one


class Processes:
    """Runs tasks in so many processes, which start with the first task and end with the last."""

    is_here, on_this_machine = False, True

    def __init__(self, jobs: int) -> None:
        self.slots, self.window = jobs, 2 * jobs

    @contextmanager
    def open(self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()) -> Iterator[Pool]:
        """Start the processes."""
        with TemporaryDirectory() as folder, _safe_path():
            # In a file: Python waits forever for a process that ends before it has read large arguments.
            file = Path(folder) / "shared"
            file.write_bytes(pickle.dumps(pack(function, shared)))
            # A forked process would inherit locks that the threads of this one hold.
            executor = ProcessPoolExecutor(self.slots, get_context("spawn"), initializer=_start, initargs=(str(file),))
            try:
                yield ExecutorPool(executor, _run)
            except BrokenProcessPool as error:
                raise FairmendError(
                    "a process ended before its work was done; pass fewer jobs if memory is short, and in a script of "
                    'your own make the call under `if __name__ == "__main__":`'
                ) from error
            finally:
                executor.shutdown(cancel_futures=True)

    def __enter__(self) -> Processes:
        """Return the engine."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held between two uses."""


@contextmanager
def _safe_path() -> Iterator[None]:
    """Let new processes of Python 3.11 and later import nothing from the current folder, which may be someone else's.

    They start with `python -c`, which looks there first, before they learn where this process looks for modules.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH)
        if before is not None:
            os.environ[_SAFE_PATH] = before


def _start(file: str) -> None:
    global _part  # what a process keeps between its tasks
    Thread(target=_end_with_parent, daemon=True).start()
    _part = pickle.loads(Path(file).read_bytes())  # written by the process that started this one


def _end_with_parent() -> None:
    """End this process when the one that started it is killed: it would wait for tasks forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(task: Any) -> Any:
    assert _part is not None
    return call_remotely(_part, task)
