"""The people of a table in files, in slices: an audit reads them here, or lets workers read them.

What is noted beside the audit (rows and ids, labels, values out of range, pairs as lines of CSV) is noted for each
slice, and taken in the order of the slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairmend.auditing.inputs import Reading, SlicedInputs
from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.evaluate.groups import GroupColumns, GroupValues
from fairmend.evaluate.labelled import LabelledRows, Labels
from fairmend.evaluate.pairs import PairsFile, PairsTable
from fairmend.evaluate.people import CompactTexts, RowNumbers, naming_file, require_given_scores, require_values
from fairmend.network import Model
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, Outside, apply_policy, find_wider_ranges, require_policy
from fairmend.spec.own_values import OwnValues
from fairmend.tables import FIRST_ROW, TableSlice, TableStream
from fairmend.tables.stream import describe_files, read_from_elsewhere, require_visible
from fairmend.workers.engine import HERE, Engine, run_tasks


@dataclass(frozen=True, eq=False)
class PeopleNotes:
    """What is noted about the people of a slice beside the audit.

    Attributes
    ----------
    rows : their rows and ids
    labels : their labels; None without labels
    out_of_range : what was done about values out of range
    pairs : lines of CSV for those who are treated unequally
    groups : the values of the columns that have groups; None without such columns
    """

    rows: RowNumbers
    labels: Labels | None
    out_of_range: OutOfRange
    pairs: str
    groups: GroupValues | None = None


class PeopleReading(Reading):
    """The people of one slice of a table, as the network reads them; they are read once."""

    def __init__(self, reader: _PeopleReader, part: TableSlice, write: Callable[[str], None] | None = None) -> None:
        """Keep lines for pairs, unless `write` takes them."""
        self._reader, self._part = reader, part
        self.first, self.rows = part.first, part.rows
        self._numbers = RowNumbers(FIRST_ROW + part.first, reader.spec.id_column)
        self._labelled = LabelledRows(reader.spec, reader.net)
        self._groups = GroupColumns(reader.groups)
        self._out_of_range = OutOfRange(reader.policy)
        self._lines: list[str] = []
        self._frames: deque[tuple[int, pd.DataFrame]] = deque()  # whose pairs may follow, each with its first person
        self._write = self._lines.append if write is None else write

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the people of each piece (people, width)."""
        spec, net, policy, table = self._reader.spec, self._reader.net, self._reader.policy, self._reader.table
        require_visible(self._part)
        start, people = FIRST_ROW + self._part.first, 0
        for frame in self._part:
            numbers = np.arange(start, start + len(frame))
            require_given_scores(spec, net, frame, table, policy, numbers)
            with naming_file(table):
                require_values(net, frame)
                inside, kept, done = apply_policy(spec.features, frame, policy, start)
                self._numbers.add(frame, kept)
                X = spec.as_inputs(inside, net.dtype, first_row=start) if len(inside) else None
            self._out_of_range += done
            start += len(frame)
            if X is not None:
                self._labelled.add(inside)
                self._groups.add(inside)
                if self._reader.pairs is not None:
                    self._frames.append((people, inside))
                people += len(inside)
                yield X

    def add_pairs(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Write the pairs as lines."""
        assert self._reader.pairs is not None
        frames = list(self._frames)
        first = frames[0][0]
        whole = frames[0][1] if len(frames) == 1 else pd.concat([frame for _, frame in frames])
        own = OwnValues(self._reader.spec, whole.iloc[rows - first], self._reader.net.dtype)
        numbers, ids = self._numbers.numbers(rows), self._numbers.ids(rows)
        self._write(self._reader.pairs.lines(numbers, X, other, ids, own))

    def finish(self, inputs: int) -> None:
        """Forget the rows of the first so many people."""
        while self._frames and self._frames[0][0] + len(self._frames[0][1]) <= inputs:
            self._frames.popleft()

    def notes(self) -> PeopleNotes:
        """Return what was noted."""
        groups = self._groups.values() if self._reader.groups else None
        return PeopleNotes(self._numbers, self._labelled.labels(), self._out_of_range, "".join(self._lines), groups)


@dataclass(frozen=True, eq=False)
class _PeopleReader:
    """All that reading a slice needs; it can be sent to a worker."""

    spec: Spec
    net: Model
    table: TableStream
    policy: str
    pairs: PairsTable | None = None
    groups: tuple[str, ...] = ()

    from_files = True

    @property
    def wants_pairs(self) -> bool:
        return self.pairs is not None

    @property
    def total(self) -> int:
        return self.table.total

    def read(self, number: int, write: Callable[[str], None] | None = None) -> PeopleReading:
        return PeopleReading(self, self.table.slices()[number], write)

    def for_workers(self) -> _PeopleReader:
        return replace(self, table=read_from_elsewhere(self.table))


def _find_wider(reader: _PeopleReader, number: int) -> OutOfRange:
    """Return the ranges that contain the people of a slice."""
    part = reader.table.slices()[number]
    require_visible(part)
    start, found = FIRST_ROW + part.first, OutOfRange(reader.policy)
    for frame in part:
        with naming_file(reader.table):
            found += find_wider_ranges(reader.spec.features, frame, start)
        start += len(frame)
    return found


class PeopleStream(SlicedInputs):
    """The people of a table in files, in slices that an audit reads here or lets workers read.

    Attributes
    ----------
    spec : the spec, with wider ranges if they were widened, for which the files are read once more
    rows : the rows and ids of the people taken so far
    labelled : their labels
    out_of_range : what was done about values out of range
    groups : the values of the columns that have groups
    """

    from_files = True
    note_classes: tuple[type, ...] = (PeopleNotes, RowNumbers, CompactTexts, Labels, OutOfRange, Outside, GroupValues)

    def __init__(
        self,
        spec: Spec,
        net: Model,
        table: TableStream,
        policy: str = "refuse",
        *,
        engine: Engine = HERE,
        asked: str | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        """Widen the ranges of the spec, if this is the policy; the engine reads the slices for it.

        `asked` is the policy that the user asked for, from which network and spec made this one. `groups` are columns
        that the model does not read, whose groups are compared.
        """
        require_policy(policy)
        self._asked = policy if asked is None else asked
        self._file: PairsFile | None = None
        self.spec, self.out_of_range = spec, OutOfRange(policy)
        self.count, self.total = len(table.parts), table.total
        self._reader = _PeopleReader(spec, net, table, policy, groups=tuple(groups))
        self.groups = GroupColumns(groups)
        if policy == "widen":
            self._widen(engine if self.count > 1 else HERE)
        self.rows, self.labelled = RowNumbers(FIRST_ROW, spec.id_column), LabelledRows(self.spec, net)
        self.rows.read = self._read_rows

    def _widen(self, engine: Engine) -> None:
        shared = self._reader if engine.is_here else self._reader.for_workers()
        for _, found in run_tasks(engine, _find_wider, shared, range(self.count), None, (OutOfRange, Outside)):
            self.out_of_range += found
        self.spec = self.spec.widen(self.out_of_range.ranges)
        self._reader = replace(self._reader, spec=self.spec)

    def write_pairs(self, file: PairsFile) -> None:
        """Write everyone who is treated unequally to this file, if it is one."""
        self._file, self._reader = file, replace(self._reader, pairs=file.table)

    @property
    def wants_pairs(self) -> bool:
        """Whether there is such a file."""
        return self._reader.wants_pairs

    def read(self, number: int) -> PeopleReading:
        """Return the people of a slice; the pairs of a single one go to the file at once."""
        return self._reader.read(number, self._file.append if self._file is not None and self.count == 1 else None)

    def take(self, notes: PeopleNotes, before: int) -> None:
        """Take what was noted about the next slice."""
        self.rows.merge(notes.rows)
        self.labelled.merge(notes.labels)
        self.out_of_range += notes.out_of_range
        if notes.groups is not None:
            self.groups.merge(notes.groups)
        if self._file is not None and notes.pairs:
            self._file.append(notes.pairs)

    def _read_rows(self, people: Ints) -> pd.DataFrame:
        """Return the rows of some of the people taken so far (k, columns), in range."""
        frame = self._reader.table.take(self.rows.positions(people))
        return apply_policy(self.spec.features, frame, self._reader.policy)[0]

    def for_workers(self) -> _PeopleReader:
        """Return what workers need to read a slice."""
        return self._reader.for_workers()

    def describe(self) -> str:
        """Return a text that changes if the files change, or what the user asks for about values out of range."""
        groups = f" {sorted(self._reader.groups)}" if self._reader.groups else ""
        return f"{describe_files(self._reader.table)} {self._asked}{groups}"

    def error_for_none(self) -> FairmendError:
        """Return the error that no person is in range."""
        return FairmendError(
            f"{self._reader.table.path}: every row has a value out of range. Correct `range` in the spec."
        )
