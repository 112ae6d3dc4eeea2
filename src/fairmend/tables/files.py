"""The files of a table: one file, a folder, a pattern such as "people/*.parquet", or the URL of one of these.

Files are read in the order of their names. Folders below that are named "country=DE", as Hive and Spark name them, give
the rows of their files a column "country". URLs are opened by fsspec.
"""

from __future__ import annotations

import glob
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource, DataURL, TableSource, is_url
from fairmend.base.text import first_line

_CSV, _PARQUET, _EXCEL = ("CSV", "Parquet", "Excel")
_SUFFIXES = {".csv": _CSV, ".csv.gz": _CSV, ".parquet": _PARQUET, ".xlsx": _EXCEL}
_PANDAS_READERS = {
    ".xls": 'read_excel("{}")',
    ".tsv": 'read_csv("{}", sep="\\t")',
    ".json": 'read_json("{}")',
    ".feather": 'read_feather("{}")',
}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PATTERN = re.compile(r"[*?[]")


@dataclass(frozen=True)
class TableFile:
    """One file of a table.

    Attributes
    ----------
    name : its path or URL
    partition : the columns that the names of its folders give, with their values
    base : the folder that a path starts from in another process; empty for the one in which this process runs
    sep, decimal : what separates the columns of a CSV file, and the decimal mark; None if its first rows show it
    sheet : the sheet of an Excel file; None for the first
    """

    name: str
    partition: tuple[tuple[str, Any], ...] = ()
    base: str = ""
    sep: str | None = None
    decimal: str | None = None
    sheet: str | None = None

    @property
    def place(self) -> str:
        """The path or URL to open."""
        return self.name if is_url(self.name) else os.path.join(self.base, self.name)

    @property
    def size(self) -> int | None:
        """The number of bytes of a file on this disk; None for any other."""
        try:
            return None if is_url(self.name) else os.stat(self.place).st_size
        except OSError:
            return None  # opening it says why

    @property
    def is_csv(self) -> bool:
        """Whether it is a CSV file, compressed or not."""
        return _kind(self.name) == _CSV

    @property
    def is_excel(self) -> bool:
        """Whether it is an Excel file."""
        return _kind(self.name) == _EXCEL

    @property
    def is_parsed(self) -> bool:
        """Whether it is parsed, which takes time: a CSV or Excel file, not a Parquet file."""
        return _kind(self.name) != _PARQUET

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed as a whole, with gzip."""
        return self.name.lower().endswith(".gz")

    def require_visible(self) -> None:
        """Raise an error if this process works for another one and does not see the file."""
        if self.base and not is_url(self.name) and not os.path.exists(self.place):
            raise FairmendError(
                f"{self.place}: the worker on {socket.gethostname()} does not see this file; workers need it under the "
                "same path, or give the URL of an object store that they can read"
            )

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for reading; a file that is missing, empty or unreadable is refused."""
        try:
            with _open(self.place) as file:
                if not file.read(1):
                    raise FairmendError(f"{self.name}: the file is empty; give a table with a header and rows")
                file.seek(0)
                yield file
        except FileNotFoundError as error:
            raise FairmendError(f"{self.name}: no such file") from error
        except OSError as error:
            raise FairmendError(f"{self.name}: cannot read the data: {error.strerror or first_line(error)}") from error


def find_files(source: str | os.PathLike[str] | DataURL | TableSource) -> tuple[TableFile, ...]:
    """Return the files of a table in the order of their names; they are all of one kind."""
    files = _find_files(str(source))
    if not isinstance(source, TableSource):
        return files
    for option, given, fits in (
        ("--sep", source.sep, files[0].is_csv),
        ("--decimal", source.decimal, files[0].is_csv),
        ("--sheet", source.sheet, files[0].is_excel),
    ):
        if given is not None and not fits:
            raise FairmendError(
                f"{source}: {option} is for {'.csv' if option != '--sheet' else '.xlsx'} files; leave it out"
            )
    return tuple(replace(file, sep=source.sep, decimal=source.decimal, sheet=source.sheet) for file in files)


def _find_files(text: str) -> tuple[TableFile, ...]:
    root, names = _remote_names(text) if is_url(text) else _local_names(text)
    if root is None:
        _require_kind(text)
        return (TableFile(text),)
    kinds = {_require_kind(name) for name in names}
    if len(kinds) > 1:
        both = " and ".join(sorted(kinds))
        raise FairmendError(f'{text}: has {both} files; give one kind, with a pattern such as "*.parquet"')
    partitions = [_partition(name.removeprefix(root)) for name in names]
    return tuple(map(TableFile, names, _typed(names, partitions)))


def local_files(source: DataSource | None) -> list[Path]:
    """Return the files of a table that are on this disk, as far as they exist, so that no output replaces them."""
    source = source.place if isinstance(source, TableSource) else source
    if source is None or isinstance(source, DataURL):
        return []
    root, names = _local_names(str(source)) if _is_many(str(source)) else (None, [])
    return [source] if root is None else [Path(name) for name in names]


