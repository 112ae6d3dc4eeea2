"""Words in errors, and how values are compared as words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np


def as_text(value: object) -> str:
    """Return the text by which a value is compared: 1 and 1.0 are "1", True is "True"."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def shown(value: object, most: int = 60) -> str:
    """Return a value of the user's data as a message may show it: one short line, without control characters."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)[: most + 1])
    return text if len(text) <= most else f"{text[:most]}…"


def first_line(error: BaseException) -> str:
    """Return what another library's error says, in one line; some say nothing at all."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, if one is near; case does not matter."""
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f' (did you mean "{by_case[near[0]]}"?)' if near else ""
