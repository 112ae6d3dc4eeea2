"""Find a raw file of a data set: in a folder of the user, in the cache, or at the URL where it is published.

A file in the user's folder is used as it is. A file in the cache must have its pinned checksum, so that a download is
the data on which the networks of the paper were trained.
"""

from __future__ import annotations

import logging
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from fairmend.base.errors import FairmendError

DATA_VARIABLE = "FAIRMEND_DATA"
CACHE_VARIABLE = "FAIRMEND_CACHE"

_CHUNK = 1 << 16


@dataclass(frozen=True)
class RawFile:
    """A file of a data set, as published.

    name    its name in the user's folder and in the cache
    url     its URL, or that of the zip archive that contains it
    sha256  its checksums; several if there are copies with other line endings
    source  a description of where to find it
    zipped  whether the URL is that of an archive
    """

    name: str
    url: str
    sha256: tuple[str, ...]
    source: str
    zipped: bool = False


def find_file(file: RawFile, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Path:
    """Return the path of a raw file in `data_dir` or in FAIRMEND_DATA; without both, in the cache.

    A file that is missing from the cache is downloaded; one that is missing from a folder is an error.
    """
    folder = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE) or None
    if folder is not None:
        path = Path(folder) / file.name
        if not path.is_file():
            raise FairmendError(f"{file.name!r} is not in {str(folder)!r}. Get it from {file.source} and put it there.")
        return path
    path = cache_folder() / file.name
    if path.is_file():
        _check(file, path.read_bytes(), f"{path}: is not the published file", "Delete it, and it is downloaded again.")
    elif download:
        _download(file, path)
    else:
        raise FairmendError(f"{file.name!r} is not on this machine. {_by_hand(file, path)}")
    return path


def cache_folder() -> Path:
    """Return the folder for downloads: FAIRMEND_CACHE, or the system's folder for caches."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(_import_pooch().os_cache("fairmend"))


def _import_pooch() -> Any:
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise FairmendError(
            "downloading data sets needs the package pooch of the extra bench. Run pip install 'fairmend[bench]', or "
            f"put the raw files into a folder and name it with --data-dir (data_dir in Python) or {DATA_VARIABLE}"
        ) from error
    return pooch


def _by_hand(file: RawFile, path: Path) -> str:
    return (
        f"Get it from {file.source}, at {file.url}, and put it into {str(path.parent)!r}, or into any folder "
        f"named by --data-dir (data_dir in Python) or by the environment variable {DATA_VARIABLE}."
    )


def _check(file: RawFile, content: bytes, complaint: str, remedy: str) -> None:
    found = sha256(content).hexdigest()
    if found not in file.sha256:
        raise FairmendError(f"{complaint}: its SHA-256 is {found}, not {' or '.join(file.sha256)}. {remedy}")


def _download(file: RawFile, path: Path) -> None:
    """Download the file into the cache, complete and checked or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            arrived = _retrieve(file, Path(scratch))
            if file.zipped:
                with zipfile.ZipFile(arrived) as archive:
                    content = archive.read(file.name)
            else:
                content = arrived.read_bytes()
            _check(
                file, content, f"what {file.url} sent for {file.name!r} is not the published file", "It is not kept."
            )
            whole = Path(scratch) / "whole"
            whole.write_bytes(content)
            os.replace(whole, path)
    except (OSError, zipfile.BadZipFile, KeyError) as error:  # every error of `requests` is an OSError
        raise FairmendError(f"{file.name!r} could not be downloaded: {error}. {_by_hand(file, path)}") from error


def _retrieve(file: RawFile, folder: Path) -> Path:
    """Download the URL into the folder, with a progress bar if standard error is a terminal."""
    pooch = _import_pooch()
    with _quiet(pooch.get_logger()), _bar(file.name) as bar:
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)
        # No checksum yet: the one pinned is of the file, not of the archive around it.
        return Path(pooch.retrieve(file.url, known_hash=None, fname="download", path=folder, downloader=downloader))


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Suppress the messages of pooch about each download."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Bar:
    """A progress bar of rich with the interface of tqdm, which pooch uses."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress, self._task = progress, progress.add_task(title, total=None)

    @property
    def total(self) -> float | None:
        return self._progress.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)  # 0: the server did not say

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.reset(self._task, total=self.total)

    def close(self) -> None:
        self._progress.stop_task(self._task)


@contextmanager
def _bar(title: str) -> Iterator[_Bar]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    # Not entered without a terminal: some releases of rich print an empty line even for a disabled progress.
    with progress if console.is_terminal else nullcontext():
        yield _Bar(progress, title)
