"""Tables that are read by a process elsewhere: their paths, whether they are there, and whether files have changed."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import replace

from fairmend.data_source import is_url
from fairmend.errors import FairmendError
from fairmend.tables.files import describe_remote
from fairmend.tables.stream import TableSlice, TableStream

__all__ = ["describe_files", "read_from_elsewhere", "require_visible"]


def read_from_elsewhere(table: TableStream) -> TableStream:
    """Return the table for a process that runs in another folder."""
    return replace(table, parts=tuple(replace(part, base=os.getcwd(), spooled=None) for part in table.parts))


def require_visible(part: TableSlice) -> None:
    """Raise an error if this process works for another one and does not see the file."""
    if part.base and not is_url(part.place) and not os.path.exists(part.place):
        raise FairmendError(
            f"{part.place}: the worker on {socket.gethostname()} does not see this file; workers need it under the "
            "same path, or give the URL of an object store that they can read"
        )


def describe_files(table: TableStream) -> str:
    """Return a digest of the slices, and of the size and time of their files: it changes if the data changes.

    Which columns are read does not change it.
    """
    digest = hashlib.sha256()
    for place in dict.fromkeys(part.place for part in table.parts):
        digest.update(f"{os.path.abspath(place)!r} {_state(place)}\n".encode())
    for part in table.slices():
        digest.update(f"{replace(part, columns=None)!r}\n".encode())
    return digest.hexdigest()


def _state(place: str) -> str:
    if is_url(place):
        return describe_remote(place)
    try:
        found = os.stat(place)
    except OSError as error:
        raise FairmendError(f"{place}: cannot read the data: {error.strerror}") from error
    return f"{found.st_size} {found.st_mtime_ns}"
