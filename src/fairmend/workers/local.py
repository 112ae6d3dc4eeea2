"""Threads and processes of this machine, and what a worker of any kind does with a task.

A worker compares versions, unpacks the shared part once, and reports errors as text. Threads are for work that waits
for a GPU, or that NumPy does without the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.workers.engine import Engine, Failure, Pool
from fairmend.workers.kept_results import NotPlainDataError, dump, load

_SAFE_PATH = "PYTHONSAFEPATH"

_unpacked = threading.local()  # of a worker: a Dask worker may run tasks in several threads


@dataclass(frozen=True)
class SharedPart:
    """A function and its first argument, pickled, with what the client runs, and the classes of results."""

    content: bytes
    digest: str
    versions: tuple[tuple[str, str], ...]
    classes: tuple[type, ...] = ()


_part: SharedPart | None = None  # of a worker: each process has one


def pack(function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()) -> SharedPart:
    """Return a function of a module, and what its calls share, for the workers."""
    content = pickle.dumps((function, shared))
    return SharedPart(content, hashlib.sha256(content).hexdigest(), describe_versions(), tuple(classes))


def describe_versions() -> tuple[tuple[str, str], ...]:
    """Return the versions on which the last bits of a result depend."""
    return ("fairmend", __version__), ("NumPy", np.__version__)


def call_remotely(part: SharedPart, task: Any) -> Any:
    """Return the result of a task on a worker, or a `Failure`."""
    for (name, mine), (_, theirs) in zip(describe_versions(), part.versions, strict=True):
        if mine != theirs:
            return Failure(
                f"the worker on {socket.gethostname()} has {name} {mine}, and this program {theirs}; "
                f"install {name} {theirs} on the workers"
            )
    if getattr(_unpacked, "digest", None) != part.digest:
        _unpacked.call = pickle.loads(part.content)  # from the program that the engine works for
        _unpacked.digest = part.digest
    function, shared = _unpacked.call
    try:
        return function(shared, task)
    except FairmendError as error:
        return Failure(str(error))


def call_for_data(part: SharedPart, task: Any) -> bytes:
    """Return what `call_remotely` does as plain data, so that the program that gets it need not unpickle anything."""
    return dump(call_remotely(part, task), (Failure, *part.classes))


def read_answer(part: SharedPart, answer: object, address: str) -> Any:
    """Return the result, or `Failure`, that a worker sent as plain data; raise an error if it sent anything else."""
    if not isinstance(answer, bytes):
        raise FairmendError(f"{address}: a worker sent {type(answer).__name__} instead of plain data; is it yours?")
    try:
        return load(answer, (Failure, *part.classes))
    except NotPlainDataError as error:
        raise FairmendError(
            f"{address}: a worker sent something else than plain data: {error}; is it yours?"
        ) from error


class Threads(Engine):
    """Runs tasks in so many threads; each has a copy of what they share, with buffers of its own."""

    on_this_machine = True

    def __init__(self, slots: int) -> None:
        self.slots, self.window = slots, 2 * slots

    @contextmanager
    def open(self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()) -> Iterator[Pool]:
        """Start the threads."""
        executor = ThreadPoolExecutor(self.slots)
        try:
            yield ExecutorPool(executor, call_remotely, pack(function, shared))
        finally:
            executor.shutdown(cancel_futures=True)


class ExecutorPool:
    """Calls a function of the first arguments and the task in an executor."""

    def __init__(self, executor: Executor, function: Callable[..., Any], *first: Any) -> None:
        self._executor, self._function, self._first = executor, function, first
        self._numbers: dict[Future[Any], int] = {}

    def submit(self, number: int, task: Any) -> None:
        """Start a task."""
        self._numbers[self._executor.submit(self._function, *self._first, task)] = number

    def next_finished(self) -> tuple[int, Any]:
        """Wait for any task that was started, and return its number and its result or `Failure`."""
        done, _ = wait(self._numbers, return_when=FIRST_COMPLETED)
        future = done.pop()
        return self._numbers.pop(future), future.result()


class Processes(Engine):
    """Runs tasks in so many processes, which start with the first task and end with the last."""

    on_this_machine = True

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
