"""Tables that are read piece by piece or whole, and the slices of them that one process reads, here or elsewhere.

pandas parses CSV files, and pyarrow decodes row groups of Parquet files. `pyarrow.dataset` could do both, but of a CSV
file it takes an empty field of a text column for a text, and the space after a comma for a part of the value.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataURL, TableSource, is_url
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import listed
from fairmend.tables.csv_files import CsvContents, CsvRange, csv_pieces, read_csv
from fairmend.tables.examine import Columns, Examined, examine_files
from fairmend.tables.files import TableFile, describe_remote, find_files
from fairmend.tables.parquet_files import ParquetContents, parquet_pieces, read_parquet
from fairmend.tables.spool import SpooledPieces
from fairmend.workers.engine import HERE, Engine

_logger = logging.getLogger(__name__)

FIRST_ROW = 2
"""The number of the first person's row in messages and files: rows are counted as in a spreadsheet, header included."""

PIECE = 65_536
"""How many rows a `TableStream` reads at a time."""

_SLICE = 500_000  # rows that a slice has at most, where the row groups of a file allow it


@dataclass(frozen=True)
class TableSlice:
    """Rows of one file that follow each other: small, and all that another process needs to read them.

    Attributes
    ----------
    file : the file, with the columns that the names of its folders give
    first : the number, from 0, of its first row in the whole table
    rows : how many rows it has
    groups : the row groups of a Parquet file; None for a CSV file
    part : the range of a large CSV file; None for a whole file
    piece : how many rows to read at a time
    texts : columns that hold text, although some pieces of them hold only numbers
    names : the columns of the table, in the order of its first file
    columns : those that are read; None reads all of them
    dictionaries : columns of Parquet files with few different texts, which are read as categoricals
    spooled : the pieces of a CSV file that were parsed before, which are read instead of the file
    """

    file: TableFile
    first: int
    rows: int
    groups: tuple[int, ...] | None
    part: CsvRange | None = None
    piece: int = PIECE
    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    dictionaries: tuple[str, ...] = ()
    spooled: SpooledPieces | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield data frames of at most `piece` rows; the index counts over the whole table."""
        done = self.first
        for frame in self._pieces():
            frame.index = pd.RangeIndex(done, done + len(frame))
            done += len(frame)
            yield self._arranged(frame)
        if done != self.first + self.rows:
            raise FairmendError(f"{self.file.name}: the file was changed while it was read; start again")

    def _pieces(self) -> Iterator[pd.DataFrame]:
        file, given = self.file, {name for name, _ in self.file.partition}
        columns = None if self.columns is None else [name for name in self.columns if name not in given]
        if self.spooled is not None and columns is not None and self.spooled.has(columns):
            return self.spooled.read(columns)
        if file.is_parsed:
            texts = [name for name in self.texts if name not in given]
            return csv_pieces(file, self.piece, texts, columns, self.part)
        return parquet_pieces(file, self.piece, self.groups, columns, self.dictionaries)

    def _arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a piece with the columns of partitions, and in the order of the first file."""
        for name, value in self.file.partition:
            if self.columns is None or name in self.columns:
                frame[name] = pd.Series(value, index=frame.index, dtype=None if isinstance(value, int) else "str")
        order = [name for name in self.columns or self.names if name in frame.columns]
        return frame if not order or list(frame.columns) == order else frame[order]


