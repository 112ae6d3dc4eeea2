"""Dataclasses from plain data, checked: report.json may have been edited, cut off, or come from elsewhere."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairmend.errors import FairmendError

_T = TypeVar("_T")


def from_plain(kind: type[_T], value: object, where: str = "") -> _T:
    """Return an instance of the dataclass `kind`; what is missing, unknown or of another type is an error."""
    return _read(kind, value, where)  # type: ignore[no-any-return]


def _read(kind: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(a for a in arguments if a is not types.NoneType), value, where)
    if origin is list:
        entries = _must(value, list, where)
        return [_read(arguments[0], entry, f"{where}[{i}]") for i, entry in enumerate(entries)]
    if origin is dict:
        return {
            str(key): _read(arguments[1], entry, _at(where, key)) for key, entry in _must(value, dict, where).items()
        }
    if is_dataclass(kind):
        return _dataclass(kind, _must(value, dict, where), where)
    if kind is float:
        return _number(value, where)
    return _must(value, kind, where)


def _dataclass(kind: Any, value: Mapping[str, object], where: str) -> Any:
    known = _fields(kind)
    for name in value:
        if name not in known:
            raise FairmendError(f"{_at(where, name)}: is unknown")
    for name, (entry, _) in known.items():
        if name not in value and entry.default is MISSING and entry.default_factory is MISSING:
            raise FairmendError(f"{_at(where, name)}: is missing")
    return kind(**{name: _read(known[name][1], entry, _at(where, name)) for name, entry in value.items()})


@cache
def _fields(kind: Any) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {entry.name: (entry, hints[entry.name]) for entry in fields(kind)}


def _number(value: object, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise FairmendError(f"{where}: is {value!r:.60}, not a number")


def _must(value: object, kind: Any, where: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FairmendError(f"{where or 'the document'}: is {value!r:.60}, not {kind.__name__}")
    return value


def _at(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)
