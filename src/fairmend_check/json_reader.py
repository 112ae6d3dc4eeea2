"""Read JSON from an untrusted file: limits come first, then the parser, then typed access to the parts."""

from __future__ import annotations

import base64
import json
import math
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

MAX_BYTES = 512 * 2**20
MAX_LINE = 32 * 2**20  # bytes of a file that is read line by line
MAX_DEPTH = 50
MAX_VALUES = 20_000_000
MAX_CONTAINERS = 2_000_000
MAX_INTEGER = 10**15
_CHUNK = 2**22

T = TypeVar("T")
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
}


def read_bytes(path: Path, what: str, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a plain file of reasonable size."""
    with _opened(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise CheckError(f"{what} {path.name}: {size:,} bytes; files of more than {limit:,} bytes are not read")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise CheckError(f"{what} {path.name}: the file grew beyond {limit:,} bytes during reading")
    return content


def read_lines(path: Path, what: str) -> Iterator[bytes]:
    """Return the lines of a plain file one by one, each with the line feed that it must end with."""
    with _opened(path, what) as file:
        number = 1
        while line := file.readline(MAX_LINE + 1):
            if not line.endswith(b"\n"):
                raise CheckError(f"{what}, line {number}: cut off, or longer than {MAX_LINE:,} bytes")
            yield line
            number += 1


@contextmanager
def _opened(path: Path, what: str) -> Iterator[BinaryIO]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckError(f"{what} {path.name}: not a file")
        with path.open("rb") as file:
            yield file
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CheckError(f"{what} {path}: cannot be read ({reason})") from error


def parse_json(content: bytes, what: str) -> Any:
    """Return the JSON document; refuse one that is not strict JSON or too costly to parse."""
    _check_size(content, what)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckError(f"{what}: not UTF-8 text (byte {error.start:,})") from error
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_object)
    except CheckError as error:
        raise CheckError(f"{what}: {error}") from error
    except json.JSONDecodeError as error:
        raise CheckError(f"{what}: not valid JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise CheckError(f"{what}: cannot be parsed ({type(error).__name__})") from error


def take(data: Any, key: str, kind: type[T], where: str) -> T:
    """Return the value under a key, of exactly this type; a whole number passes for a number."""
    if type(data) is not dict:
        raise CheckError(f"{where} must be an object, got {_type_name(data)}")
    if key not in data:
        raise CheckError(f'{where} has no "{key}"')
    value: Any = data[key]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise CheckError(f"{where}.{key} must be {_TYPE_NAMES[kind]}, got {_type_name(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise CheckError(f"{where}.{key} is not finite")
    return value


def maybe(data: dict[str, Any], key: str, kind: type[T], where: str, default: Any = None) -> Any:
    """Return the value under a key, as `take` does, or the default without such a key."""
    return take(data, key, kind, where) if key in data else default


def or_null(data: Any, key: str, kind: type[T], where: str) -> T | None:
    """Return the value under a key, as `take` does, or None for null: it must be there."""
    absent = type(data) is dict and key in data and data[key] is None
    return None if absent else take(data, key, kind, where)


def only_keys(data: dict[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse an unknown key: the checker must understand all that it confirms."""
    for key in data:
        if key not in known:
            raise CheckError(f'{where} has an unknown key "{key[:40]}"')


def numbers(values: Any, length: int, where: str) -> NDArray[np.float64]:
    """Return a list of finite numbers of the right length as an array."""
    if type(values) is not list:
        raise CheckError(f"{where} must be a list of numbers, got {_type_name(values)}")
    if len(values) != length:
        raise CheckError(f"{where} has {len(values):,} entries instead of {length:,}")
    if not set(map(type, values)) <= {int, float}:
        raise CheckError(f"{where} contains an entry that is not a number")
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise CheckError(f"{where} contains a number that is not finite")
    return array


def packed_array(data: Any, key: str, shape: tuple[int, ...], kind: str, where: str) -> NDArray[Any]:
    """Return the numbers in a text: base64 of a zlib stream of exactly as many bytes as the shape needs."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(base64.b64decode(take(data, key, str, where), validate=True), size + 1)
    except (ValueError, zlib.error) as error:
        raise CheckError(f"{where}.{key} cannot be decoded ({str(error)[:100]})") from error
    if len(raw) != size or not inflater.eof or inflater.unused_data:
        raise CheckError(f"{where}.{key} does not hold exactly {size:,} bytes")
    return np.frombuffer(raw, kind).reshape(shape)


def text(value: Any, where: str) -> str:
    """Return a category or label as text: 1 and 1.0 are "1"."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) not in (str, int, float, bool) or not str(value).strip():
        raise CheckError(f"{where} contains a value that is not a text, a number or true/false")
    return str(value).strip()


def _type_name(value: Any) -> str:
    return "null" if value is None else _TYPE_NAMES.get(type(value), type(value).__name__)


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise CheckError(
            f"the whole number {digits[:20]}{'…' if len(digits) > 20 else ''} is larger than {MAX_INTEGER:.0e}"
        )
    return int(digits)


def _constant(name: str) -> None:
    raise CheckError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise CheckError(f'the key "{key[:40]}" occurs twice in one object')
        found[key] = value
    return found


def _check_size(content: bytes, what: str) -> None:
    """Refuse deep nesting and too many values, in one pass over the bytes outside of strings."""
    if content[:4096].lstrip()[:1] != b"{":
        raise CheckError(f"{what}: not a JSON object")
    # Remove pairs of backslashes first: a backslash that is left before a quote escapes the quote.
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in content else content
    depth = values = containers = quotes = 0
    data = np.frombuffer(plain, dtype=np.uint8)
    for start in range(0, len(data), _CHUNK):
        part = data[start : start + _CHUNK]
        quoted = quotes + np.cumsum(part == ord('"'), dtype=np.int32)
        quotes = int(quoted[-1]) & 1
        outside = part[quoted & 1 == 0]
        opening = (outside == ord("[")) | (outside == ord("{"))
        closing = (outside == ord("]")) | (outside == ord("}"))
        levels = depth + np.cumsum(opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int32)
        values += int(np.count_nonzero(outside == ord(",")))
        containers += int(np.count_nonzero(opening))
        if len(levels):
            depth = int(levels[-1])
            if levels.max() > MAX_DEPTH:
                raise CheckError(f"{what}: nested deeper than {MAX_DEPTH} levels")
        if values > MAX_VALUES or containers > MAX_CONTAINERS:
            raise CheckError(f"{what}: more than {MAX_VALUES:,} values or {MAX_CONTAINERS:,} lists and objects")
