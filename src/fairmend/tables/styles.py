"""How a CSV file separates its columns and writes its numbers: as the user says, or as its first rows show.

A style is found only if nothing else fits. "1,234" may be 1.234 or 1234, so a file that has only such numbers is
refused until the user says what it means.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairmend.base.errors import FairmendError
from fairmend.base.text import shown

SEPARATORS = {",": '","', ";": '";"', "\t": "tabs", "|": '"|"'}
"""What may separate columns, and what messages call it."""

_MOST_ROWS = 500  # of the first bytes
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+")
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(,\d{3})+\.\d+")
_COMMA_NUMBERS = re.compile(r"[+-]?\d*(,\d+)?(e[+-]?\d+)?", re.IGNORECASE)  # with or without a comma, or nothing
_MAY_BE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


@dataclass(frozen=True)
class CsvStyle:
    """The separator of columns, and the decimal mark."""

    sep: str = ","
    decimal: str = "."

    def describe(self) -> str:
        """Return the style in words."""
        mark = "a decimal comma" if self.decimal == "," else "a decimal point"
        return f"columns are separated by {SEPARATORS[self.sep]}, and numbers have {mark}"


PLAIN = CsvStyle()
"""Commas between columns, and decimal points."""


def find_style(name: str, head: str, sep: str | None = None, decimal: str | None = None) -> CsvStyle:
    """Return the style of a file that starts with `head`; `sep` and `decimal` are what the user says, if anything."""
    sep = sep or _find_separator(name, head)
    if sep == ",":
        if decimal == ",":
            raise FairmendError(f'{name}: "," cannot separate columns and be the decimal mark; correct --sep')
        return PLAIN
    return CsvStyle(sep, decimal or _find_decimal(name, _rows(head, sep)))


def _find_separator(name: str, head: str) -> str:
    """Return what separates the columns: a comma, unless all rows have more fields with another separator.

    Nothing separates one column of numbers with decimal commas; a semicolon is as good as any other.
    """
    counts = {sep: [len(row) for row in _rows(head, sep)] for sep in SEPARATORS}
    fields = {sep: found[0] for sep, found in counts.items() if found and len(set(found)) == 1}
    others = [sep for sep in SEPARATORS if sep != "," and fields.get(sep, 0) > fields.get(",", 1)]
    possible = [*([","] if fields.get(",", 0) > 1 and others else []), *others]
    if len(possible) > 1:
        named = " or ".join(SEPARATORS[sep] for sep in possible)
        options = " or ".join(f"--sep {_typed(sep)}" for sep in possible)
        raise FairmendError(f"{name}: its columns may be separated by {named}; say which with {options}")
    if not possible and _is_one_column(head):
        return ";"
    return possible[0] if possible else ","


def _is_one_column(head: str) -> bool:
    """Return whether the file has one column with decimal commas: more fields than the header, unless they are."""
    by_comma = _rows(head, ",")
    if not by_comma or len(by_comma[0]) != 1 or all(len(row) == 1 for row in by_comma):
        return False
    _, *numbers = _rows(head, ";")
    return all(len(row) == 1 and _COMMA_NUMBERS.fullmatch(row[0].strip()) for row in numbers)


def _find_decimal(name: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the decimal mark of the numbers below the header."""
    header, *people = rows
    commas, points = [], []
    for row in people:
        for column, text in zip(header, (field.strip() for field in row), strict=False):
            if _THOUSANDS.fullmatch(text):
                raise FairmendError(
                    f'{name}: "{shown(text)}" in the column "{shown(column)}" has a mark between thousands; save the '
                    "numbers without it"
                )
            if _COMMA_NUMBER.fullmatch(text):
                commas.append((column, text))
            elif _POINT_NUMBER.fullmatch(text):
                points.append((column, text))
    if not commas:
        return "."
    column, text = commas[0]
    where = f'"{shown(text)}" in the column "{shown(column)}"'
    if points:
        other = f'"{shown(points[0][1])}" in the column "{shown(points[0][0])}"'
        raise FairmendError(
            f'{name}: some numbers have a comma ({where}) and others a point ({other}); say with --decimal "," or '
            '--decimal "." which is the decimal mark'
        )
    if all(_MAY_BE_THOUSANDS.fullmatch(text) for _, text in commas):
        raise FairmendError(
            f'{name}: {where} may have a decimal comma or a comma between thousands; say --decimal "," if it is the '
            "decimal mark, or save the numbers without it"
        )
    return ","


def _rows(head: str, sep: str) -> list[list[str]]:
    """Return the first rows that are whole."""
    found: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(head, newline=""), delimiter=sep, skipinitialspace=True):
            if row:
                found.append(row)
            if len(found) >= _MOST_ROWS:
                break
    except csv.Error:  # pandas says what is wrong
        return found
    return found


def _typed(sep: str) -> str:
    return "tab" if sep == "\t" else f'"{sep}"'
