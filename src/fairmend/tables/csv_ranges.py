"""Where a large CSV file is cut into ranges that different processes parse: after lines that surely end a row.

pandas is inside a quoted field after an odd number of quotes, as long as each quote that opens a field follows a comma,
a line end, or the quote that has just closed the field. Elsewhere a quote may be text. So the scan
counts quotes from the start of the file, cuts at line ends outside of quoted fields, and stops cutting at the first
quote that follows anything else. Cuts depend on the file alone, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Ints
from fairmend.tables.files import TableFile

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
    padded : whether spaces may follow commas or line ends; they are no part of a value
    """

    start: int
    end: int
    header: int
    padded: bool


def find_ranges(file: TableFile) -> Iterator[CsvRange | None]:
    """Yield the ranges of a CSV file as they are found; None stands for all of a compressed, remote or small file."""
    size = None if file.is_compressed else file.size
    if size is None or size <= RANGE_BYTES:
        yield None
        return
    with file.open() as source:
        yield from _scan(source, size)


def _scan(source: IO[bytes], size: int) -> Iterator[CsvRange]:
    """Yield the ranges of a file of so many bytes."""
    block = source.read(_BLOCK)
    header = _header_size(block)
    block = block.replace(_MARK, b"\n" * len(_MARK), 1) if block.startswith(_MARK) else block
    padded_header = _is_padded(_codes(b"\n\n", block[:header]))
    start, place, target = 0, 0, header + RANGE_BYTES
    before, quotes, padded = b"\n\n", 0, padded_header  # a file starts as a line does
    while block:
        codes = _codes(before, block)
        marks = np.flatnonzero(codes[2:] == _QUOTE) if b'"' in block else np.empty(0, np.int64)
        if header == 0 or not _open_fields(codes, marks[quotes % 2 :: 2]):
            padded = True  # nothing is known about the rest
            break
        here = padded_header or _is_padded(codes)
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


def _open_fields(codes: NDArray[np.uint8], marks: Ints) -> bool:
    """Return whether quotes of a block, each outside of quoted fields, surely open fields."""
    last, last_but_one = codes[marks + 1], codes[marks]
    after = (last == _COMMA) | (last == _LINE_FEED) | (last == _QUOTE)
    return bool((after | ((last == _SPACE) & (last_but_one == _COMMA))).all())


def _is_padded(codes: NDArray[np.uint8]) -> bool:
    """Return whether spaces follow commas or line ends."""
    last = codes[np.flatnonzero(codes[2:] == _SPACE) + 1]
    return bool(((last == _COMMA) | (last == _LINE_FEED) | (last == _RETURN)).any())


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
