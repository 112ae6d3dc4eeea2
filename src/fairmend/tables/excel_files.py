"""Excel files (.xlsx): the first sheet, or the one that the user names, with a header in its first row."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, first_repeated, listed, suggest
from fairmend.tables.files import TableFile


def read_excel(file: TableFile) -> pd.DataFrame:
    """Return a sheet; only an empty cell is missing. A cell with a formula has the value that was saved with it."""
    with file.open() as source, _workbook(file, source) as book:
        names = [str(name) for name in book.sheet_names]
        if file.sheet is not None and file.sheet not in names:
            known = f"it has {listed([f'{name!r}' for name in names])}"
            raise FairmendError(f'{file.name}: no sheet "{file.sheet}"{suggest(file.sheet, names)}; {known}')
        header = pd.read_excel(book, sheet_name=file.sheet or 0, header=None, nrows=1, dtype=object)
        if header.empty:
            raise FairmendError(f"{file.name}: the sheet is empty; give a table with a header and rows")
        twice = first_repeated(str(title) for title in header.iloc[0].dropna())
        if twice is not None:
            raise FairmendError(f'{file.name}: the header has two columns "{twice}"; rename or remove one')
        frame = pd.read_excel(book, sheet_name=file.sheet or 0, keep_default_na=False, na_values=[""])
    frame.columns = [str(name) for name in frame.columns]
    return frame


def excel_pieces(
    file: TableFile, piece: int, texts: Sequence[str] = (), columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield data frames of at most `piece` rows; the columns `texts` are text."""
    frame = read_excel(file)
    frame = frame if columns is None else frame[[name for name in frame.columns if name in set(columns)]]
    for name in texts:
        if name in frame.columns:
            frame[name] = frame[name].map(str, na_action="ignore").astype(object)
    for start in range(0, max(1, len(frame)), piece):
        yield frame.iloc[start : start + piece].reset_index(drop=True)


def other_sheets(file: TableFile) -> list[str]:
    """Return the names of all sheets but the first."""
    with file.open() as source, _workbook(file, source) as book:
        return [str(name) for name in book.sheet_names[1:]]


def _workbook(file: TableFile, source: Any) -> pd.ExcelFile:
    """Open a workbook."""
    try:
        return pd.ExcelFile(source, engine="openpyxl")
    except ImportError as error:
        raise FairmendError(
            f"{file.name}: reading .xlsx files needs openpyxl: pip install 'fairmend[excel]', or save the sheet as CSV"
        ) from error
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise FairmendError(f"{file.name}: not a readable .xlsx file ({first_line(error)}); save it again") from error
