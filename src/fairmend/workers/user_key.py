"""A secret key of the user, which tells results that this user kept from those in someone else's folder.

It is made on first use, in the user's own configuration folder, and is readable by the user alone.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from fairmend.base.errors import FairmendError

_BYTES = 32
_NAME = "resume.key"
_VARIABLE = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"


def user_key() -> bytes:
    """Return the key; the first call makes it."""
    file = key_file()
    try:
        if not os.path.lexists(file):
            _make(file)
        return _read(file)
    except OSError as error:
        raise FairmendError(
            f"{file}: cannot keep the key for resume there ({error.strerror or error}); set {_VARIABLE} to a folder of "
            "yours, or leave out resume"
        ) from error


def key_file() -> Path:
    """Return where the key is: in the folder of the system for configuration, and never below the current folder."""
    given = Path(os.environ.get(_VARIABLE) or ".")
    if not given.is_absolute():  # as the XDG specification demands
        given = Path(os.path.expanduser("~"), *(("AppData", "Roaming") if sys.platform == "win32" else (".config",)))
    if not given.is_absolute():
        raise FairmendError(f"your home folder is not known; set {_VARIABLE} to a folder of yours, or leave out resume")
    return given / "fairmend" / _NAME


def _make(file: Path) -> None:
    """Write a new key, unless another process does so at the same time; a file is never seen half written."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{_NAME}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(secrets.token_bytes(_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):  # neither of the two replaces a file
            (os.rename if sys.platform == "win32" else os.link)(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _read(file: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(file, flags), "rb") as opened:
        state = os.fstat(opened.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise FairmendError(f"{file}: the key for resume is not a file; move it away")
        if sys.platform != "win32" and (state.st_uid != os.getuid() or state.st_mode & 0o077):
            raise FairmendError(
                f"{file}: the key for resume is not yours alone; delete it, and the folders of resume with it"
            )
        key = opened.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise FairmendError(f"{file}: the key for resume is damaged; delete it, and the folders of resume with it")
    return key
