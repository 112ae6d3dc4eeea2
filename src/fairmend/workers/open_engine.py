"""The engine that an address names: tcp://host:port for Dask, ray://host:port for Ray, or none."""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, nullcontext

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import CONNECT_SECONDS, HERE, Engine
from fairmend.workers.processes import Processes

_DASK, _RAY = ("tcp", "tls"), "ray"
_RAY_HERE = re.compile(r"auto|local(:[1-9]\d{0,3})?")
_LONGEST_GREETING, _SETTINGS = 1 << 20, b"\x04"


def open_engine(cluster: str | Engine | None = None, jobs: int = 1) -> Engine:
    """Return the engine at an address, so many processes without one, or this process; use it in a ``with`` block."""
    if cluster is not None and jobs > 1:
        raise FairmendError("give either jobs or cluster: the workers of a cluster are counted there")
    if cluster is None:
        return HERE if jobs == 1 else Processes(jobs)
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
