"""Where a table is: a path on this computer, which may be a folder or a pattern, or a URL.

Names of files that nobody typed, in fairmend.toml or by default: what they lead to must be inside the folder.

A folder from someone else may hold symbolic links, and its fairmend.toml may name any file.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeAlias

from fairmend.base.errors import FairmendError

_SEPARATORS = (",", ";", "\t", "|")
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


@dataclass(frozen=True)
class TableSource:
    """A table, and how to read it where its files do not show it.

    Attributes
    ----------
    place : a file, a folder, a pattern or a URL
    sep : what separates the columns of CSV files: ",", ";", "|", or a tab; found in the files by default
    decimal : the decimal mark of their numbers: "." or ","; found in the files by default
    sheet : the sheet of an Excel file; by default the first
    """

    place: Path | DataURL
    sep: str | None = None
    decimal: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot separate columns, or be a decimal mark."""
        if not isinstance(self.place, Path | DataURL):
            object.__setattr__(self, "place", data_source(os.fspath(self.place)))
        if self.sep == "tab":
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and self.sep not in _SEPARATORS:
            raise FairmendError(f'--sep is {self.sep!r}; columns are separated by ",", ";", "|" or tab')
        if self.decimal is not None and self.decimal not in (".", ","):
            raise FairmendError(f'--decimal is {self.decimal!r}; the decimal mark is "." or ","')

    @property
    def name(self) -> str:
        """The last part of the path or URL."""
        return self.place.name

    def __str__(self) -> str:
        """Return the path or URL."""
        return str(self.place)


DataSource: TypeAlias = Path | DataURL | TableSource


def data_source(text: str) -> DataSource:
    """Return what the user typed as the source of a table."""
    return DataURL(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    """Return whether a text is a URL."""
    return _URL.match(text) is not None


def require_plain_name(name: str, *, written: bool) -> None:
    """Raise `FairmendError` unless a name in fairmend.toml is one below its folder on every system, and no URL.

    A file to be written has no part that starts with a dot: programs run what such files hold (.git, .bashrc).
    """
    if "://" in name or "::" in name:
        raise FairmendError(f"{name!r} is a URL, which only the command line can name")
    if "\0" in name or not name.strip():
        raise FairmendError(f"{name!r} is no name of a file")
    windows, here = PureWindowsPath(name), PurePosixPath(name)
    parts = {*windows.parts, *here.parts}
    if windows.drive or windows.root or here.root or any(not part.strip(". ") for part in parts) or name[0] == "~":
        raise FairmendError(f"{name!r} may lead out of the folder; only the command line can name it")
    if written and any(part.startswith(".") for part in parts):
        raise FairmendError(f"{name!r} is hidden; only the command line can name a hidden file to be written")


def require_inside(path: Path, folder: Path, *, written: bool = False) -> None:
    """Raise `FairmendError` if a path, or what a folder or a pattern of it holds, leads out of the folder by a link.

    The files in a folder to be written may be replaced, so links in it count at any depth.
    """
    home = Path(os.path.realpath(folder))
    for each in _everything(path):
        if not Path(os.path.realpath(each)).is_relative_to(home):
            what = "would be written outside of" if written else "leads out of"
            raise FairmendError(
                f"{each} {what} {folder}, by a symbolic link; name it on the command line if you mean it"
            )


def _everything(path: Path) -> Iterator[str]:
    yield str(path)
    if not path.exists() and glob.has_magic(str(path)):
        yield from glob.iglob(str(path), recursive=True)
    for parent, folders, files in os.walk(path):  # it enters no linked folder
        yield from (os.path.join(parent, name) for name in (*folders, *files))


# Models of MLflow

MODEL_DESCRIPTION = "MLmodel"
"""The file that makes a folder a model folder of MLflow."""

_MODEL_URIS = ("models:/", "runs:/", "mlflow-artifacts:/")


def is_model_uri(source: object) -> bool:
    """Return whether something is a URI of MLflow."""
    return isinstance(source, str) and source.startswith(_MODEL_URIS)


def is_model_folder(path: Path) -> bool:
    """Return whether a path is a model folder of MLflow."""
    try:
        return (path / MODEL_DESCRIPTION).is_file()
    except (OSError, ValueError):  # for example a name that is too long
        return False
