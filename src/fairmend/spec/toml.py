"""The TOML form of a spec: read and write files, convert its parts to and from tables, and check plain values.

The size of a file and the depth of its keys are limited before it is read, because the time to read it grows with the
square of the depth.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.base.text import as_text, suggest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_Part = TypeVar("_Part")

MOST_BYTES = 4 * 2**20
"""Size of the largest file; the checker reads no larger one."""

_DEEPEST = 50  # parts of a key such as feature.scale.mean
# Tokens: what ends a key (a text of several lines, a comment, a sign that is in no key), a dot, and the rest of a key.
_TOKEN = re.compile(
    rb"""(?P<end>"{3}[\s\S]*?(?:"{3,5}|\Z)|'{3}[\s\S]*?(?:'{3,5}|\Z)|\#[^\n]*|[^A-Za-z0-9_"'\#. \t-]+)"""
    rb"""|(?P<dot>\.)|[A-Za-z0-9_-]+|"[^"\n]*"?|'[^'\n]*'?|[ \t]+"""
)

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = {ord(c): _ESCAPES.get(c, f"\\u{ord(c):04x}") for c in [*map(chr, range(32)), "\x7f", '"', "\\"]}


def read_toml(path: str | os.PathLike[str], what: str = "the spec") -> dict[str, Any]:
    """Return the content of a TOML file as plain data."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FairmendError(f"{path}: {what} is larger than {MOST_BYTES // 2**20} MB. Describe fewer features.")
        if _has_deep_key(content):
            raise FairmendError(f"{path}: not valid as {what}: a key has more than {_DEEPEST} parts")
        return parse_toml(content.decode("utf-8-sig"))
    except OSError as err:
        raise FairmendError(f"{path}: cannot read {what} ({err.strerror}). Check the path.") from err
    except UnicodeDecodeError as err:
        raise FairmendError(f"{path}: {what} is not UTF-8 text. Save it as UTF-8.") from err
    except _InvalidTomlError as err:
        where = f", line {err.line}" if err.line else ""
        advice = ". Correct this line." if err.line else ""
        raise FairmendError(f"{path}{where}: not valid TOML ({err}){advice}") from err


def _has_deep_key(content: bytes, most: int = _DEEPEST) -> bool:
    """Return whether a key of a TOML text has more parts, in one pass over the text.

    Texts are told from keys as TOML does, up to the first error, where its reader stops.
    """
    dots = 0
    for token in _TOKEN.finditer(content.replace(rb"\\", b"__").replace(rb"\"", b"__")):
        if token.lastgroup == "end":
            dots = 0
        elif token.lastgroup == "dot":
            dots += 1
            if dots >= most:
                return True
    return False


class _InvalidTomlError(Exception):
    """Why a text is not TOML, and in which line, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text as plain data."""
    try:
        return _parse(text)
    except RecursionError as err:
        raise _InvalidTomlError("nested too deeply") from err


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as err:
        message, _, place = str(err).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        last = text.count("\n") + 1 if place.startswith("end of document") else None
        raise _InvalidTomlError(message, int(line[1]) if line else last) from err


def write_toml(path: str | os.PathLike[str], plain: Mapping[str, Any]) -> None:
    """Write the tables of a spec; an existing file is replaced completely or not at all."""
    write_atomically(Path(path), toml_bytes(plain))


def toml_bytes(plain: Mapping[str, Any]) -> bytes:
    """Return the bytes that `write_toml` writes; certificates hold their digest, so they must not change."""
    tables = [[f"[{key}]", *toml_lines(plain[key])] for key in ("about", "table", "label", "claim") if key in plain]
    for table in plain["feature"]:
        scale_last = sorted(table.items(), key=lambda item: isinstance(item[1], Mapping))
        tables.append(["[[feature]]", *toml_lines(dict(scale_last))])
    tables += [["[[link]]", *toml_lines(link)] for link in plain.get("link", ())]
    return "\n".join("\n".join([*lines, ""]) for lines in tables).encode("utf-8")


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """Return the keys and values of a table, one line each."""
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    """Return a key of letters, digits, _ and - as it is, and any other in quotes."""
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, Mapping):
        return f"{{{', '.join(toml_lines(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(f"TOML has no {type(value).__name__}")


def from_table(cls: type[_Part], data: Mapping[str, Any], where: str) -> _Part:
    """Return the Feature, Label or Claim in a table; raise an error for an unknown or missing key."""
    if not isinstance(data, Mapping):
        raise FairmendError(f"{where} must be a table of keys and values, got {data!r}")
    keys = fields(cls)  # type: ignore[arg-type]
    require_known_keys(data, [key.name for key in keys], where)
    for f in keys:
        if f.default is MISSING and f.name not in data:
            raise FairmendError(f"{where} has no {f.name}. Add {f.name} = ...")
    return cls(**data)


def require_known_keys(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise an error for an unknown key: it may be a typo."""
    for key in data:
        if key not in known:
            hint = suggest(str(key), known) or f". The known keys are {', '.join(known)}"
            raise FairmendError(f'{where} has an unknown key "{key}"{hint}')


def name_feature(number: int, data: object) -> str:
    """Return how an error message refers to a feature: by its name if it has one, else by its number."""
    name = data.get("name") if isinstance(data, Mapping) else None
    return f'feature "{name}"' if name else f"feature number {number + 1}"


def to_table(part: Any) -> dict[str, Any]:
    """Return a part of a spec, a dataclass, as a table of plain values, without the keys at their defaults."""
    given = {key.name: getattr(part, key.name) for key in fields(part) if getattr(part, key.name) != key.default}
    return {key: _as_plain(value) for key, value in given.items()}


def _as_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def as_number(value: object, what: str) -> float:
    """Return a finite number; raise an error for anything else."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise FairmendError(f"{what} must be a finite number, got {value!r}")


def as_value_text(value: object, what: str) -> str:
    """Return the text by which a value is compared; raise an error if it has none."""
    text = as_text(value) if isinstance(value, str | int | float | np.generic) else ""
    if not text or text == "nan":
        raise FairmendError(f"{what} must be text, a number or true/false, got {value!r}")
    return text


def as_list(value: object) -> list[Any] | None:
    """Return the entries of a list, tuple or array; None for anything else, including text."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else None


def require_one_of(value: object, allowed: Sequence[str], what: str) -> None:
    """Raise an error for a value that is not one of those allowed."""
    if value not in allowed:
        raise FairmendError(f'{what} must be one of {", ".join(allowed)}, got "{value}"{suggest(str(value), allowed)}')
