"""A folder of finished results, from which a run continues after its program has ended.

A file for each task, written completely or not at all, beside ``run.json``, which says what the results are of. Results
of anything else are refused. So is whatever this user did not write: a folder may come from someone else, and a result
in it would be believed without any computation. Each file starts with a tag under a key of the user. The tag covers the
content, what the results are of, and the place of the file, so that none can be changed or moved. The content is
`plain_data` of the named classes.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically, write_text
from fairmend.workers.plain_data import NotPlainDataError, dump, load

_ABOUT = "run.json"
_NAMES = {"fairmend": "another version of fairmend", "options": "another set of options", "data": "other data"}
_TAG = 32  # bytes
_BYTES = 32
_NAME = "resume.key"
_VARIABLE = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"


class KeptResults:
    """The results of one run in a folder.

    The ``digest()`` of a task is a text that changes with all that its result depends on, but for what the run shares.
    """

    def __init__(self, folder: Path, about: Mapping[str, str], classes: Iterable[type]) -> None:
        """Open or create the folder; `about` names what the results depend on, each by a digest or a value."""
        self._folder = folder
        self._classes = tuple(classes)
        given = {"fairmend": __version__, **about}
        self._about, self._key = json.dumps(given, sort_keys=True).encode(), user_key()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            empty = all(path.name.startswith(".") for path in folder.iterdir())
        except OSError as error:
            raise FairmendError(
                f"{folder}: cannot keep results there ({error.strerror or error}); choose another folder"
            ) from error
        if (folder / _ABOUT).exists():
            self._require_same(given)
        elif not empty:
            raise FairmendError(
                f"{folder}: holds other files and no {_ABOUT}; choose an empty or a new folder for resume"
            )
        else:
            write_text(folder / _ABOUT, json.dumps(given, indent=1))

    def _require_same(self, given: Mapping[str, str]) -> None:
        try:
            found = json.loads((self._folder / _ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FairmendError(f"{self._folder / _ABOUT}: cannot be read; choose another folder for resume") from error
        other = [name for name in given if not isinstance(found, dict) or found.get(name) != given[name]]
        if other:
            named = " and ".join(_NAMES.get(name, f"another {name}") for name in other)
            raise FairmendError(f"{self._folder}: holds results for {named}; choose another folder for resume")

    def settle(self, name: str, value: Any) -> Any:
        """Return what was settled under this name in the first run, or settle it now; plain data."""
        content = self._read(name)
        if content is None:
            self._write(name, content := json.dumps(value).encode())
        return json.loads(content)

    def load(self, number: int, task: Any) -> Any:
        """Return the result of a task; None if it is not there."""
        name = _part(number)
        content = self._read(name)
        if content is None:
            return None
        path = self._folder / name
        try:
            digest, result = load(content, self._classes)
        except (NotPlainDataError, TypeError, ValueError) as error:
            raise FairmendError(f"{path}: not written by fairmend; choose another folder for resume") from error
        if digest != task.digest():
            raise FairmendError(f"{path}: is of other data; choose another folder for resume")
        return result

    def save(self, number: int, task: Any, result: Any) -> None:
        """Write the result of a task."""
        self._write(_part(number), dump((task.digest(), result), self._classes))

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file that this user wrote; None if there is no file."""
        path = self._path(name)
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FairmendError(f"{path}: cannot be read ({error.strerror}); delete it to compute it again") from error
        tag, content = found[:_TAG], found[_TAG:]
        if not hmac.compare_digest(tag, self._tag(name, content)):
            raise FairmendError(
                f"{path}: damaged, or not written by you on this computer, so it is not believed; delete it to compute "
                "it again"
            )
        return content

    def _write(self, name: str, content: bytes) -> None:
        write_atomically(self._path(name), [self._tag(name, content), content])

    def _tag(self, name: str, content: bytes) -> bytes:
        """Return the tag of a file; the parts before the content have a length or an end."""
        tag = hmac.new(self._key, digestmod="sha256")
        for part in (len(self._about).to_bytes(8, "big"), self._about, f"{name}\0".encode(), content):
            tag.update(part)
        return tag.digest()

    def _path(self, name: str) -> Path:
        path = self._folder / name
        if path.is_symlink():  # a file would be read, or written, elsewhere
            raise FairmendError(f"{path}: is a symbolic link; delete it, or choose another folder for resume")
        return path


def _part(number: int) -> str:
    return f"part-{number:06d}"


def user_key() -> bytes:
    """Return the secret key of the user, which tells results that this user kept from those in someone else's folder.

    The first call makes it, in the user's own configuration folder, and readable by the user alone.
    """
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