def describe_remote(url: str) -> str:
    """Return a text that changes if a file in an object store changes."""
    with _remote(url):
        from fsspec.core import url_to_fs

        files, path = url_to_fs(url)
        return str(files.ukey(path))


def _kind(name: str) -> str | None:
    return next((kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix)), None)


def _require_kind(name: str) -> str:
    kind = _kind(name)
    if kind is None:
        if not is_url(name) and not os.path.exists(name):
            raise FairmendError(f"{name}: no such file or folder")
        raise FairmendError(
            f"{name}: data is read from .csv, .csv.gz, .parquet or .xlsx files; {_how_to_convert(name)}"
        )
    return kind


def _how_to_convert(name: str) -> str:
    base, suffix = os.path.splitext(os.path.basename(name))
    reader = _PANDAS_READERS.get(suffix.lower())
    if reader is None:
        return "convert it first"
    return f'convert it first, such as with pandas: {reader.format(base + suffix)}.to_parquet("{base}.parquet")'


def _is_many(text: str) -> bool:
    return os.path.isdir(text) or (_PATTERN.search(text) is not None and not os.path.exists(text))


def _local_names(text: str) -> tuple[str | None, list[str]]:
    """Return the folder that the names of partitions start below, and the names; None and none for a single file."""
    if not _is_many(text):
        return None, []
    if os.path.isdir(text):
        names = (os.path.join(folder, name) for folder, _, found in os.walk(text) for name in found)
        return text, _visible(text, text, names)
    root = _before_pattern(text)
    return root, _visible(text, root, filter(os.path.isfile, glob.glob(text, recursive=True)))


def _remote_names(text: str) -> tuple[str | None, list[str]]:
    """Return the same for a URL."""
    with _remote(text):
        from fsspec.core import url_to_fs

        files, path = url_to_fs(text)
        if text.startswith(("http://", "https://")):  # a server lists no folders
            return None, []
        if _PATTERN.search(text):
            root = files.unstrip_protocol(_before_pattern(path))
            names = [name for name in files.glob(path) if files.isfile(name)]
        elif files.isdir(path):
            root, names = files.unstrip_protocol(path), files.find(path)
        else:
            return None, []
        names = [files.unstrip_protocol(name) for name in names]
    return root, _visible(text, root, names)


def _before_pattern(text: str) -> str:
    """Return the folder in which a pattern starts, with the separator after it."""
    fixed = _PATTERN.split(text, maxsplit=1)[0]
    return fixed[: max(fixed.rfind("/"), fixed.rfind(os.sep)) + 1]


def _visible(text: str, root: str, names: Iterator[str] | list[str]) -> list[str]:
    """Return the names in order, without those such as "_SUCCESS" and ".part.crc" that writers leave beside tables."""
    found = sorted(name for name in names if not _is_hidden(name.removeprefix(root)))
    if not found:
        what = "no file matches the pattern" if _PATTERN.search(text) else "the folder has no table files"
        raise FairmendError(f"{text}: {what}; give .csv, .csv.gz, .parquet or .xlsx files")
    return found


def _is_hidden(below: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in re.split(r"[/\\]", below) if part)


def _partition(below: str) -> dict[str, str | None]:
    """Return the columns in the names of the folders of a file, with their values as text."""
    folders = [part.partition("=") for part in re.split(r"[/\\]", below)[:-1] if "=" in part]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in folders}


def _typed(names: list[str], partitions: list[dict[str, str | None]]) -> list[tuple[tuple[str, Any], ...]]:
    """Return the columns of partitions, as whole numbers where all values are; all files must have the same ones."""
    columns = partitions[0].keys()
    for name, partition in zip(names, partitions, strict=True):
        if partition.keys() != columns:
            odd = min(partition.keys() ^ columns)
            raise FairmendError(f'{name}: only some files are in a folder "{odd}=…"; put all of them into such folders')
    whole = {name for name in columns if all(_is_whole(found[name]) for found in partitions)}
    return [
        tuple((name, int(value) if name in whole and value is not None else value) for name, value in found.items())
        for found in partitions
    ]


def _is_whole(value: str | None) -> bool:
    return value is None or (value.lstrip("-").isdecimal() and str(int(value)) == value)


def _open(name: str) -> IO[bytes]:
    if not is_url(name):
        return open(name, "rb")  # the caller closes it
    with _remote(name):
        import fsspec

        file: IO[bytes] = fsspec.open(name, "rb").open()
    return file


@contextmanager
def _remote(text: str) -> Iterator[None]:
    """Turn the errors of fsspec and of the packages behind it into a line that says what to do."""
    try:
        yield
    except (FairmendError, FileNotFoundError):
        raise
    except ImportError as error:
        if error.name == "fsspec" or "fsspec" in str(error):
            hint = "pip install 'fairmend[remote]'"
        else:
            hint = f"install what it names ({first_line(error)})"
        raise FairmendError(f"{text}: a package that reads such URLs is missing: {hint}") from error
    except Exception as error:  # each object store raises errors of its own
        raise FairmendError(f"{text}: cannot be read ({first_line(error)}); check the URL and your access") from error
