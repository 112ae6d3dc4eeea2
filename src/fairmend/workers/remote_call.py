"""What a worker does with a task: compare versions, unpack the shared part once, and report errors as text."""

from __future__ import annotations

import hashlib
import pickle
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.errors import FairmendError
from fairmend.workers.engine import Failure

__all__ = ["SharedPart", "call_remotely", "describe_versions", "pack"]

_unpacked = threading.local()  # of a worker: a Dask worker may run tasks in several threads


@dataclass(frozen=True)
class SharedPart:
    """A function and its first argument, pickled, with what the client runs."""

    content: bytes
    digest: str
    versions: tuple[tuple[str, str], ...]


def pack(function: Callable[[Any, Any], Any], shared: Any) -> SharedPart:
    """Return a function of a module, and what its calls share, for the workers."""
    content = pickle.dumps((function, shared))
    return SharedPart(content, hashlib.sha256(content).hexdigest(), describe_versions())


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
