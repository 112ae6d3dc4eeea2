"""Which row of the data each person comes from, after rows were left out, and the person's id.

People count rows as a spreadsheet does: the header is row 1 and the first person is row 2. Python counts from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmend.auditing.result import AuditPair, AuditResult
from fairmend.base.arrays import Bools, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, suggest


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
        self._ids: list[NDArray[Any] | CompactTexts] = []

    def add(self, frame: pd.DataFrame, kept: Bools | None = None) -> None:
        """Add the next rows of the data; `kept` (rows,) says which of them are people, all by default."""
        keep = np.ones(len(frame), dtype=bool) if kept is None else kept
        self._left_out.append(self._rows + np.flatnonzero(~keep))
        self._rows += len(frame)
        if self.id_column is not None:
            self._ids.append(_compact(_id_column(frame, self.id_column)[keep]))

    def merge(self, other: RowNumbers) -> None:
        """Add the people of the rows that follow."""
        self._left_out += [self._rows + left_out for left_out in other._left_out]
        self._rows += other._rows
        self._ids += other._ids

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


class CompactTexts:
    """Texts in little memory: all of them in one buffer, and where each ends; an empty field stays missing."""

    def __init__(self, column: pd.Series[Any]) -> None:
        """Take the values of a column as texts."""
        import pyarrow as pa

        found = pa.array(column.astype("string[pyarrow]"), from_pandas=True).cast(pa.large_string())
        texts = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        _, ends, content = texts.buffers()
        self._ends = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1].copy()
        self._content = b"" if content is None else content.to_pybytes()
        self._missing = column.isna().to_numpy(bool)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._missing)

    def __getitem__(self, place: int) -> str | None:
        """Return one of them, None for an empty field."""
        if self._missing[place]:
            return None
        return self._content[self._ends[place] : self._ends[place + 1]].decode("utf-8")


def _compact(column: pd.Series[Any]) -> NDArray[Any] | CompactTexts:
    """Return ids in little memory: numbers as they are, everything else as text."""
    if isinstance(column.dtype, np.dtype) and pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy()
    if pd.api.types.is_numeric_dtype(column.dtype):
        column = column.map(as_text, na_action="ignore")
    return CompactTexts(column)
