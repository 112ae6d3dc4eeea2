"""CSV files: UTF-8 text with a header, compressed with gzip or not; and Excel files, which are read the same way.

A large file is cut into ranges that different processes parse, after lines that surely end a row. pandas is inside a
quoted field after an odd number of quotes, as long as each quote that opens a field follows a separator, a line end, or
the quote that has just closed the field. Elsewhere a quote may be text. So the scan counts quotes from the start of the
file, cuts at line ends outside of quoted fields, and stops cutting at the first quote that follows anything else. Cuts
depend on the file alone, never on the number of workers.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_text
from fairmend.base.text import first_line, first_repeated, spreadsheet_text
from fairmend.tables.excel_files import excel_pieces, read_excel
from fairmend.tables.files import TableFile
from fairmend.tables.spool import Spool
from fairmend.tables.styles import CsvStyle, find_style

# pandas 3.1 and later read every number exactly, and warn about the option that earlier releases need for it.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_TEXT: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True}
_CSV: dict[str, Any] = {**_TEXT, "keep_default_na": False, "na_values": [""], "low_memory": False, **_EXACT}
_UNPADDED: dict[str, Any] = {**_CSV, "skipinitialspace": False}  # a quarter faster
_BUFFER = 1 << 18  # bytes, as pandas reads them
_HEAD = 1 << 16  # bytes that show the separator; the csv module refuses a field of twice as many characters

Report = Callable[[int], None]
"""Called with the number of bytes that were read of a file since the last call."""

RANGE_BYTES = 32 << 20
"""The least size of a range but the last: a third of a second of parsing, some hundred thousand rows, as a slice of a
Parquet file has."""

_BLOCK = 1 << 20  # bytes that the scan reads at a time, and that the header must fit into
_MARK = b"\xef\xbb\xbf"  # that a file is UTF-8, as spreadsheets write it
_QUOTE, _COMMA, _SPACE, _LINE_FEED, _RETURN = b'", \n\r'


@dataclass(frozen=True)
class CsvRange:
    """Bytes of a CSV file that hold whole rows.

    Attributes
    ----------
    start, end : the first byte, and the one after the last; the first range contains the header
    header : how many bytes at the start of the file the header takes; later ranges are read as if they followed it
    padded : whether spaces may follow separators or line ends; they are no part of a value
    """

    start: int
    end: int
    header: int
    padded: bool


@dataclass(frozen=True)
class CsvContents:
    """What rows of a CSV file hold: their number, and of each column what its pieces hold ("number", "truth", "text").

    A column without rows, or without values, holds none of these.
    """

    rows: int
    kinds: dict[str, set[str]] = field(default_factory=dict)

    def __add__(self, other: CsvContents) -> CsvContents:
        """Return what these rows and others of the same file hold together."""
        names = self.kinds or other.kinds
        kinds = {name: self.kinds.get(name, set()) | other.kinds.get(name, set()) for name in names}
        return CsvContents(self.rows + other.rows, kinds)


def examine_csv(
    file: TableFile,
    piece: int,
    spool: Spool | None = None,
    part: CsvRange | None = None,
    report: Report | None = None,
) -> CsvContents:
    """Read a file, or a range of it, once and in pieces; the spool keeps them.

    So an error in the last line is raised before any work on the first.
    """
    kinds: dict[str, set[str]] = {}
    rows = 0
    for frame in csv_pieces(file, piece, part=part, report=report):
        rows += len(frame)
        if spool is not None:
            spool.add(frame)
        for name, column in frame.items():
            found, kind = kinds.setdefault(str(name), set()), _kind(column)
            if kind not in found and not column.isna().all():
                found.add(kind)
    return CsvContents(rows, kinds)


def csv_pieces(
    file: TableFile,
    piece: int,
    texts: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    part: CsvRange | None = None,
    report: Report | None = None,
    *,
    spaces: bool = False,
) -> Iterator[pd.DataFrame]:
    """Yield data frames of at most `piece` rows of a file, or of a range; the columns `texts` are read as text.

    With `spaces`, those after a separator are part of the value.
    """
    if file.is_excel:
        yield from excel_pieces(file, piece, texts, columns)
        return
    options = _UNPADDED if spaces or (part is not None and not part.padded) else _CSV
    options = {**options, "chunksize": piece, "dtype": dict.fromkeys(texts, str)}
    wanted = None if columns is None else list(columns)
    with (
        _parsing(file, part, report) as (source, style),
        pd.read_csv(source, **options, **_marks(style), usecols=wanted) as reader,
    ):
        yield from reader


def _marks(style: CsvStyle) -> dict[str, Any]:
    return {"sep": style.sep, "decimal": style.decimal}


def read_csv(file: TableFile) -> pd.DataFrame:
    """Return the whole file; only an empty field is missing, "NA" and "None" are values."""
    if file.is_excel:
        return read_excel(file)
    with _parsing(file) as (source, style):
        frame: pd.DataFrame = pd.read_csv(source, **_CSV, **_marks(style))
    return frame


def _kind(column: pd.Series[Any]) -> str:
    """Return what pandas takes a piece of a CSV column for."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    return "number" if pd.api.types.is_numeric_dtype(column.dtype) else "text"


