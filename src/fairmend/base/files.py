"""Files that are written completely or not at all, JSON among them, and exchanging a folder with another."""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import printable

# Write a file completely or not at all.


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


# Let two folders trade their names in one step of the file system, where the system can.


_AT_FDCWD = -100  # Linux: paths are relative to the current folder
_RENAME_EXCHANGE = 2  # Linux, linux/fs.h
_RENAME_SWAP = 2  # macOS, sys/stdio.h

# The kernel or the file system has no such operation; nothing was changed.
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(first: Path, second: Path) -> bool:
    """Let two folders trade their names; return False, with nothing changed, if the system cannot do it in one step."""
    call = _system_call()
    if call is None:
        return False
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))


@cache
def _system_call() -> Callable[[bytes, bytes], int] | None:
    """Return the exchange of this system, or None: Windows has none, nor has an old C library."""
    if sys.platform not in ("linux", "darwin"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        renameat2 = library.renameat2
        renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        return lambda first, second: renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        renamex_np = library.renamex_np
        renamex_np.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)
        return lambda first, second: renamex_np(first, second, _RENAME_SWAP)
    return None


# Write plain data as JSON, with NumPy numbers and arrays in it.


def write_json(path: str | os.PathLike[str], document: object) -> None:
    """Write plain data as JSON; see `to_json`."""
    write_text(path, to_json(document) + "\n")


def to_json(document: object) -> str:
    """Return plain data as JSON; NumPy numbers and arrays are allowed, and numbers that are not finite become null.

    Letters of every script are written as they are. Characters that cannot be seen are escaped, which is the same JSON:
    the document may be printed to a terminal.
    """
    text = json.dumps(_plain(document), indent=2, allow_nan=False, ensure_ascii=False)
    odd = {char for char in set(text) - {"\n"} if printable(char) != char}
    return text.translate({ord(char): _escape(char) for char in odd})


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, os.PathLike) else value
