"""Read tables of people from CSV or Parquet files, and write CSV files."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairmend.atomic import write_text
from fairmend.errors import FairmendError
from fairmend.text import first_line

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FIRST_ROW", "TableStream", "read_table", "stream_table", "write_csv"]

FIRST_ROW = 2
"""The number of the first person's row in messages and files: rows are counted as in a spreadsheet, header included."""

PIECE = 16_384
"""How many rows a `TableStream` reads at a time."""

_SUFFIXES = (".csv", ".parquet")

_logger = logging.getLogger(__name__)

_StrPath = str | os.PathLike[str]

# pandas 3.1 and later read every number exactly, and warn about the option that earlier releases need for it.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_CSV: dict[str, Any] = {
    "encoding": "utf-8-sig",
    "skipinitialspace": True,
    "keep_default_na": False,
    "na_values": [""],
    "low_memory": False,
    **_EXACT,
}


@dataclass(frozen=True)
class TableStream:
    """A table that is read piece by piece, each time it is iterated over.

    Attributes
    ----------
    path : the file
    rows : how many rows a piece has at most
    total : how many rows the table has
    texts : columns that hold text, although some pieces of them hold only numbers
    names : the columns of the table
    columns : those that are read; None reads all of them
    """

    path: Path
    rows: int
    total: int
    texts: tuple[str, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...] | None = None

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield data frames of at most `rows` rows; the index counts over the whole file."""
        done = 0
        for frame in _pieces(self.path, self.rows, self.texts, self.columns):
            frame.index = pd.RangeIndex(done, done + len(frame))
            done += len(frame)
            yield frame

    def only(self, needed: Collection[str], useful: Collection[str] = ()) -> TableStream:
        """Return the stream without other columns, for speed; all columns, if one that is needed does not exist."""
        if not set(needed) <= set(self.names):
            return self
        return replace(self, columns=tuple(name for name in self.names if name in needed or name in useful))


def read_table(path: _StrPath) -> pd.DataFrame:
    """Return a CSV or Parquet file as a data frame; a table without rows is refused."""
    with _reading(path) as source:
        frame = _read_csv(source) if source.suffix.lower() == ".csv" else _read_parquet(source)
    _refuse_empty(path, len(frame))
    _logger.info("read %d rows of %d columns from %s", *frame.shape, path)
    return frame


def stream_table(path: _StrPath, rows: int | None = None) -> TableStream:
    """Return a CSV or Parquet file as a stream of data frames with the same values as `read_table`.

    This call reads the file once, so that a column has one type in all pieces, and so that an error in the last line
    is raised before any work on the first.
    """
    rows = PIECE if rows is None else rows
    kinds: dict[str, set[str]] = {}
    total = 0
    with _reading(path) as source:
        if source.suffix.lower() == ".csv":
            for frame in _csv_pieces(source, rows):
                total += len(frame)
                for name, column in frame.items():
                    kinds.setdefault(str(name), set()).update(() if column.isna().all() else {_kind(column)})
        else:
            for batch in _parquet_batches(source, rows):
                total += batch.num_rows
                kinds = {name: set() for name in batch.schema.names}
    _refuse_empty(path, total)
    _logger.info("%s has %d rows, read %d at a time", path, total, rows)
    texts = tuple(name for name, found in kinds.items() if len(found) > 1)
    return TableStream(source, rows, total, texts, tuple(kinds))


@contextmanager
def _reading(path: _StrPath) -> Iterator[Path]:
    """Yield the path of a table file, and turn the errors of reading it into a FairmendError."""
    source = Path(path)
    if source.suffix.lower() not in _SUFFIXES:
        raise FairmendError(f"{path}: data is read from {' or '.join(_SUFFIXES)} files; convert it first")
    if source.is_dir():
        raise FairmendError(f"{path}: this is a folder; give the data file in it")
    try:
        if source.stat().st_size == 0:
            raise FairmendError(f"{path}: the file is empty; give a table with a header and rows")
        yield source
    except FileNotFoundError as error:
        raise FairmendError(f"{path}: no such file") from error
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the data: {error.strerror or error}") from error


def _refuse_empty(path: _StrPath, rows: int) -> None:
    if rows == 0:
        raise FairmendError(f"{path}: the table has no rows; give at least one")


def _kind(column: pd.Series[Any]) -> str:
    """Return what pandas takes a piece of a CSV column for: "number", "truth" or "text"."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    return "number" if pd.api.types.is_numeric_dtype(column.dtype) else "text"


def _pieces(
    path: Path, rows: int, texts: Sequence[str] = (), columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    if path.suffix.lower() == ".csv":
        return _csv_pieces(path, rows, texts, columns)
    return (batch.to_pandas() for batch in _parquet_batches(path, rows, columns))


def _csv_pieces(
    path: Path, rows: int, texts: Sequence[str] = (), columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    with _parsing(path):
        _check_header(path)
        options: dict[str, Any] = {**_CSV, "chunksize": rows, "dtype": dict.fromkeys(texts, str)}
        with pd.read_csv(path, **options, usecols=None if columns is None else list(columns)) as reader:
            for frame in reader:
                _check_fields(path, frame)
                yield frame


def _parquet_batches(path: Path, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    from pyarrow import default_memory_pool
    from pyarrow.parquet import ParquetFile

    with _decoding(path), ParquetFile(path) as file:
        # Threads would decode all columns at once, which takes more memory.
        wanted = None if columns is None else list(columns)
        for batch in file.iter_batches(batch_size=rows, columns=wanted, use_threads=False):
            yield batch
            default_memory_pool().release_unused()  # pyarrow would keep it for later


def _read_csv(path: Path) -> pd.DataFrame:
    """Read comma-separated UTF-8 with a header; only an empty field is missing, "NA" and "None" are values."""
    with _parsing(path):
        _check_header(path)
        frame: pd.DataFrame = pd.read_csv(path, **_CSV)
    _check_fields(path, frame)
    return frame


def _check_header(path: Path) -> None:
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, encoding="utf-8-sig", skipinitialspace=True)
    names = header.iloc[0].tolist()
    if len(names) == 1:
        for separator, name in ((";", '";"'), ("\t", "tabs")):
            if separator in str(names[0]):
                raise FairmendError(f"{path}: its columns seem to be separated by {name}; save it with commas")
    seen: set[str] = set()
    for name in names:
        if isinstance(name, str) and name in seen:
            raise FairmendError(f'{path}: the header has two columns "{name}"; rename or remove one')
        seen.add(name)


def _check_fields(path: Path, frame: pd.DataFrame) -> None:
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes surplus fields for row names
        raise FairmendError(f"{path}: the rows have more fields than the header; correct the header")


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise FairmendError(f"{path}: not UTF-8 text; save the table as UTF-8 CSV") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        reason = first_line(error)
        raise FairmendError(f"{path}: not a readable CSV table ({reason}); correct the file") from error


def _read_parquet(path: Path) -> pd.DataFrame:
    with _decoding(path):
        return pd.read_parquet(path)


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    try:
        yield
    except FairmendError:
        raise
    except Exception as error:  # pyarrow raises errors of its own, and OSError for damaged files
        reason = first_line(error)
        raise FairmendError(f"{path}: not a readable Parquet table ({reason}); save it again") from error


def write_csv(path: _StrPath, frame: pd.DataFrame) -> None:
    """Write a data frame without its index, so that `read_table` returns the same numbers."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))