@contextmanager
def _parsing(
    file: TableFile, part: CsvRange | None = None, report: Report | None = None
) -> Iterator[tuple[IO[bytes], CsvStyle]]:
    """Open a file whose header is right, and turn the errors of parsing it into a FairmendError."""
    try:
        style = style_of(file)
        _check_header(file, part, style)
        with _plain(file, part, report) as source:
            yield source, style
    except UnicodeDecodeError as error:
        raise FairmendError(f"{file.name}: not UTF-8 text; save the table as UTF-8 CSV") from error
    except (EOFError, zlib.error) as error:
        reason = first_line(error)
        raise FairmendError(f"{file.name}: the gzip file is damaged or cut off ({reason}); copy it again") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        reason = first_line(error)
        raise FairmendError(f"{file.name}: not a readable CSV table ({reason}); correct the file") from error


@contextmanager
def _plain(file: TableFile, part: CsvRange | None = None, report: Report | None = None) -> Iterator[IO[bytes]]:
    """Open a file, without its compression, or a range of it."""
    with file.open() as opened:
        source: IO[bytes] = opened
        if part is not None or report is not None:
            source = io.BufferedReader(_RangeReader(opened, part, report), _BUFFER)
        if not file.is_compressed:
            yield source
            return
        with gzip.open(source, "rb") as unpacked:
            yield unpacked  # type: ignore[misc]  # it reads bytes like any other


class _RangeReader(io.RawIOBase):
    """The bytes of a range behind those of the header, or all bytes of a file without a range."""

    def __init__(self, source: IO[bytes], part: CsvRange | None, report: Report | None) -> None:
        super().__init__()
        self._source, self._report, self._left = source, report, 0
        start, end = (0, sys.maxsize) if part is None else (part.start, part.end)
        header = [(0, part.header)] if part is not None and start else []
        self._sections = iter([*header, (start, end)])

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what fits into the buffer and belongs together."""
        while self._left == 0:
            start, end = next(self._sections, (None, 0))
            if start is None:
                return 0
            self._source.seek(start)
            self._left = end - start
        read: int = self._source.readinto(memoryview(buffer)[: self._left])  # type: ignore[attr-defined]  # all have it
        self._left -= read
        if self._report is not None:
            self._report(read)
        return read


def style_of(file: TableFile) -> CsvStyle:
    """Return how a CSV file separates columns and writes numbers, as the user says or its first rows show."""
    with _plain(file) as source:
        start = source.read(_HEAD)
    head = start.decode(_TEXT["encoding"], "ignore").replace("\0", "")
    if len(start) == _HEAD:  # the last line may be cut off
        head = head[: head.rfind("\n") + 1] or head
    return find_style(file.name, head, file.sep, file.decimal)


def _check_header(file: TableFile, part: CsvRange | None, style: CsvStyle) -> None:
    """Refuse equal names, and surplus fields in the first row: pandas would take the first column for row names."""
    options: dict[str, Any] = {**_TEXT, "header": None, "dtype": str, "sep": style.sep}
    with _plain(file) as source:
        names = pd.read_csv(source, nrows=1, **options).iloc[0].tolist()
    twice = first_repeated(name for name in names if isinstance(name, str))
    if twice is not None:
        raise FairmendError(f'{file.name}: the header has two columns "{twice}"; rename or remove one')
    try:
        with _plain(file, part) as source:
            pd.read_csv(source, nrows=2, **options)
    except pd.errors.ParserError as error:
        if "Expected" not in str(error):  # as in "Expected 2 fields in line 2, saw 3"
            raise
        raise FairmendError(f"{file.name}: the rows have more fields than the header; correct the header") from error


def write_csv(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a data frame without its index, so that `read_table` returns the same numbers."""
    write_text(path, csv_text(frame))


