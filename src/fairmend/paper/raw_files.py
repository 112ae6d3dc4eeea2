"""What the data sets share: find a raw file, read it, encode its columns and split its rows.

A file in the user's folder is used as it is. A file in the cache must have its pinned checksum, so that a download is
the data on which the networks of the paper were trained.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.spec import Spec


DATA_VARIABLE = "FAIRMEND_DATA"
CACHE_VARIABLE = "FAIRMEND_CACHE"

_CHUNK = 1 << 16


Column = NDArray[np.float32]


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Encoded data, as the networks of the paper read it, with the range of each column.

    X_train, X_test  (rows, features) float32, whole numbers
    y_train, y_test  (rows,) int8; 1 is the favourable outcome, or in compas the high risk
    columns          the features' names, in order
    bounds           (features, 2) float32, lowest and highest value of the published input space
    ranges           (features, 2) float32, the bounds, widened where the data exceeds them
    """

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int8]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int8]
    columns: tuple[str, ...]
    bounds: NDArray[np.float32]
    ranges: NDArray[np.float32]

    def __repr__(self) -> str:
        """Show the sizes."""
        return (
            f"Dataset({self.name}: {len(self.X_train)} rows to train, {len(self.X_test)} to test, "
            f"{len(self.columns)} features)"
        )

    def spec(self, protected: Sequence[str], tolerance: Mapping[str, float] | None = None) -> Spec:
        """Return the spec of this data; every feature is an integer within its range.

        protected  names of the protected features
        tolerance  tolerances of other features by name
        """
        from fairmend.spec import Feature, Spec

        sensitive = (protected,) if isinstance(protected, str) else tuple(protected)
        slack = dict(tolerance or {})
        for name in (*sensitive, *slack):
            if name not in self.columns:
                raise FairmendError(f"dataset {self.name} has no feature {name!r}; it has {', '.join(self.columns)}")
        return Spec(
            features=[
                Feature(
                    name=name,
                    kind="integer",
                    range=(int(lowest), int(highest)),
                    protected=name in sensitive,
                    tolerance=slack.get(name, 0.0),
                )
                for name, (lowest, highest) in zip(self.columns, self.ranges, strict=True)
            ]
        )


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


def read_table(path: Path, names: Sequence[str], **options: Any) -> pd.DataFrame:
    """Return the raw file as a frame of text with these columns."""
    try:
        frame: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise FairmendError(f"{path}: cannot be read as a table: {error}") from error
    if "header" in options:  # None: the file has no header
        if len(frame.columns) == len(names):
            frame.columns = pd.Index(names)
        else:
            raise FairmendError(f"{path}: has {len(frame.columns)} columns, not {len(names)}")
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise FairmendError(f"{path}: has no column {missing[0]!r}; it has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise FairmendError(f"{path}: has no rows")
    return frame


def whole_numbers(frame: pd.DataFrame, column: str, path: Path) -> Column:
    """Return the numbers of a column (rows,)."""
    numbers = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    return _checked(numbers, numbers == np.round(numbers), frame, column, path, "a whole number")


def codes(frame: pd.DataFrame, column: str, categories: Sequence[str], path: Path) -> Column:
    """Return the index of each value among the categories (rows,)."""
    place = pd.Index(categories).get_indexer(pd.Index(frame[column])).astype(np.float64)
    return _checked(place, place >= 0, frame, column, path, f"one of {', '.join(categories)}")


def grouped(frame: pd.DataFrame, column: str, groups: Mapping[str, str], path: Path) -> Column:
    """Return the index of each value's group among the sorted groups (rows,)."""
    places = {group: place for place, group in enumerate(sorted(set(groups.values())))}
    known = frame[column].isin(list(groups)).to_numpy(bool)
    place = np.array([places.get(groups.get(value, ""), -1) for value in frame[column]], dtype=np.float64)
    return _checked(place, known, frame, column, path, f"one of {', '.join(groups)}")


def encode_columns(
    frame: pd.DataFrame,
    columns: Iterable[str],
    path: Path,
    *,
    categories: Mapping[str, str],
    groups: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Column]:
    """Return columns as their networks read them: the place among categories or groups, or else a whole number.

    The categories of a column are words of a text, in order.
    """
    encoded = {}
    for column in columns:
        if groups is not None and column in groups:
            encoded[column] = grouped(frame, column, groups[column], path)
        elif column in categories:
            encoded[column] = codes(frame, column, categories[column].split(), path)
        else:
            encoded[column] = whole_numbers(frame, column, path)
    return encoded


def bins(values: Column, edges: Sequence[float] | NDArray[np.float64]) -> Column:
    """Return the number of edges below each value (rows,); a bin includes its upper edge."""
    below = np.searchsorted(np.asarray(edges, np.float64), values.astype(np.float64), side="left")
    return below.astype(np.float32)


def assemble(
    name: str,
    encoded: Mapping[str, Column],
    y: NDArray[np.bool_],
    bounds: Mapping[str, tuple[float, float]],
    *,
    wider: Mapping[str, tuple[float, float]] | None = None,
    test_size: float,
    seed: int,
) -> Dataset:
    """Order the encoded columns as the bounds, and split the rows like scikit-learn's `train_test_split`.

    The first ceil(rows · test_size) rows of a permutation are the test set.
    """
    X = np.stack([encoded[column] for column in bounds], axis=1)
    ranges = _pairs({**bounds, **(wider or {})}.values())
    outside = np.clip(X, *ranges.T) != X
    if outside.any():
        row, column = map(int, np.argwhere(outside)[0])
        raise FairmendError(
            f"dataset {name}: row {row} has {X[row, column]:g} for {list(bounds)[column]!r}, "
            f"which ranges from {ranges[column, 0]:g} to {ranges[column, 1]:g}; is this the original file?"
        )
    order = np.random.RandomState(seed).permutation(len(X))
    test, train = np.split(order, [math.ceil(len(X) * test_size)])
    labels = y.astype(np.int8)
    return Dataset(
        name=name,
        X_train=X[train],
        y_train=labels[train],
        X_test=X[test],
        y_test=labels[test],
        columns=tuple(bounds),
        bounds=_pairs(bounds.values()),
        ranges=ranges,
    )


def _pairs(values: Iterable[tuple[float, float]]) -> NDArray[np.float32]:
    return np.array(list(values), dtype=np.float32)


def _checked(
    values: NDArray[np.float64],
    good: NDArray[np.bool_],
    frame: pd.DataFrame,
    column: str,
    path: Path,
    expected: str,
) -> Column:
    if not good.all():
        row = int(np.argmin(good))
        raise FairmendError(f"{path}: row {row} has {frame[column].iloc[row]!r} for {column!r}; expected {expected}")
    return values.astype(np.float32)
