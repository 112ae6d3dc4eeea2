"""Which row of the data each person comes from, after rows were left out, and the person's id.

People count rows as a spreadsheet does: the header is row 1 and the first person is row 2. Python counts from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairmend.arrays import Bools, Ints
from fairmend.audit.result import AuditPair, AuditResult
from fairmend.errors import FairmendError
from fairmend.text import as_text, suggest

__all__ = ["RowNumbers", "number_pairs"]


class RowNumbers:
    """The rows of people who are added part by part, in the order of the data.

    Parameters
    ----------
    first : the number of the first row: 2 in a file with a header, 0 in Python
    id_column : the column with the id of each person, if there is one
    """

    def __init__(self, first: int = 0, id_column: str | None = None) -> None:
        """Start without people."""
        self.first, self.id_column = first, id_column
        self._rows = 0
        self._left_out: list[Ints] = []
        self._ids: list[Any] = []

    def add(self, frame: pd.DataFrame, kept: Bools | None = None) -> None:
        """Add the next rows of the data; `kept` (rows,) says which of them are people, all by default."""
        keep = np.ones(len(frame), dtype=bool) if kept is None else kept
        self._left_out.append(self._rows + np.flatnonzero(~keep))
        self._rows += len(frame)
        if self.id_column is not None:
            self._ids.append(_compact(_id_column(frame, self.id_column)[keep]))

    def positions(self, people: Ints | Sequence[int]) -> Ints:
        """Return the rows of people (k,), counted from 0; people are counted from 0 without the rows left out."""
        left_out = np.concatenate([np.zeros(0, np.int64), *self._left_out])
        before = left_out - np.arange(len(left_out))  # how many people come before each row that was left out
        numbers = np.asarray(people, dtype=np.int64)
        return numbers + np.searchsorted(before, numbers, side="right").astype(np.int64)

    def numbers(self, people: Ints | Sequence[int]) -> Ints:
        """Return the row numbers of people (k,), as they are shown."""
        return self.positions(people) + self.first

    def ids(self, people: Ints | Sequence[int]) -> list[str | None]:
        """Return the ids of people (k,) as text; None for each without a column of ids, or with an empty one."""
        wanted = np.asarray(people, dtype=np.int64)
        if self.id_column is None:
            return [None] * len(wanted)
        starts = np.cumsum([0, *(len(part) for part in self._ids)])
        part_of = np.searchsorted(starts, wanted, side="right") - 1
        found = [self._ids[part][int(i - starts[part])] for part, i in zip(part_of, wanted, strict=True)]
        return [None if pd.isna(value) else as_text(value) for value in found]


def number_pairs(result: AuditResult, numbers: RowNumbers) -> AuditResult:
    """Return the result with the row numbers and ids of people in its pairs, instead of their places in the audit."""

    def named(pairs: Sequence[AuditPair]) -> tuple[AuditPair, ...]:
        people = [pair.row for pair in pairs]
        found = zip(pairs, numbers.numbers(people).tolist(), numbers.ids(people), strict=True)
        return tuple(replace(pair, row=row, id=person) for pair, row, person in found)

    worst = result.disparity.worst
    disparity = result.disparity if worst is None else replace(result.disparity, worst=named([worst])[0])
    return replace(result, pairs=named(result.pairs), disparity=disparity)


def _id_column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in frame.columns:
        hint = suggest(name, map(str, frame.columns))
        raise FairmendError(f'the data has no column "{name}" for the ids{hint}. Correct `id` in [table] of the spec.')
    column = frame[name]
    if isinstance(column, pd.DataFrame):
        raise FairmendError(f'the data has {column.shape[1]} columns "{name}" for the ids. Keep one.')
    return column


def _compact(column: pd.Series[Any]) -> Any:
    """Return ids in little memory: numbers as they are, everything else as text in one buffer."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.array
    return column.astype("string[pyarrow]").array
