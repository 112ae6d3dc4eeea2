"""The engine that an address names: tcp://host:port for Dask, ray://host:port for Ray, or none."""

from __future__ import annotations

import re
import socket
from contextlib import AbstractContextManager, nullcontext

from fairmend.errors import FairmendError
from fairmend.workers.engine import CONNECT_SECONDS, HERE, Engine
from fairmend.workers.processes import Processes

__all__ = ["open_engine", "use_engine"]

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
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS) as connection:
            start = b"" if scheme == "tls" else connection.recv(8)
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
