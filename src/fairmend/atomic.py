"""Write a file completely or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from fairmend.errors import FairmendError


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write to a temporary file in the same folder, then rename it to `path`; content may come in parts."""
    target = Path(os.path.realpath(path))  # a symbolic link stays a link
    if target.is_dir():
        raise FairmendError(f"{path}: this is a folder; give the name of a file")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FairmendError(f"{path}: cannot write: {error.strerror or error}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; the file is replaced completely or not at all."""
    write_atomically(Path(path), text.encode("utf-8"))
