"""Tables that are read by a process elsewhere: their paths, whether they are there, and whether files have changed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

from fairmend.base.data_source import is_url
from fairmend.base.errors import FairmendError
from fairmend.tables.files import describe_remote
from fairmend.tables.stream import TableSlice, TableStream


def read_from_elsewhere(table: TableStream) -> TableStream:
    """Return the table for a process that runs in another folder."""
    return replace(table, parts=tuple(map(_from_elsewhere, table.parts)))


def _from_elsewhere(part: TableSlice) -> TableSlice:
    shared = part.spooled is not None and part.spooled.store.is_shared
    return replace(part, base=os.getcwd(), spooled=part.spooled if shared else None)


def require_visible(part: TableSlice) -> None:
    """Raise an error if this process works for another one and does not see the file."""
    part.file.require_visible()


def describe_files(table: TableStream) -> str:
    """Return a digest of the slices, and of the size and time of their files: it changes if the data changes.

    Which columns are read does not change it.
    """
    digest = hashlib.sha256()
    for place in dict.fromkeys(part.file.place for part in table.parts):
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
