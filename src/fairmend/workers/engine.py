"""What runs tasks, the order in which results come back, and the engine that an address or a number of processes names.

The tasks are numbered. A window of them is under way at a time, so that memory is set and not grown; results come back
in the order of the tasks, whatever order the workers finish in.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fairmend.base.device import check_device_name, device_of_workers
from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.workers.kept_results import KeptResults


CONNECT_SECONDS = 4.0
"""How long the address of an engine, the engine itself, and its first worker may each take to answer."""

_DASK, _RAY = ("tcp", "tls"), "ray"
_RAY_HERE = re.compile(r"auto|local(:[1-9]\d{0,3})?")
_LONGEST_GREETING, _SETTINGS = 1 << 20, b"\x04"

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


class Engine:
    """Runs tasks, in a ``with`` block; most hold nothing between two uses.

    Attributes
    ----------
    slots : how many tasks run at once
    window : how many tasks may be under way, or finished and not yet given back
    is_here : whether tasks run in this process, one after another
    on_this_machine : whether tasks run on this machine, and see its temporary files
    """

    slots: int
    window: int
    is_here: bool = False
    on_this_machine: bool = False

    def open(
        self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()
    ) -> AbstractContextManager[Pool]:
        """Prepare to call ``function(shared, task)``; both are pickled, unless tasks run here.

        From a cluster, results come back as `plain_data` with these classes.
        """
        raise NotImplementedError

    def __enter__(self) -> Engine:
        """Return the engine."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the engine; what only this program used is stopped."""


class Here(Engine):
    """Runs tasks in this process, each when its result is asked for."""

    slots = window = 1
    is_here = on_this_machine = True

    def open(
        self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()
    ) -> AbstractContextManager[Pool]:
        """Return a pool that calls the function itself."""
        return nullcontext(_HerePool(function, shared))


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


def open_engine(cluster: str | Engine | None = None, jobs: int = 1) -> Engine:
    """Return the engine at an address, so many processes without one, or this process; use it in a ``with`` block."""
    if cluster is not None and jobs > 1:
        raise FairmendError("give either jobs or cluster: the workers of a cluster are counted there")
    if cluster is None and jobs == 1:
        return HERE
    if cluster is None:
        from fairmend.workers.local import Processes

        return Processes(jobs)
    if not isinstance(cluster, str):
        return cluster
    scheme, _, place = cluster.partition("://")
    if scheme not in (*_DASK, _RAY) or not place:
        raise FairmendError(
            f'cluster "{cluster}" is not known; give tcp://host:port (Dask), ray://host:port or ray://local (Ray)'
        )
    if not (scheme == _RAY and _RAY_HERE.fullmatch(place)):
        _require_answer(cluster, place)
    if scheme == _RAY:
        from fairmend.workers.ray_engine import RayEngine

        return RayEngine(cluster)
    from fairmend.workers.dask_engine import DaskEngine

    return DaskEngine(cluster)


def use_engine(cluster: str | Engine | None, jobs: int) -> AbstractContextManager[Engine]:
    """Return the engine for a ``with`` block; one that the caller opened stays open."""
    return open_engine(cluster, jobs) if cluster is None or isinstance(cluster, str) else nullcontext(cluster)


def works_here(cluster: str | Engine | None, jobs: int) -> bool:
    """Return whether `use_engine` gives this process."""
    return jobs == 1 and (cluster is None or (not isinstance(cluster, str) and cluster.is_here))


def check_workers(cluster: str | Engine | None, jobs: int, device: str) -> str:
    """Return the name of the device to compute on, here or on workers; refuse names and numbers that cannot be."""
    if jobs < 1:
        raise FairmendError(f"jobs is {jobs}; it must be at least 1")
    check_device_name(device)
    return device if works_here(cluster, jobs) else device_of_workers(device)


def _require_answer(cluster: str, place: str) -> None:
    """Raise an error if no engine answers there: the engines' own clients try for minutes.

    Both speak first: a scheduler of Dask with the length of its greeting in 8 bytes, and Ray with a frame of settings
    of HTTP/2. A server behind TLS does not.
    """
    scheme = cluster.partition("://")[0]
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise FairmendError(f'cluster "{cluster}" has no port; give {scheme}://host:port')
    try:
        start = _greeting(host.strip("[]"), int(port), speaks_first=scheme != "tls")
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        server = "the Ray cluster" if scheme == _RAY else "the Dask scheduler"
        raise FairmendError(
            f"{cluster}: nothing answers there ({reason}); start {server}, or correct the address"
        ) from error
    greets = {"tcp": int.from_bytes(start, "little") < _LONGEST_GREETING, "ray": start[3:4] == _SETTINGS, "tls": True}
    if not greets[scheme] or (not start and scheme != "tls"):
        name = "Ray" if scheme == _RAY else "Dask"
        raise FairmendError(f"{cluster}: what answers there is not {name}; correct the address")


def _greeting(host: str, port: int, *, speaks_first: bool) -> bytes:
    """Return the first bytes that a server sends; in a thread, because looking up a name has no limit of its own."""
    answer: Future[bytes] = Future()

    def ask() -> None:
        try:
            with socket.create_connection((host, port), timeout=CONNECT_SECONDS) as connection:
                answer.set_result(connection.recv(8) if speaks_first else b"")
        except Exception as error:  # raised by the thread that waits
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(CONNECT_SECONDS)
    except FutureTimeout as error:
        raise TimeoutError("timed out") from error
