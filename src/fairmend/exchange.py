"""Let two folders trade their names in one step of the file system, where the system can."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

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
