"""What runs tasks, and the order in which results come back.

The tasks are numbered. A window of them is under way at a time, so that memory is set and not grown; results come back
in the order of the tasks, whatever order the workers finish in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.workers.kept_results import KeptResults


CONNECT_SECONDS = 4.0
"""How long the address of an engine, the engine itself, and its first worker may each take to answer."""

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """An error that the user can correct, as a worker reports it: only its text travels."""

    message: str


class Pool(Protocol):
    """An engine that is ready for one function."""

    def submit(self, number: int, task: Any) -> None:
        """Start a task."""

    def next_finished(self) -> tuple[int, Any]:
        """Wait for any task that was started, and return its number and its result or `Failure`."""


class Engine(Protocol):
    """Runs tasks.

    Attributes
    ----------
    slots : how many tasks run at once
    window : how many tasks may be under way, or finished and not yet given back
    is_here : whether tasks run in this process, one after another
    on_this_machine : whether tasks run on this machine, and see its temporary files
    """

    slots: int
    window: int
    is_here: bool
    on_this_machine: bool

    def open(
        self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()
    ) -> AbstractContextManager[Pool]:
        """Prepare to call ``function(shared, task)``; both are pickled, unless tasks run here.

        From a cluster, results come back as `plain_data` with these classes.
        """

    def __enter__(self) -> Engine:
        """Return the engine."""

    def __exit__(self, *error: object) -> None:
        """Leave the engine; what only this program used is stopped."""


class Here:
    """Runs tasks in this process, each when its result is asked for."""

    slots = window = 1
    is_here = on_this_machine = True

    def open(
        self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()
    ) -> AbstractContextManager[Pool]:
        """Return a pool that calls the function itself."""
        return nullcontext(_HerePool(function, shared))

    def __enter__(self) -> Here:
        """Return the engine."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held."""


HERE = Here()


class _HerePool:
    def __init__(self, function: Callable[[Any, Any], Any], shared: Any) -> None:
        self._function, self._shared = function, shared
        self._waiting: list[tuple[int, Any]] = []

    def submit(self, number: int, task: Any) -> None:
        self._waiting.append((number, task))

    def next_finished(self) -> tuple[int, Any]:
        number, task = self._waiting.pop(0)
        return number, self._function(self._shared, task)


def run_tasks(
    engine: Engine,
    function: Callable[[S, T], R],
    shared: S,
    tasks: Iterable[T],
    kept: KeptResults | None = None,
    classes: Sequence[type] = (),
) -> Iterator[tuple[T, R]]:
    """Yield each task with ``function(shared, task)``, in the order of the tasks.

    Tasks are made only when there is room for them. `kept` keeps results as they come, and gives those it has. An error
    is raised in the place of its task, after the results before it. `classes` are those of which results are made.
    """
    with engine.open(function, shared, classes) as pool:
        yield from run_in_pool(pool, engine.window, tasks, kept)


def run_in_pool(
    pool: Pool, window: int, tasks: Iterable[T], kept: KeptResults | None = None
) -> Iterator[tuple[T, Any]]:
    """Yield each task with its result from a pool that is open, as `run_tasks` does.

    A pool takes several runs, one after another, if each is read to its end.
    """
    numbered = iter(enumerate(tasks))
    under_way: dict[int, T] = {}
    finished: dict[int, Any] = {}
    given, more = 0, True
    while True:
        while more and len(under_way) < window:
            number, task = next(numbered, (-1, None))
            if task is None:
                more = False
                break
            under_way[number] = task
            result = None if kept is None else kept.load(number, task)
            if result is None:
                pool.submit(number, task)
            else:
                finished[number] = result
        if given not in under_way:
            return
        while given not in finished:
            number, result = pool.next_finished()
            finished[number] = result
            if isinstance(result, Failure):
                more = False  # nothing after it will be needed
            elif kept is not None:
                kept.save(number, under_way[number], result)
        found = finished.pop(given)
        if isinstance(found, Failure):
            raise FairmendError(found.message)
        yield under_way.pop(given), found
        given += 1
