"""Markdown in which nothing from a file is Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fairmend.base.text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&])")


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, and an empty one."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(map(escape, cells))} |"

    return [line(heads), f"|{' --- |' * len(heads)}", *map(line, rows), ""]


def escape(text: str) -> str:
    """Return a text of one line in which nothing is Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")
