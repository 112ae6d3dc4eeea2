"""Build dataclasses from plain data, strictly: report.json may have been edited, cut off, or come from elsewhere.

Every field is required unless it has a default, unknown fields and other types are refused, numbers must be finite,
and each error names the path of its field. cattrs was tried in place of this module and was not shorter: by default
it converts (a string becomes a list of characters, "3" becomes 3), so every basic type, list, dict and dataclass
needed a hook, and its errors, which quote Python's own, had to be translated one by one.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairmend.base.errors import FairmendError

_T = TypeVar("_T")
_NAMES = {bool: "true or false", int: "a whole number", str: "a text", list: "a list", dict: "an object"}


def from_plain(kind: type[_T], value: object, where: str = "") -> _T:
    """Return an instance of the dataclass `kind`. Raise FairmendError if a field is missing, unknown or invalid."""
    return _read(kind, value, where)  # type: ignore[no-any-return]


def _read(kind: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(a for a in arguments if a is not types.NoneType), value, where)
    if origin is list:
        entries = _require(value, list, where)
        return [_read(arguments[0], entry, f"{where}[{i}]") for i, entry in enumerate(entries)]
    if origin is dict:
        entries = _require(value, dict, where)
        return {str(key): _read(arguments[1], entry, _join(where, key)) for key, entry in entries.items()}
    if is_dataclass(kind):
        return _dataclass(kind, _require(value, dict, where), where)
    if kind is float:
        return _number(value, where)
    return _require(value, kind, where)


def _dataclass(kind: Any, value: Mapping[str, object], where: str) -> Any:
    known = _fields(kind)
    for name in value:
        if name not in known:
            raise FairmendError(f"{_join(where, name)}: unknown field")
    for name, (entry, _) in known.items():
        if name not in value and entry.default is MISSING and entry.default_factory is MISSING:
            raise FairmendError(f"{_join(where, name)}: the field is missing")
    return kind(**{name: _read(known[name][1], entry, _join(where, name)) for name, entry in value.items()})


@cache
def _fields(kind: Any) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {entry.name: (entry, hints[entry.name]) for entry in fields(kind)}


def _number(value: object, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # a whole number beyond the largest float
            number = math.inf
        if math.isfinite(number):
            return number
    raise FairmendError(f"{where}: {value!r:.60} is not a finite number")


def _require(value: object, kind: Any, where: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FairmendError(f"{where or 'the document'}: {value!r:.60} is not {_NAMES[kind]}")
    return value


def _join(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)
