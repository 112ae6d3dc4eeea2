"""CSV files: comma-separated UTF-8 with a header, compressed with gzip or not."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import pandas as pd

from fairmend.atomic import write_text
from fairmend.errors import FairmendError
from fairmend.tables.files import TableFile
from fairmend.tables.spool import Spool
from fairmend.text import first_line

__all__ = ["CsvContents", "csv_pieces", "examine_csv", "read_csv", "write_csv"]

# pandas 3.1 and later read every number exactly, and warn about the option that earlier releases need for it.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_TEXT: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True}
_CSV: dict[str, Any] = {**_TEXT, "keep_default_na": False, "na_values": [""], "low_memory": False, **_EXACT}


@dataclass(frozen=True)
class CsvContents:
    """What a CSV file holds: its number of rows, and of each column what its pieces hold ("number", "truth", "text").

    A column of a file without rows, or without values, holds none of these.
    """

    rows: int
    kinds: dict[str, set[str]] = field(default_factory=dict)


def examine_csv(file: TableFile, piece: int, spool: Spool | None = None) -> CsvContents:
    """Read a file once, in pieces, so that an error in its last line is raised before any work on the first.

    The spool keeps the pieces.
    """
    kinds: dict[str, set[str]] = {}
    rows = 0
    for frame in csv_pieces(file, piece):
        rows += len(frame)
        if spool is not None:
            spool.add(frame)
        for name, column in frame.items():
            found, kind = kinds.setdefault(str(name), set()), _kind(column)
            if kind not in found and not column.isna().all():
                found.add(kind)
    return CsvContents(rows, kinds)


def csv_pieces(
    file: TableFile, piece: int, texts: Sequence[str] = (), columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield data frames of at most `piece` rows; the columns `texts` are read as text."""
    options: dict[str, Any] = {**_CSV, "chunksize": piece, "dtype": dict.fromkeys(texts, str)}
    wanted = None if columns is None else list(columns)
    with _parsing(file) as source, pd.read_csv(source, **options, usecols=wanted) as reader:
        for frame in reader:
            _check_fields(file, frame)
            yield frame


def read_csv(file: TableFile) -> pd.DataFrame:
    """Return the whole file; only an empty field is missing, "NA" and "None" are values."""
    with _parsing(file) as source:
        frame: pd.DataFrame = pd.read_csv(source, **_CSV)
    _check_fields(file, frame)
    return frame


def _kind(column: pd.Series[Any]) -> str:
    """Return what pandas takes a piece of a CSV column for."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    return "number" if pd.api.types.is_numeric_dtype(column.dtype) else "text"


@contextmanager
def _parsing(file: TableFile) -> Iterator[IO[bytes]]:
    """Open a file whose header is right, and turn the errors of parsing it into a FairmendError."""
    try:
        with _plain(file) as source:
            _check_header(file.name, source)
        with _plain(file) as source:
            yield source
    except UnicodeDecodeError as error:
        raise FairmendError(f"{file.name}: not UTF-8 text; save the table as UTF-8 CSV") from error
    except (EOFError, zlib.error) as error:
        reason = first_line(error)
        raise FairmendError(f"{file.name}: the gzip file is damaged or cut off ({reason}); copy it again") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        reason = first_line(error)
        raise FairmendError(f"{file.name}: not a readable CSV table ({reason}); correct the file") from error


@contextmanager
def _plain(file: TableFile) -> Iterator[IO[bytes]]:
    """Open a file, without its compression."""
    with file.open() as source:
        if not file.is_compressed:
            yield source
            return
        with gzip.open(source, "rb") as unpacked:
            yield unpacked  # type: ignore[misc]  # it reads bytes like any other


def _check_header(name: str, source: IO[bytes]) -> None:
    header = pd.read_csv(source, header=None, nrows=1, dtype=str, **_TEXT)
    names = header.iloc[0].tolist()
    if len(names) == 1:
        for separator, word in ((";", '";"'), ("\t", "tabs")):
            if separator in str(names[0]):
                raise FairmendError(f"{name}: its columns seem to be separated by {word}; save it with commas")
    seen: set[str] = set()
    for column in names:
        if isinstance(column, str) and column in seen:
            raise FairmendError(f'{name}: the header has two columns "{column}"; rename or remove one')
        seen.add(column)


def _check_fields(file: TableFile, frame: pd.DataFrame) -> None:
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes surplus fields for row names
        raise FairmendError(f"{file.name}: the rows have more fields than the header; correct the header")


def write_csv(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a data frame without its index, so that `read_table` returns the same numbers."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))
