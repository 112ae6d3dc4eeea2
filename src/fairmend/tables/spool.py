"""Pieces of CSV files, kept in temporary files once they are parsed, so that files are parsed once and read twice.

A column of texts with few different values is kept as a dictionary of them and a small number for each row.
"""

from __future__ import annotations

import os
import pickle
import shutil
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile, mkdtemp
from typing import Any, Protocol

import numpy as np
import pandas as pd

from fairmend.base.errors import FairmendError

_MOST_VALUES = 10_000  # of a dictionary; a column with more is kept as it is

Place = tuple[int, int]
"""The first byte, and the number of bytes."""


class Store(Protocol):
    """A file to which parsed pieces are written."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes of this machine can read it."""

    def is_there(self) -> bool:
        """Return whether this process can read it."""

    def append(self, data: bytes) -> Place:
        """Write at the end, and return where."""

    def read(self, place: Place) -> bytes:
        """Return what was written there."""


class PrivateStore:
    """A temporary file without a name; the system deletes it with this object, even if this process is killed."""

    is_shared = False

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        weakref.finalize(self, self._file.close)
        self._end = 0

    def is_there(self) -> bool:
        """Return True: the process that made it can read it."""
        return True

    def append(self, data: bytes) -> Place:
        """Write at the end, and return where; what a full disk has left of an earlier piece is written over."""
        start, written = self._end, 0
        while written < len(data):
            written += os.pwrite(self._file.fileno(), memoryview(data)[written:], start + written)
        self._end += written
        return start, written

    def read(self, place: Place) -> bytes:
        """Return what was written there; several threads may read."""
        return os.pread(self._file.fileno(), place[1], place[0])


class SharedFolder:
    """A temporary folder for files that processes of this machine share; deleted with this object."""

    def __init__(self) -> None:
        self.path = mkdtemp(prefix="fairmend-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class SharedStore:
    """A file in a shared folder; `owner` keeps the folder, and is not sent to other processes."""

    path: str
    owner: SharedFolder | None = None

    is_shared = True

    def __reduce__(self) -> tuple[type[SharedStore], tuple[str]]:
        """Send the path."""
        return SharedStore, (self.path,)

    def is_there(self) -> bool:
        """Return whether this process runs on the machine that has it."""
        return os.path.exists(self.path)

    def append(self, data: bytes) -> Place:
        """Write at the end, and return where."""
        with open(self.path, "ab") as file:
            file.write(data)
            return file.tell() - len(data), len(data)

    def read(self, place: Place) -> bytes:
        """Return what was written there."""
        with open(self.path, "rb") as file:
            file.seek(place[0])
            return file.read(place[1])


@dataclass(frozen=True, eq=False)
class SpooledPieces:
    """Some columns of the pieces of one slice, as they were parsed.

    Attributes
    ----------
    store : the file that has them
    columns : those that are kept
    pieces : where the pieces are
    dictionaries : where the dictionaries of the columns are
    """

    store: Store
    columns: frozenset[str]
    pieces: tuple[Place, ...]
    dictionaries: Place

    def has(self, columns: Collection[str]) -> bool:
        """Return whether it has these columns, and this process can read them."""
        return self.columns.issuperset(columns) and self.store.is_there()

    def read(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the pieces with these columns."""
        dictionaries: dict[str, list[str]] = self._load(self.dictionaries)
        kinds = {name: pd.CategoricalDtype(dictionaries[name]) for name in columns if name in dictionaries}
        for place in self.pieces:
            rows, content = self._load(place)
            found = {
                name: pd.Categorical.from_codes(values, dtype=kinds[name]) if coded else values
                for name, values, coded in content
                if name in columns
            }
            yield pd.DataFrame(found, index=pd.RangeIndex(rows), copy=False)

    def _load(self, place: Place) -> Any:
        data = self.store.read(place)
        if len(data) != place[1]:
            raise FairmendError("a temporary file was cut off; start again")
        return pickle.loads(data)  # written by this process, or by one that it started


@dataclass(eq=False)
class Spool:
    """Writes some columns of the pieces of one slice to a store.

    Attributes
    ----------
    problem : why the store takes no more, such as that the disk is full; empty if all was written
    """

    store: Store
    columns: frozenset[str]
    problem: str = ""
    _pieces: list[Place] = field(default_factory=list)
    _dictionaries: dict[str, dict[str, int]] = field(default_factory=dict)
    _without: set[str] = field(default_factory=set)

    def add(self, frame: pd.DataFrame) -> None:
        """Keep a piece."""
        if not self.problem:
            content = [(str(name), *self._packed(str(name), frame[name])) for name in frame if name in self.columns]
            place = self._append((len(frame), content))
            self._pieces += [] if place is None else [place]

    def finish(self) -> SpooledPieces | None:
        """Return what was kept; None if not all of it could be written."""
        place = None if self.problem else self._append({name: list(own) for name, own in self._dictionaries.items()})
        return None if place is None else SpooledPieces(self.store, self.columns, tuple(self._pieces), place)

    def _append(self, content: Any) -> Place | None:
        try:
            return self.store.append(pickle.dumps(content, protocol=5))
        except OSError as error:
            self.problem = error.strerror or str(error)
            return None

    def _packed(self, name: str, column: pd.Series[Any]) -> tuple[Any, bool]:
        """Return the numbers of the values in the dictionary of the column, or the values, and which of the two."""
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
            return column.to_numpy(), False
        if name in self._without:
            return column.array, False
        dictionary = self._dictionaries.setdefault(name, {})
        codes, values = pd.factorize(column)
        new = [value for value in values if value not in dictionary]
        if len(dictionary) + len(new) > _MOST_VALUES or not all(isinstance(value, str) for value in new):
            self._without.add(name)
            return column.array, False
        for value in new:
            dictionary[value] = len(dictionary)
        numbers = np.array([*(dictionary[value] for value in values), -1], dtype=np.int16)
        return numbers[codes], True
