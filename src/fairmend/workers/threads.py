"""Threads of this process: for work that waits for a GPU, or that NumPy does without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from fairmend.workers.engine import Pool
from fairmend.workers.remote_call import call_remotely, pack


class Threads:
    """Runs tasks in so many threads; each has a copy of what they share, with buffers of its own."""

    is_here, on_this_machine = False, True

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

    def __enter__(self) -> Threads:
        """Return the engine."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held between two uses."""


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
