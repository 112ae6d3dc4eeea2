"""Examine the files of a table before any work: what they hold, whether they can be read, and whether they agree.

CSV files are parsed once, large ones in ranges, and what is needed of them is kept in temporary files. Of Parquet files
the footers are read. An engine examines files and ranges side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from uuid import uuid4

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import suggest
from fairmend.tables.csv_files import RANGE_BYTES, CsvContents, CsvRange, examine_csv, find_ranges
from fairmend.tables.files import TableFile
from fairmend.tables.parquet_files import ParquetContents, examine_parquet, read_all_pages
from fairmend.tables.spool import PrivateStore, SharedFolder, SharedStore, Spool, SpooledPieces, Store
from fairmend.workers.engine import HERE, Engine, run_tasks

_WORTHWHILE = 4 * RANGE_BYTES  # bytes to examine, below which workers take longer to start


@dataclass(frozen=True, eq=False)
class Examined:
    """What a file, or a range of it, holds.

    Attributes
    ----------
    contents : its rows and columns
    part : the range of a CSV file; None for a whole file
    spooled : the pieces of a CSV file; None if they were not kept
    problem : why they were not kept; empty if nothing went wrong
    """

    contents: CsvContents | ParquetContents
    part: CsvRange | None = None
    spooled: SpooledPieces | None = None
    problem: str = ""


_CLASSES = (Examined, CsvContents, CsvRange, ParquetContents)  # of what workers of a cluster find


@dataclass(frozen=True, eq=False)
class Examination:
    """How to examine a file; it can be sent to a worker, unless there is a private store or a report.

    Attributes
    ----------
    piece : how many rows to read at a time
    thoroughly : whether to decode Parquet files, of which the footer does not show damage
    spooled : the columns of CSV files to keep
    store : the file to which they go
    folder : where to make such a file for each slice, if there is none
    base : the folder that paths start from in another process
    report : called with the number of bytes of CSV files that were read since the last call
    """

    piece: int
    thoroughly: bool = False
    spooled: frozenset[str] = frozenset()
    store: PrivateStore | None = None
    folder: str | None = None
    base: str = ""
    report: Callable[[int], None] | None = None

    def open_spool(self) -> Spool | None:
        """Return what keeps the pieces of a slice; None if they are not to be kept."""
        store: Store | None = self.store
        if store is None and self.folder is not None:
            store = SharedStore(os.path.join(self.folder, uuid4().hex))
        return None if store is None else Spool(store, self.spooled)


@dataclass(frozen=True)
class _Task:
    file: TableFile
    part: CsvRange | None
    problem: str = ""  # why the file cannot be cut

    @property
    def size(self) -> int:
        return (self.file.size or 0) if self.part is None else self.part.end - self.part.start


def examine_files(
    files: Sequence[TableFile],
    piece: int,
    *,
    thoroughly: bool,
    spool: Collection[str],
    engine: Engine,
    progress: Progress | None,
) -> Iterator[tuple[TableFile, list[Examined] | FairmendError]]:
    """Yield each file with what its parts hold, in order, or with the error that it cannot be read."""
    how, folder = Examination(piece, thoroughly, frozenset(spool)), None
    several = len(files) > 1 or any(_is_cut(file) for file in files)
    if spool and (engine.is_here or not several):
        how = replace(how, store=PrivateStore())
    elif spool and engine.on_this_machine:
        folder = SharedFolder()
        how = replace(how, folder=folder.path)
    chosen = engine if several and _work(files, thoroughly) >= _WORTHWHILE else HERE
    steps = _Steps(progress, files)
    sent = replace(how, report=steps.report) if chosen.is_here else replace(how, base=os.getcwd())
    results = steps.count(run_tasks(chosen, _examine, sent, _tasks(files), None, _CLASSES), chosen)
    for file, found in groupby(results, key=lambda result: result[0].file):
        outcome = _gather(found, how)
        if folder is not None and not isinstance(outcome, FairmendError):
            outcome = [_owned(part, folder) for part in outcome]
        yield file, outcome


def _tasks(files: Iterable[TableFile]) -> Iterator[_Task]:
    """Yield the parts of the files."""
    return chain.from_iterable(map(_tasks_of, files))


def _tasks_of(file: TableFile) -> Iterator[_Task]:
    """Yield the parts of a file; those of a large one as they are found."""
    try:
        for part in find_ranges(file) if file.is_csv else [None]:
            yield _Task(file, part)
    except FairmendError as error:
        yield _Task(file, None, str(error))


def _examine(how: Examination, task: _Task) -> Examined | str:
    """Return what a part holds, or why it cannot be read."""
    file = replace(task.file, base=how.base)
    file.require_visible()
    if task.problem:
        return task.problem
    try:
        if file.is_parsed:
            spool = how.open_spool()
            contents = examine_csv(file, how.piece, spool, task.part, how.report)
            if spool is None:
                return Examined(contents, task.part)
            return Examined(contents, task.part, spool.finish(), spool.problem)
        footer = examine_parquet(file)
        if how.thoroughly:
            read_all_pages(file, how.piece)
        return Examined(footer)
    except FairmendError as error:
        return str(error)


def _gather(results: Iterable[tuple[_Task, Examined | str]], how: Examination) -> list[Examined] | FairmendError:
    """Return the parts of one file; if one cannot be read, the error about the whole file, which counts its lines."""
    parts: list[Examined] = []
    for task, found in results:
        if isinstance(found, str):
            whole = found if task.part is None else _examine(how, replace(task, part=None))
            return FairmendError(whole) if isinstance(whole, str) else [whole]
        parts.append(found)
    return parts


def _owned(part: Examined, folder: SharedFolder) -> Examined:
    """Return a part that keeps the folder of its pieces."""
    if part.spooled is None or not isinstance(part.spooled.store, SharedStore):
        return part
    return replace(part, spooled=replace(part.spooled, store=SharedStore(part.spooled.store.path, folder)))


def _is_cut(file: TableFile) -> bool:
    """Return whether a file may have several ranges."""
    return file.is_csv and not file.is_compressed and (file.size or 0) > RANGE_BYTES


def _work(files: Iterable[TableFile], thoroughly: bool) -> int:
    """Return how many bytes are to be examined; those of remote files are not known."""
    sizes = [file.size for file in files if file.is_parsed or thoroughly]
    return sum(RANGE_BYTES if size is None else size for size in sizes)


class _Steps:
    """Reports progress: the bytes that were read, of all bytes of the files."""

    def __init__(self, progress: Progress | None, files: Iterable[TableFile]) -> None:
        sizes = [file.size for file in files]
        self._total = 0 if None in sizes else sum(size or 0 for size in sizes)
        self._progress, self._done = progress, 0
        self.report = None if progress is None else self._add

    def _add(self, read: int) -> None:
        assert self._progress is not None
        self._done += read
        self._progress("read", min(self._done, self._total) if self._total else self._done, self._total)

    def count(
        self, results: Iterable[tuple[_Task, Examined | str]], engine: Engine
    ) -> Iterator[tuple[_Task, Examined | str]]:
        """Pass results on, and report those of workers, which cannot report themselves."""
        for task, found in results:
            yield task, found
            if self.report is not None and not (engine.is_here and task.file.is_csv):
                self.report(task.size)


class Columns:
    """The columns of the files that were added so far.

    Attributes
    ----------
    names : in the order of the first file, then those that the names of folders give
    """

    def __init__(self) -> None:
        """Start without files."""
        self.names: tuple[str, ...] = ()
        self._first: TableFile | None = None
        self._kinds: dict[str, set[str]] = {}
        self._types: dict[str, tuple[str, str]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of CSV files of which some pieces look like text and others do not: they are text."""
        return tuple(name for name, kinds in self._kinds.items() if len(kinds) > 1)

    def add(self, file: TableFile, contents: CsvContents | ParquetContents) -> None:
        """Add a file, or raise an error if its columns are others."""
        if isinstance(contents, CsvContents):
            self.add_csv(file, contents.kinds)
        else:
            self.add_parquet(file, contents.types)

    def add_csv(self, file: TableFile, kinds: Mapping[str, set[str]]) -> None:
        """Add a CSV file; its columns have no types of their own, so what all files hold decides."""
        if kinds:  # a file without rows has no columns either
            self._add_names(file, kinds)
        for name, found in kinds.items():
            self._kinds.setdefault(name, set()).update(found)

    def add_parquet(self, file: TableFile, types: Mapping[str, str]) -> None:
        """Add a Parquet file with the type of each column; a column without values ("nothing") agrees with any."""
        self._add_names(file, types)
        for name, kind in types.items():
            before, where = self._types.get(name, ("nothing", file.name))
            if "nothing" not in (before, kind) and before != kind:
                raise FairmendError(
                    f'{file.name}: column "{name}" has the type {kind}, but {before} in {where}; convert one of them'
                )
            self._types[name] = (before, where) if kind == "nothing" else (kind, file.name)

    def _add_names(self, file: TableFile, names: Collection[str]) -> None:
        given = [name for name, _ in file.partition]
        for name in given:
            if name in names:
                raise FairmendError(f'{file.name}: has a column "{name}", and so has its folder; rename one of them')
        if self._first is None:
            self._first, self.names = file, (*names, *given)
            return
        found = {*names, *given}
        for name in self.names:
            if name not in found:
                hint = suggest(name, found - set(self.names))
                raise FairmendError(
                    f'{file.name}: has no column "{name}", which {self._first.name} has{hint}; give all files the same '
                    "columns"
                )
        for name in names:
            if name not in self.names:
                raise FairmendError(
                    f'{file.name}: has a column "{name}", which {self._first.name} does not have; give all files the '
                    "same columns"
                )
