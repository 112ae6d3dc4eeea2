"""Replace a file whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from fairmend.errors import FairmendError


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, then rename it over `path`."""
    target = Path(os.path.realpath(path))  # a link keeps pointing where it did
    if target.is_dir():
        raise FairmendError(f"{path}: is a directory; give the name of a file in it")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FairmendError(f"{path}: cannot write: {error.strerror or error}") from error
