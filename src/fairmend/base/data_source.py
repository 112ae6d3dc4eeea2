"""Where a table is: a path on this computer, which may be a folder or a pattern, or a URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # "C:/…" is none


@dataclass(frozen=True)
class DataURL:
    """The URL of a table, beside `Path` for one on this computer."""

    url: str

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        """Return the URL."""
        return self.url


DataSource: TypeAlias = Path | DataURL


def data_source(text: str) -> DataSource:
    """Return what the user typed as the source of a table."""
    return DataURL(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    """Return whether a text is a URL."""
    return _URL.match(text) is not None
