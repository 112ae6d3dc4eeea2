"""Documents as JSON: their schema, and the strict reader of result.json. Both follow from the classes.

result.schema.json holds the schema for other programs; `python -m fairmend.report.schema FILE` writes it.

The reader builds dataclasses from plain data: result.json may have been edited, cut off, or come from elsewhere. Every
field is required, unknown fields and other types are refused, numbers must be finite, and each error names the path of
its field. cattrs was tried in its place and was not shorter: by default it converts (a string becomes a list of
characters, "3" becomes 3), so every basic type, list, dict and dataclass needed a hook, and its errors, which quote
Python's own, had to be translated one by one.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_json
from fairmend.evaluate.document import DOCUMENTS, FORMAT, VERSION, CheckDocument

SCHEMA_NAME = "result.schema.json"

_T = TypeVar("_T")
_NAMES = {bool: "true or false", int: "a whole number", str: "a text", list: "a list", dict: "an object"}
_BASIC = {bool: "boolean", int: "integer", float: "number", str: "string"}


# Read


def from_plain(kind: type[_T], value: object, where: str = "") -> _T:
    """Return an instance of the dataclass `kind`. Raise FairmendError if a field is missing, unknown or invalid."""
    return _read(kind, value, where)  # type: ignore[no-any-return]


def _read(kind: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _plain_value(value, where)
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
    known = _types(kind)
    for name in value:
        if name not in known:
            raise FairmendError(f"{_join(where, name)}: unknown field")
    for name in known:
        if name not in value:
            raise FairmendError(f"{_join(where, name)}: the field is missing")
    found = {name: _read(known[name], entry, _join(where, name)) for name, entry in value.items()}
    try:
        return kind(**found)
    except FairmendError as error:
        raise FairmendError(f"{where}: {error}") from error


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind)}


def _plain_value(value: object, where: str) -> object:
    """Return one of the user's values, or a list of them."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, float):
            _number(entry, where)
        elif entry is not None and not isinstance(entry, str | int):
            raise FairmendError(f"{where}: {value!r:.60} is not a text or a number")
    return value


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


# Schema


def document_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12): one definition for each kind of result, and for their parts.

    What `--json` prints has no `page`, so that no document requires it.
    """
    definitions: dict[str, Any] = {}
    for kind, document in DOCUMENTS.items():
        _define(document, definitions)
        definition = definitions[document.__name__]
        definition["properties"] |= {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "kind": {"const": kind},
        }
        definition["required"] = [name for name in definition["required"] if name != "page"]
    _define(CheckDocument, definitions)
    whole = [*DOCUMENTS.values(), CheckDocument]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FORMAT,
        "oneOf": [{"$ref": f"#/$defs/{document.__name__}"} for document in whole],
        "$defs": dict(sorted(definitions.items())),
    }


def _define(kind: Any, definitions: dict[str, Any]) -> None:
    """Add the schema of a dataclass, and of those that it holds."""
    if kind.__name__ in definitions:
        return
    definitions[kind.__name__] = {}  # so that a class that holds itself ends
    definitions[kind.__name__] = {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "required": list(_types(kind)),
        "properties": {name: _schema(entry, definitions) for name, entry in _types(kind).items()},
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {"type": ["string", "number", "boolean", "array", "null"]}
    if origin in (Union, types.UnionType):
        given = next(argument for argument in arguments if argument is not types.NoneType)
        return {"anyOf": [_schema(given, definitions), {"type": "null"}]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if is_dataclass(kind):
        _define(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}  # type: ignore[union-attr]
    return {"type": _BASIC[kind]}


if __name__ == "__main__":
    write_json(sys.argv[1], document_schema())
