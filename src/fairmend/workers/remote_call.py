"""What a worker does with a task: compare versions, unpack the shared part once, and report errors as text."""

from __future__ import annotations

import hashlib
import pickle
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.workers.engine import Failure
from fairmend.workers.plain_data import NotPlainDataError, dump, load

_unpacked = threading.local()  # of a worker: a Dask worker may run tasks in several threads


@dataclass(frozen=True)
class SharedPart:
    """A function and its first argument, pickled, with what the client runs, and the classes of results."""

    content: bytes
    digest: str
    versions: tuple[tuple[str, str], ...]
    classes: tuple[type, ...] = ()


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
