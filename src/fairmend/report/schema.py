"""The JSON schema of report.json, from the classes of the document. report.schema.json holds it for other programs.

`python -m fairmend.report.schema FILE` writes it.
"""

from __future__ import annotations

import sys
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from fairmend.base.files import write_json
from fairmend.evaluate.document import AUDIT, FORMAT, QUANTIFY, REPAIR, VERSION, Document

SCHEMA_NAME = "report.schema.json"

_BASIC = {bool: "boolean", int: "integer", float: "number", str: "string"}


def document_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    definitions: dict[str, Any] = {}
    _define(Document, definitions)
    whole = definitions.pop(Document.__name__)
    whole["properties"] |= {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "kind": {"enum": [REPAIR, AUDIT, QUANTIFY]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fairmend report",
        **whole,
        "$defs": dict(sorted(definitions.items())),
    }


def _define(kind: Any, definitions: dict[str, Any]) -> None:
    """Add the schema of a dataclass, and of those that it holds."""
    hints = get_type_hints(kind)
    definitions[kind.__name__] = {}  # so that a class that holds itself ends
    definitions[kind.__name__] = {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "required": [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING],
        "properties": {f.name: _schema(hints[f.name], definitions) for f in fields(kind)},
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        given = next(argument for argument in arguments if argument is not types.NoneType)
        return {"anyOf": [_schema(given, definitions), {"type": "null"}]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if is_dataclass(kind):
        if kind.__name__ not in definitions:  # type: ignore[union-attr]
            _define(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}  # type: ignore[union-attr]
    return {"type": _BASIC[kind]}


if __name__ == "__main__":
    write_json(sys.argv[1], document_schema())
