"""Where a report comes from: its files with their sha256, the versions of packages, and the date."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairmend._version import __version__
from fairmend.errors import FairmendError
from fairmend.evaluate.document import Origin, SourceFile
from fairmend.text import short

__all__ = ["describe_origin", "file_digest"]

_PACKAGES = ("numpy", "torch", "highspy", "onnx", "pandas")  # all are dependencies of fairmend
_CHUNK = 1 << 20


def describe_origin(
    files: Mapping[str, Path] | None = None,
    *,
    command: str | None = None,
    seed: int | None = None,
    arrays: Mapping[str, npt.ArrayLike] | None = None,
    created: datetime | None = None,
) -> Origin:
    """Return the origin of a report from files, and arrays that came from no file, by their role."""
    described = [SourceFile(role, short(path.name, 200), file_digest(path)) for role, path in (files or {}).items()]
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
