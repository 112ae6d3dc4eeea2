"""Tables of people, read from CSV or Parquet; and what is written beside a model, whole or not at all."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairmend.atomic import write_atomically
from fairmend.errors import FairmendError
from fairmend.text import first_line

SUFFIXES = (".csv", ".parquet")
PIECE = 32_768  # rows of a stream at a time

_logger = logging.getLogger(__name__)

StrPath = str | os.PathLike[str]

# From 3.1 on pandas reads every number exactly, and warns about the option that earlier releases need for it.
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
    """A table that is read piece by piece, as often as it is iterated over.

    `total` is its number of rows; `texts` are the columns that only hold numbers in some of the pieces.
    """

    path: Path
    rows: int
    total: int
    texts: tuple[str, ...]

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield data frames of at most `rows` rows; the index counts over the whole file."""
        done = 0
        for frame in _pieces(self.path, self.rows, self.texts):
            frame.index = pd.RangeIndex(done, done + len(frame))
            done += len(frame)
            yield frame


def read_table(path: StrPath) -> pd.DataFrame:
    """Return a CSV or Parquet file as a data frame of at least one row."""
    with _reading(path) as source:
        frame = _read_csv(source) if source.suffix.lower() == ".csv" else _read_parquet(source)
    _refuse_empty(path, len(frame))
    _logger.info("read %d rows of %d columns from %s", *frame.shape, path)
    return frame


def stream_table(path: StrPath, rows: int | None = None) -> TableStream:
    """Return a CSV or Parquet file as a stream of data frames, the same values as `read_table` gives.

    The file is read once before, so that a column has one type in all pieces, and what is wrong with the last line is
    known before work begins on the first.
    """
    rows = PIECE if rows is None else rows
    kinds: dict[str, set[str]] = {}
    total = 0
    with _reading(path) as source:
        if source.suffix.lower() == ".csv":
            for frame in _pieces(source, rows, ()):
                total += len(frame)
                for name, column in frame.items():
                    kinds.setdefault(str(name), set()).update(() if column.isna().all() else {_kind(column)})
        else:
            total = sum(len(frame) for frame in _pieces(source, rows, ()))
    _refuse_empty(path, total)
    _logger.info("%s has %d rows; they are read %d at a time", path, total, rows)
    return TableStream(source, rows, total, tuple(name for name, found in kinds.items() if len(found) > 1))


@contextmanager
def _reading(path: StrPath) -> Iterator[Path]:
    """Yield the path of a table that may be read, and say in one way what goes wrong with the file."""
    source = Path(path)
    if source.suffix.lower() not in SUFFIXES:
        raise FairmendError(f"{path}: data is read from {' or '.join(SUFFIXES)} files; convert it first")
    if source.is_dir():
        raise FairmendError(f"{path}: is a directory; give the data file in it")
    try:
        if source.stat().st_size == 0:
            raise FairmendError(f"{path}: the file is empty; give a table with a header and rows")
        yield source
    except FileNotFoundError as error:
        raise FairmendError(f"{path}: no such file") from error
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the data: {error.strerror or error}") from error


def _refuse_empty(path: StrPath, rows: int) -> None:
    if rows == 0:
        raise FairmendError(f"{path}: the table has no rows; give at least one")


def _kind(column: pd.Series[Any]) -> str:
    """Number, truth value or text: what pandas took a piece of a CSV column for."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    return "number" if pd.api.types.is_numeric_dtype(column.dtype) else "text"


def _pieces(path: Path, rows: int, texts: Sequence[str]) -> Iterator[pd.DataFrame]:
    if path.suffix.lower() == ".csv":
        return _csv_pieces(path, rows, texts)
    return _parquet_pieces(path, rows)


def _csv_pieces(path: Path, rows: int, texts: Sequence[str]) -> Iterator[pd.DataFrame]:
    with _parsing(path):
        _check_header(path)
        with pd.read_csv(path, **_CSV, chunksize=rows, dtype=dict.fromkeys(texts, str)) as reader:
            for frame in reader:
                _check_fields(path, frame)
                yield frame


def _parquet_pieces(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    from pyarrow.parquet import ParquetFile

    with _decoding(path), ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield batch.to_pandas()


def _read_csv(path: Path) -> pd.DataFrame:
    """Comma-separated UTF-8 with a header; only an empty field is missing: "NA" and "None" may be values."""
    with _parsing(path):
        _check_header(path)
        frame: pd.DataFrame = pd.read_csv(path, **_CSV)
    _check_fields(path, frame)
    return frame


def _check_header(path: Path) -> None:
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, encoding="utf-8-sig", skipinitialspace=True)
    names = header.iloc[0].tolist()
    if len(names) == 1:
        for separator, words in ((";", '";"'), ("\t", "tabs")):
            if separator in str(names[0]):
                raise FairmendError(f"{path}: looks separated by {words}: save it with commas")
    for name in names:
        if isinstance(name, str) and names.count(name) > 1:
            raise FairmendError(f'{path}: the header names column "{name}" twice; rename or remove one')


def _check_fields(path: Path, frame: pd.DataFrame) -> None:
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes surplus fields for row names
        raise FairmendError(f"{path}: its rows have more fields than its header has names; correct the header")


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise FairmendError(f"{path}: is not UTF-8 text; save the table as UTF-8 CSV") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        reason = first_line(error)
        raise FairmendError(f"{path}: is not a readable CSV table ({reason}); correct it") from error


def _read_parquet(path: Path) -> pd.DataFrame:
    with _decoding(path):
        return pd.read_parquet(path)


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    try:
        yield
    except FairmendError:
        raise
    except Exception as error:  # pyarrow's own errors, OSError for damage among them
        reason = first_line(error)
        raise FairmendError(f"{path}: is not a readable Parquet table ({reason}); save it again") from error


def write_text(path: StrPath, text: str) -> None:
    """Write UTF-8 text, replacing the file whole or not at all."""
    write_atomically(Path(path), text.encode("utf-8"))


def write_csv(path: StrPath, frame: pd.DataFrame) -> None:
    """Write a data frame, without its row names, so that `read_table` reads back the same numbers."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def write_json(path: StrPath, document: object) -> None:
    """Write a JSON document, as `to_json` gives it."""
    write_text(path, to_json(document) + "\n")


def to_json(document: object) -> str:
    """Return plain data, NumPy's numbers and arrays among it, as JSON; what is not finite becomes null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, os.PathLike) else value
