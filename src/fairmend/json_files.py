"""Write plain data as JSON, with NumPy numbers and arrays in it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairmend.atomic import write_text
from fairmend.text import printable


def write_json(path: str | os.PathLike[str], document: object) -> None:
    """Write plain data as JSON; see `to_json`."""
    write_text(path, to_json(document) + "\n")


def to_json(document: object) -> str:
    """Return plain data as JSON; NumPy numbers and arrays are allowed, and numbers that are not finite become null.

    Letters of every script are written as they are. Characters that cannot be seen are escaped, which is the same JSON:
    the document may be printed to a terminal.
    """
    text = json.dumps(_plain(document), indent=2, allow_nan=False, ensure_ascii=False)
    odd = {char for char in set(text) - {"\n"} if printable(char) != char}
    return text.translate({ord(char): _escape(char) for char in odd})


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


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