def csv_text(frame: pd.DataFrame, *, header: bool = True) -> str:
    """Return a data frame as CSV, without its index; no text or name in it is a formula for a spreadsheet.

    Whoever reads values and columns by a spec takes `spreadsheet_text` of a name for the name.
    """
    columns = dict(enumerate(_without_formulas(frame.iloc[:, place]) for place in range(frame.shape[1])))
    safe = pd.DataFrame(columns, index=frame.index)
    names = [spreadsheet_text(str(name)) for name in frame.columns] if header else False
    return safe.to_csv(index=False, header=names, lineterminator="\n")


def _without_formulas(column: pd.Series[Any]) -> pd.Series[Any]:
    dtype = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    if not pd.api.types.is_string_dtype(dtype):
        return column
    known: dict[str, str] = {}  # few texts make up most columns

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return known[value] if value in known else known.setdefault(value, spreadsheet_text(value))

    return column.astype(object).map(cell)


def find_ranges(file: TableFile) -> Iterator[CsvRange | None]:
    """Yield the ranges of a CSV file as they are found; None stands for all of a compressed, remote or small file."""
    size = None if file.is_compressed else file.size
    if size is None or size <= RANGE_BYTES:
        yield None
        return
    sep = ord(style_of(file).sep)
    with file.open() as source:
        yield from _scan(source, size, sep)


def _scan(source: IO[bytes], size: int, sep: int = _COMMA) -> Iterator[CsvRange]:
    """Yield the ranges of a file of so many bytes, whose columns are separated by the character of this code."""
    block = source.read(_BLOCK)
    header = _header_size(block)
    block = block.replace(_MARK, b"\n" * len(_MARK), 1) if block.startswith(_MARK) else block
    padded_header = _is_padded(_codes(b"\n\n", block[:header]), sep)
    start, place, target = 0, 0, header + RANGE_BYTES
    before, quotes, padded = b"\n\n", 0, padded_header  # a file starts as a line does
    while block:
        codes = _codes(before, block)
        marks = np.flatnonzero(codes[2:] == _QUOTE) if b'"' in block else np.empty(0, np.int64)
        if header == 0 or not _open_fields(codes, marks[quotes % 2 :: 2], sep):
            padded = True  # nothing is known about the rest
            break
        here = padded_header or _is_padded(codes, sep)
        padded = padded or here
        while end := _row_end(block, marks, quotes, target - place):
            yield CsvRange(start, place + end, header, padded)
            start, target, padded = place + end, place + end + RANGE_BYTES, here
        quotes, place, before = quotes + len(marks), place + len(block), codes[-2:].tobytes()
        block = source.read(_BLOCK)
    if start < size:
        yield CsvRange(start, size, header, padded)


def _codes(before: bytes, block: bytes) -> NDArray[np.uint8]:
    """Return a block behind the two bytes before it."""
    return np.frombuffer(before + block, np.uint8)


def _header_size(block: bytes) -> int:
    """Return the number of bytes up to the end of the header; 0 if it does not surely end at its first line feed."""
    place = len(_MARK) if block.startswith(_MARK) else 0
    while end := block.find(b"\n", place) + 1:
        line = block[place:end]
        if line.strip(b" \t\r\n"):  # pandas skips other lines
            sure = line.count(b'"') % 2 == 0 and b"\r" not in line.removesuffix(b"\r\n")
            return end if sure else 0
        place = end
    return 0


def _open_fields(codes: NDArray[np.uint8], marks: Ints, sep: int) -> bool:
    """Return whether quotes of a block, each outside of quoted fields, surely open fields."""
    last, last_but_one = codes[marks + 1], codes[marks]
    after = (last == sep) | (last == _LINE_FEED) | (last == _QUOTE)
    return bool((after | ((last == _SPACE) & (last_but_one == sep))).all())


def _is_padded(codes: NDArray[np.uint8], sep: int) -> bool:
    """Return whether spaces follow separators or line ends."""
    last = codes[np.flatnonzero(codes[2:] == _SPACE) + 1]
    return bool(((last == sep) | (last == _LINE_FEED) | (last == _RETURN)).any())


def _row_end(block: bytes, marks: Ints, quotes: int, least: int) -> int:
    """Return the end of the first row that ends `least` or more bytes after the start of a block; 0 if none does.

    The block has quotes at the places `marks`, and so many quotes come before it.
    """
    if least > len(block):
        return 0
    if len(marks) == 0:
        return 0 if quotes % 2 else block.find(b"\n", max(0, least - 1)) + 1
    lines = np.flatnonzero(np.frombuffer(block, np.uint8) == _LINE_FEED)
    lines = lines[lines + 1 >= least]
    outside = lines[(quotes + np.searchsorted(marks, lines)) % 2 == 0]
    return int(outside[0]) + 1 if len(outside) else 0
