"""Pieces of CSV files, kept in a temporary file once they are parsed, so that files are parsed once and read twice.

A column of texts with few different values is kept as a dictionary of them and a small number for each row.
"""

from __future__ import annotations

import logging
import os
import pickle
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pandas as pd

from fairmend.errors import FairmendError

__all__ = ["Spool", "SpooledPieces"]

_MOST_VALUES = 10_000  # of a dictionary; a column with more is kept as it is

_logger = logging.getLogger(__name__)


class Spool:
    """A temporary file with some columns of pieces that were parsed; the system deletes it with this object.

    Attributes
    ----------
    columns : those that are kept
    failed : whether the disk was full, so that the pieces must be parsed again
    """

    def __init__(self, columns: Collection[str]) -> None:
        self.columns, self.failed = frozenset(columns), False
        self._file = TemporaryFile()  # noqa: SIM115  # it lives as long as this object
        weakref.finalize(self, self._file.close)
        self._places: list[tuple[int, int]] = []
        self._dictionaries: dict[str, dict[str, int]] = {}
        self._without: set[str] = set()

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._places)

    def add(self, frame: pd.DataFrame) -> None:
        """Keep a piece."""
        if self.failed:
            return
        content = [(str(name), *self._packed(str(name), frame[name])) for name in frame if name in self.columns]
        start = self._places[-1][0] + self._places[-1][1] if self._places else 0
        data = pickle.dumps((len(frame), content), protocol=5)
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            _logger.warning("the temporary folder is full (%s): CSV files are parsed twice; set TMPDIR", error.strerror)
            self.failed = True
            return
        self._places.append((start, len(data)))

    def read(self, number: int, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of a piece."""
        start, size = self._places[number]
        data = os.pread(self._file.fileno(), size, start)  # has no position: several threads may read
        if len(data) != size:
            raise FairmendError("a temporary file was cut off; start again")
        rows, content = pickle.loads(data)  # written by this process
        index = pd.RangeIndex(rows)
        found = {name: self._unpacked(name, values, coded) for name, values, coded in content if name in columns}
        return pd.DataFrame(found, index=index, copy=False)

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

    def _unpacked(self, name: str, values: Any, coded: bool) -> Any:
        return pd.Categorical.from_codes(values, dtype=self._kinds[name]) if coded else values

    @cached_property
    def _kinds(self) -> dict[str, pd.CategoricalDtype]:
        """The type of each column with a dictionary; asked for when all pieces are there."""
        return {name: pd.CategoricalDtype(list(values)) for name, values in self._dictionaries.items()}


@dataclass(frozen=True, eq=False)
class SpooledPieces:
    """The pieces of one file in a spool: their numbers."""

    spool: Spool
    numbers: range

    def has(self, columns: Collection[str]) -> bool:
        """Return whether it has these columns."""
        return self.spool.columns.issuperset(columns)

    def read(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the pieces with these columns."""
        return (self.spool.read(number, columns) for number in self.numbers)
