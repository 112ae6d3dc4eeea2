"""The people in a data file, as the network reads them, with the rows that they come from.

Values out of range are refused, moved, left out or let in, as `fairmend.spec.out_of_range` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray

from fairmend.auditing.result import AuditPair, AuditResult, with_own_values
from fairmend.base.arrays import Bools, FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource
from fairmend.base.text import as_text, suggest
from fairmend.evaluate.encoding.given import require_scores
from fairmend.models import RunModel
from fairmend.network import Model
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, apply_policy, require_policy
from fairmend.spec.read_values import RowsError
from fairmend.tables import FIRST_ROW, BrokenFile, TableStream, find_files, stream_table

# Which row of the data each person comes from, after rows were left out, and the person's id.
#
# People count rows as a spreadsheet does: the header is row 1 and the first person is row 2. Python counts from 0.


class RowNumbers:
    """The rows of people who are added part by part, in the order of the data.

    Parameters
    ----------
    first : the number of the first row: 2 in a file with a header, 0 in Python
    id_column : the column with the id of each person, if there is one

    Attributes
    ----------
    read : returns the rows of people (k,) in the user's values (k, columns), in range; None if there is no data
    """

    def __init__(self, first: int = 0, id_column: str | None = None) -> None:
        """Start without people."""
        self.first, self.id_column = first, id_column
        self.read: Callable[[Ints], pd.DataFrame] | None = None
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


def number_pairs(result: AuditResult, numbers: RowNumbers, spec: Spec, dtype: DTypeLike) -> AuditResult:
    """Return the result with the row numbers and ids of people in its pairs, instead of their places in the audit.

    Their values are those of the data, if `numbers` can read it.
    """

    def named(pairs: Sequence[AuditPair]) -> tuple[AuditPair, ...]:
        people = [pair.row for pair in pairs]
        if pairs and numbers.read is not None:
            pairs = with_own_values(pairs, spec, numbers.read(np.array(people, dtype=np.int64)), dtype)
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


@dataclass(frozen=True, eq=False)
class People:
    """Some or all people of a file.

    Attributes
    ----------
    spec : the spec, with wider ranges if they were widened
    frame, X : the people in the user's values, and as the network reads them (people, width)
    numbers : their row numbers, as a spreadsheet counts, and ids
    out_of_range : what was done about values out of range
    labels : the different labels in the whole file
    broken : files of the data that were left out because they cannot be read
    """

    spec: Spec
    frame: pd.DataFrame
    X: FloatArray
    numbers: RowNumbers
    out_of_range: OutOfRange
    labels: tuple[object, ...] = ()
    broken: tuple[BrokenFile, ...] = ()

    @property
    def negative(self) -> str | None:
        """What class 0 of two means, as the labels in the file show; None if the label gives no positive value."""
        label = self.spec.label
        return None if label is None or label.positive is None else label.name_negative(self.labels)

    @property
    def rows(self) -> Ints:
        """The row number of each (people,)."""
        return self.numbers.numbers(np.arange(len(self.X)))

    @property
    def ids(self) -> list[str | None]:
        """The id of each, None without ids."""
        return self.numbers.ids(np.arange(len(self.X)))


def choose_policy(out_of_range: str, spec: Spec, needs_range: bool) -> str:
    """Return the policy: as asked, but nobody is refused for a range that is guessed or that no claim needs."""
    require_policy(out_of_range)
    return "widen" if out_of_range == "refuse" and (spec.guessed_ranges or not needs_range) else out_of_range


def require_given_scores(
    spec: Spec,
    net: Model,
    frame: pd.DataFrame,
    source: TableStream | DataSource | str,
    policy: str,
    numbers: Ints | None = None,
) -> None:
    """Raise an error if the data has scores of the model that spec and network do not reproduce.

    They are those of the values as they are, so people whose values are moved or left out are not compared.
    `source` is where the data is from, and `numbers` (rows,) are the numbers of the rows.
    """
    if spec.label is None or spec.label.score is None or spec.label.score not in frame.columns:
        return
    rows = np.arange(len(frame), dtype=np.int64) + FIRST_ROW if numbers is None else numbers
    with naming_file(source):
        leave_out = "skip" if policy == "clip" else policy
        wide = spec.bring_into_range(frame, "widen", first_row=rows).spec if policy == "widen" else spec
        inside, kept, _ = apply_policy(spec.features, frame, leave_out, rows)
        X = wide.as_inputs(inside, net.dtype, first_row=rows[kept]) if len(inside) else None
    if X is not None:
        net = net.bind(wide) if isinstance(net, RunModel) else net
        require_scores(spec, net, inside, X, _name(source), first_row=rows[kept])


def require_values(net: Model, frame: pd.DataFrame) -> None:
    """Refuse data with values that a model which is only run would get as others."""
    if isinstance(net, RunModel):
        net.require_values(frame)


def take_people(
    frame: pd.DataFrame,
    source: DataSource | str,
    spec: Spec,
    net: Model,
    policy: str = "refuse",
    *,
    most: int | None = None,
    seed: int = 0,
    need_ids: bool = True,
    broken: Sequence[BrokenFile] = (),
) -> People:
    """Return the people in a table from `source`, all or `most` of them drawn at random.

    A table without the column of ids that the spec names is refused, unless `need_ids` is false.
    """
    chosen = np.arange(len(frame), dtype=np.int64)
    if most is not None and most < len(frame):
        chosen = np.sort(np.random.default_rng(seed).permutation(len(frame))[:most]).astype(np.int64)
    require_given_scores(spec, net, frame.iloc[chosen], source, policy, chosen + FIRST_ROW)
    with naming_file(source):
        require_values(net, frame.iloc[chosen])
        inside = spec.bring_into_range(frame.iloc[chosen], policy, first_row=chosen + FIRST_ROW)
        left = chosen[inside.kept]
        X = inside.spec.as_inputs(inside.frame, net.dtype, first_row=left + FIRST_ROW)
        with_ids = need_ids or spec.id_column in frame.columns
        numbers = RowNumbers(FIRST_ROW, spec.id_column if with_ids else None)
        numbers.add(frame, np.isin(np.arange(len(frame)), left))
        numbers.read = inside.frame.iloc.__getitem__
    known = spec.label is not None and spec.label.column in frame.columns
    labels = tuple(frame[spec.label.column].dropna().unique()) if spec.label is not None and known else ()
    return People(inside.spec, inside.frame, X, numbers, inside.done, labels, tuple(broken))


@contextmanager
def naming_file(source: TableStream | DataSource | str) -> Iterator[None]:
    """Put the name of the data before the message of an error; count the rows with a problem in all of a stream.

    If the data has several files, say in which one the row is.
    """
    try:
        yield
    except RowsError as error:
        shown = error.counted(source) if isinstance(source, TableStream) else error
        raise FairmendError(f"{_name(source)}: {shown}{_place(source, error.row)}") from error
    except FairmendError as error:
        raise FairmendError(f"{_name(source)}: {error}") from error


def _name(source: TableStream | DataSource | str) -> str:
    return source.path if isinstance(source, TableStream) else str(source)


def _place(source: TableStream | DataSource | str, row: int) -> str:
    """Return a sentence with the file of a row, if the data has several."""
    if isinstance(source, str) or (not isinstance(source, TableStream) and len(find_files(source)) == 1):
        return ""
    table = source if isinstance(source, TableStream) else stream_table(source, keep_going=True)
    if len(table.files) == 1:
        return ""
    file, there = table.locate(np.array([row]))[0]
    return f" Row {row} is row {there} of {file}."