@dataclass(frozen=True)
class BrokenFile:
    """A file that was left out of a table because it cannot be read, and the message that says why."""

    name: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return the file as plain data."""
        return {"file": self.name, "reason": self.reason}


def describe_broken(broken: Sequence[BrokenFile]) -> list[str]:
    """Return a warning that the table is partial, with the files that are missing in it; none if it is whole."""
    if not broken:
        return []
    files = (
        "1 file of the data cannot be read and is"
        if len(broken) == 1
        else (f"{len(broken):,} files of the data cannot be read and are")
    )
    return [f"the result is partial: {files} left out: {listed([file.name for file in broken])}"]


@dataclass(frozen=True)
class TableStream:
    """A table that is read piece by piece, each time it is iterated over.

    Attributes
    ----------
    path : what the user gave: a file, a folder, a pattern or a URL
    rows : how many rows a piece has at most
    total : how many rows the table has
    texts : columns that hold text, although some pieces of them hold only numbers
    names : the columns of the table
    parts : the slices that it consists of, in order
    columns : those that are read; None reads all of them
    broken : files that were left out because they cannot be read
    """

    path: str
    rows: int
    total: int
    texts: tuple[str, ...]
    names: tuple[str, ...]
    parts: tuple[TableSlice, ...]
    columns: tuple[str, ...] | None = None
    broken: tuple[BrokenFile, ...] = ()

    def slices(self) -> tuple[TableSlice, ...]:
        """Return the parts that different processes can read: disjoint, in order, together the table."""
        return tuple(
            replace(part, piece=self.rows, texts=self.texts, names=self.names, columns=self.columns)
            for part in self.parts
        )

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield data frames of at most `rows` rows; the index counts over the whole table."""
        for part in self.slices():
            yield from part

    def only(self, needed: Collection[str], useful: Collection[str] = ()) -> TableStream:
        """Return the stream without other columns, for speed; all columns, if one that is needed does not exist."""
        if not set(needed) <= set(self.names):
            return self
        return replace(self, columns=tuple(name for name in self.names if name in needed or name in useful))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it is read from, in order."""
        return tuple(dict.fromkeys(part.file.name for part in self.parts))

    def plain(self) -> TableStream:
        """Return the stream without categoricals: columns of text come as text."""
        return replace(self, parts=tuple(replace(part, dictionaries=(), spooled=None) for part in self.parts))

    def take(self, places: Ints) -> pd.DataFrame:
        """Return some rows (k, columns), in this order; places are counted from 0, and only their slices are read."""
        wanted, pieces = np.unique(places), []
        for part in self.slices():
            if np.searchsorted(wanted, part.first) == np.searchsorted(wanted, part.first + part.rows):
                continue
            for frame in part:
                start = int(frame.index[0]) if len(frame) else part.first
                here = wanted[(wanted >= start) & (wanted < start + len(frame))] - start
                pieces += [frame.iloc[here]] if len(here) else []
        return _joined(pieces).loc[places] if pieces else next(iter(self)).iloc[:0]

    def locate(self, rows: Ints) -> list[tuple[str, int]]:
        """Return the file of each row (k,), and its number there; rows are counted from `FIRST_ROW` in both."""
        starts: dict[str, int] = {}
        for part in self.parts:
            starts.setdefault(part.file.name, part.first)
        names, firsts = list(starts), np.array(list(starts.values()))
        found = np.searchsorted(firsts, rows - FIRST_ROW, side="right") - 1
        return [(names[file], int(row)) for file, row in zip(found, rows - firsts[found], strict=True)]


@shows_progress
def stream_table(
    source: str | os.PathLike[str] | DataURL | TableSource,
    rows: int | None = None,
    *,
    keep_going: bool = False,
    spool: Collection[str] = (),
    engine: Engine = HERE,
    progress: Progress | None = None,
) -> TableStream:
    """Return a table as a stream of data frames with the same values as `read_table`.

    CSV files are read once by this call, so that a column has one type in all pieces, and so that an error in the last
    line is raised before any work on the first. The columns `spool` of them go to temporary files, from which a stream
    of `only` these columns comes without parsing them again; texts with few values are then categoricals, as in Parquet
    files. Of Parquet files this call reads the footers.

    An `engine` examines large CSV files in ranges side by side. The slices do not depend on it.

    With `keep_going`, files that cannot be read are left out and listed as `broken`; Parquet files are then decoded
    once, because only that shows damaged pages. At least one file must be left, and all that are left have the same
    columns.
    """
    piece = PIECE if rows is None else rows
    columns, parts, broken, total = Columns(), [], [], 0
    problem = ""
    for file, found in examine_files(
        find_files(source), piece, thoroughly=keep_going, spool=spool, engine=engine, progress=progress
    ):
        if isinstance(found, FairmendError):
            if not keep_going:
                raise found
            broken.append(BrokenFile(file.name, str(found)))
            continue
        columns.add(file, _together(found))
        for part in chain.from_iterable(_slices(file, examined) for examined in found):
            parts.append(replace(part, first=total))
            total += part.rows
        problem = problem or next((examined.problem for examined in found if examined.problem), "")
    if not parts and broken:
        raise FairmendError(f"{source}: none of its files can be read; the first: {broken[0].reason}")
    if total == 0:
        raise FairmendError(f"{source}: the table has no rows; give at least one")
    if problem:
        _logger.warning(
            "cannot write to the temporary folder (%s), so CSV files are parsed twice; set TMPDIR to a folder with "
            "enough space",
            problem,
        )
    if problem or set(spool).intersection(columns.texts):
        # Frees the space for the audit. Or some numbers are texts, which only the files have.
        parts = [replace(part, spooled=None) for part in parts]
    _logger.info("%s has %d rows in %d slices, read %d at a time", source, total, len(parts), piece)
    return TableStream(str(source), piece, total, columns.texts, columns.names, tuple(parts), broken=tuple(broken))


def _together(found: Sequence[Examined]) -> CsvContents | ParquetContents:
    """Return what all parts of a file hold."""
    contents = found[0].contents
    for part in found[1:]:
        assert isinstance(contents, CsvContents)  # a Parquet file has one part
        assert isinstance(part.contents, CsvContents)
        contents += part.contents
    return contents


def _slices(file: TableFile, examined: Examined) -> list[TableSlice]:
    """Return the slices of one file or range, as if it were the first."""
    contents = examined.contents
    whole = TableSlice(file, 0, 0, None, examined.part, spooled=examined.spooled)
    if isinstance(contents, CsvContents):
        return [replace(whole, rows=contents.rows)] if contents.rows else []
    whole = replace(whole, dictionaries=tuple(sorted(contents.dictionaries)))
    slices: list[TableSlice] = []
    groups: list[int] = []
    rows = 0
    for number, size in enumerate([*contents.groups, _SLICE]):  # the last one closes the last slice
        if groups and rows + size > _SLICE:
            if rows:
                slices.append(replace(whole, rows=rows, groups=tuple(groups)))
            groups, rows = [], 0
        groups.append(number)
        rows += size
    return slices


def read_from_elsewhere(table: TableStream) -> TableStream:
    """Return the table for a process that runs in another folder."""
    return replace(table, parts=tuple(map(_from_elsewhere, table.parts)))


def _from_elsewhere(part: TableSlice) -> TableSlice:
    shared = part.spooled is not None and part.spooled.store.is_shared
    here = replace(part.file, base=os.getcwd())
    return replace(part, file=here, spooled=part.spooled if shared else None)


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


def first_rows(source: str | os.PathLike[str] | DataURL | TableSource) -> list[pd.DataFrame]:
    """Return the first rows of a table as they are in its first file; of a CSV file, also with all spaces.

    Whoever trained a model on a CSV file may have read " Male" with its space, or without it.
    """
    file = find_files(source)[0]
    if not file.is_parsed:
        return list(islice(parquet_pieces(file, PIECE), 1))
    found = []
    for spaces in (False, True):
        try:
            frame = next(csv_pieces(file, PIECE, spaces=spaces))
        except (FairmendError, StopIteration):  # the command itself says what is wrong with the file
            continue
        found.append(frame.rename(columns=str.strip))
    return found


def read_table(
    source: str | os.PathLike[str] | DataURL | TableSource,
    *,
    needed: Collection[str] | None = None,
    useful: Collection[str] = (),
    broken: list[BrokenFile] | None = None,
) -> pd.DataFrame:
    """Return a table as a data frame; a table without rows is refused.

    With `needed`, only these columns and those of `useful` that exist are kept, and texts with few values are
    categoricals, which takes less memory; all columns as they are, if one that is needed does not exist. A file that
    cannot be read is refused as well, unless there is a list `broken`, which collects such files.
    """
    files = find_files(source)
    several = len(files) > 1 or bool(files[0].partition)
    if several or needed is not None:
        spool = {*(needed or ()), *useful}
        stream = stream_table(source, keep_going=several and broken is not None, spool=spool)
        chosen = stream.plain() if needed is None else stream.only(needed, useful)
        frame = _joined(list(chosen if chosen.columns is not None else chosen.plain()))
        if broken is not None:
            broken += stream.broken
    else:
        frame = read_csv(files[0]) if files[0].is_parsed else read_parquet(files[0])
    if len(frame) == 0:
        raise FairmendError(f"{source}: the table has no rows; give at least one")
    _logger.info("read %d rows of %d columns from %s", *frame.shape, source)
    return frame


def _joined(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all pieces; a column that has a dictionary in each of them has one in the result."""
    if len(pieces) == 1:
        return pieces[0]
    coded = [name for name in pieces[0] if all(isinstance(piece[name].dtype, pd.CategoricalDtype) for piece in pieces)]
    others = pd.concat([piece.drop(columns=coded) for piece in pieces])
    for name in coded:
        others[name] = union_categoricals([piece[name] for piece in pieces])
    return others[list(pieces[0].columns)]
