"""A folder of finished results, from which a run continues after its program has ended.

A file for each task, written completely or not at all, beside ``run.json``, which says what the results are of. Results
of anything else are refused. So is whatever this user did not write: a folder may come from someone else, and a result
in it would be believed without any computation. Each file starts with a tag under a key of the user. The tag covers the
content, what the results are of, and the place of the file, so that none can be changed or moved. The content is plain
bytes (`dump`): numbers, texts, arrays, and instances of the named classes. Reading them runs no code.

The bytes are the length of a JSON text, the text, and the content of the arrays one after another. An instance is the
number of its class among those that both sides name, and its attributes; nothing is called to make one.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically, write_text

_LENGTH = 8  # bytes
_DTYPE = re.compile(r"[<>|][biufSU]\d{1,4}")  # numbers, truths and texts; no objects, no records
_COLLECTIONS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class NotPlainDataError(FairmendError):
    """The bytes are not what `dump` writes."""


def dump(value: Any, classes: Sequence[type]) -> bytes:
    """Return a value as bytes; whatever is an instance of another class is a TypeError."""
    arrays: list[bytes] = []
    text = json.dumps(_encoded(value, list(classes), arrays)).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "big"), text, *arrays])


def load(content: bytes, classes: Sequence[type]) -> Any:
    """Return the value; raise `NotPlainDataError` for anything that `dump` does not write with these classes."""
    try:
        start = _LENGTH + int.from_bytes(content[:_LENGTH], "big")
        reader = _Reader(memoryview(content)[start:], classes)
        value = reader.decoded(json.loads(bytes(content[_LENGTH:start])))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise NotPlainDataError(f"not a result of fairmend ({error})") from error
    if len(reader.rest):
        raise NotPlainDataError("not a result of fairmend (bytes are left over)")
    return value


def _encoded(value: Any, classes: list[type], arrays: list[bytes]) -> Any:
    """Return what JSON can hold: a plain value as it is, and any other as a list that starts with its kind."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is bytes:
        return ["bytes", value.hex()]
    if isinstance(value, np.ndarray | np.generic):
        return _encoded_array(np.asarray(value), isinstance(value, np.generic), arrays)
    if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
        return [kind.__name__, [_encoded(each, classes, arrays) for each in value]]
    if kind is dict:
        return ["dict", [[_encoded(each, classes, arrays) for each in item] for item in value.items()]]
    if kind not in classes:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not among the classes of these results")
    if isinstance(value, Enum):
        return ["member", classes.index(kind), value.name]
    if is_dataclass(kind):
        state = {field.name: getattr(value, field.name) for field in fields(kind)}
    else:
        state = value.__getstate__() if "__getstate__" in vars(kind) else vars(value)
    return ["instance", classes.index(kind), {name: _encoded(each, classes, arrays) for name, each in state.items()}]


def _encoded_array(array: np.ndarray[Any, Any], scalar: bool, arrays: list[bytes]) -> Any:
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"an array of {array.dtype} cannot be sent")
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    arrays.append(array.tobytes(order))  # type: ignore[arg-type]  # one of the two
    return ["array", array.dtype.str, list(array.shape), order, scalar]


class _Reader:
    """Makes values, and takes the content of arrays from the bytes after the text."""

    def __init__(self, rest: memoryview, classes: Sequence[type]) -> None:
        self.rest, self._classes = rest, classes

    def decoded(self, plain: Any) -> Any:
        if not isinstance(plain, list):
            if isinstance(plain, dict):
                raise ValueError("an object of JSON where none belongs")
            return plain
        kind, *content = plain
        if kind == "array":
            return self._array(*content)
        if kind == "bytes":
            return bytes.fromhex(*content)
        if kind == "dict":
            return {self.decoded(key): self.decoded(value) for key, value in content[0]}
        if kind == "member":
            return self._class(content[0], Enum)[content[1]]
        if kind == "instance":
            return self._instance(*content)
        return _COLLECTIONS[kind]([self.decoded(each) for each in content[0]])

    def _class(self, number: int, of: type) -> Any:
        found = self._classes[number] if type(number) is int and number >= 0 else None
        if found is None or issubclass(found, Enum) != (of is Enum):
            raise ValueError("an unknown class")
        return found

    def _instance(self, number: int, state: dict[str, Any]) -> Any:
        kind = self._class(number, object)
        if is_dataclass(kind) and state.keys() != {field.name for field in fields(kind)}:
            raise ValueError(f"an instance of class {number} with other attributes")
        made = object.__new__(kind)
        made.__dict__.update({name: self.decoded(value) for name, value in state.items()})
        return made

    def _array(self, dtype: str, shape: list[int], order: Any, scalar: bool) -> Any:
        if not _DTYPE.fullmatch(dtype) or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError("an array of another type")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(self.rest):
            raise ValueError("an array is cut off")
        content, self.rest = self.rest[:size], self.rest[size:]
        array = np.ndarray(shape, dtype, bytes(content), order=order).copy(order)
        return array[()] if scalar else array


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
