"""Tables of people, read from CSV or Parquet; and what is written beside a model, whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairmend.atomic import write_atomically
from fairmend.errors import FairmendError

SUFFIXES = (".csv", ".parquet")

StrPath = str | os.PathLike[str]

# From 3.1 on pandas reads every number exactly, and warns about the option that earlier releases need for it.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}


def read_table(path: StrPath) -> pd.DataFrame:
    """Return a CSV or Parquet file as a data frame of at least one row."""
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in SUFFIXES:
        raise FairmendError(f"{path}: data is read from {' or '.join(SUFFIXES)} files; convert it first")
    if source.is_dir():
        raise FairmendError(f"{path}: is a directory; give the data file in it")
    try:
        size = source.stat().st_size
        if size == 0:
            raise FairmendError(f"{path}: the file is empty; give a table with a header and rows")
        frame = _read_csv(source) if suffix == ".csv" else _read_parquet(source)
    except FileNotFoundError as error:
        raise FairmendError(f"{path}: no such file") from error
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the data: {error.strerror or error}") from error
    if len(frame) == 0:
        raise FairmendError(f"{path}: the table has no rows; give at least one")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    """Comma-separated UTF-8 with a header; only an empty field is missing: "NA" and "None" may be values."""
    try:
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, encoding="utf-8-sig", skipinitialspace=True)
        names = header.iloc[0].tolist()
        for name in names:
            if isinstance(name, str) and names.count(name) > 1:
                raise FairmendError(f'{path}: the header names column "{name}" twice; rename or remove one')
        frame: pd.DataFrame = pd.read_csv(
            path,
            encoding="utf-8-sig",
            skipinitialspace=True,
            keep_default_na=False,
            na_values=[""],
            **_EXACT,
            low_memory=False,
        )
    except UnicodeDecodeError as error:
        raise FairmendError(f"{path}: is not UTF-8 text; save the table as UTF-8 CSV") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FairmendError(f"{path}: is not a readable CSV table ({reason}); correct it") from error
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes surplus fields for row names
        raise FairmendError(f"{path}: its rows have more fields than its header has names; correct the header")
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except Exception as error:  # pyarrow's own errors, OSError for damage among them
        reason = str(error).strip().splitlines()[0]
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
