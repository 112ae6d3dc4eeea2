"""Where a report comes from: its files with their sha256, the versions of packages, and the date."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.base.text import short
from fairmend.evaluate.document import Origin, SourceFile
from fairmend.tables import TableFile

_PACKAGES = ("numpy", "torch", "highspy", "onnx", "pandas")  # all are dependencies of fairmend
_CHUNK = 1 << 20


def describe_origin(
    files: Mapping[str, DataSource] | None = None,
    *,
    parts: Mapping[str, Sequence[str]] | None = None,
    command: str | None = None,
    seed: int | None = None,
    arrays: Mapping[str, npt.ArrayLike] | None = None,
    created: datetime | None = None,
) -> Origin:
    """Return the origin of a report from files, and arrays that came from no file, by their role.

    `parts` are the files of a role that is a table: several files have the sha256 of their bytes one after the other,
    as ``cat people/*.parquet | sha256sum`` prints it.
    """
    described = [_describe(role, source, (parts or {}).get(role)) for role, source in (files or {}).items()]
    described += [
        SourceFile(role, "passed as an array", _array_digest(values)) for role, values in (arrays or {}).items()
    ]
    now = created or datetime.now(timezone.utc)
    return Origin(
        now.strftime("%Y-%m-%d %H:%M UTC"),
        None if command is None else short(command, 4_000),
        seed,
        described,
        _versions(),
    )


def file_digest(path: Path) -> str:
    """Return the sha256 of a file. Raise FairmendError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the file ({error.strerror or error})") from error
    return digest.hexdigest()


def _describe(role: str, source: DataSource, parts: Sequence[str] | None) -> SourceFile:
    if parts is None:
        assert isinstance(source, Path)
        return SourceFile(role, short(source.name, 200), file_digest(source))
    more = "" if len(parts) == 1 else f" ({len(parts):,} files)"
    return SourceFile(role, f"{short(source.name, 200)}{more}", _table_digest(parts))


def _table_digest(names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        with TableFile(name).open() as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
    return digest.hexdigest()


def _array_digest(values: npt.ArrayLike) -> str:
    array = np.ascontiguousarray(values)
    return hashlib.sha256(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "fairmend": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
    }
