"""A spec as TOML: read from a file, and written as fairmend writes it, which is what spec.sha256 is the digest of."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.spec import Feature, Spec, read_spec

__all__ = ["read_spec_file", "spec_digest"]

_MAX_BYTES = 4 * 2**20
_DEEPEST = 50  # parts of a key such as a.b.c: the time to read one grows with the square of their number
# Tokens: what ends a key (a text of several lines, a comment, a sign that is in no key), a dot, and the rest of a key.
_TOKEN = (
    rb"""(?P<end>"{3}[\s\S]*?(?:"{3,5}|\Z)|'{3}[\s\S]*?(?:'{3,5}|\Z)|\#[^\n]*|[^A-Za-z0-9_"'\#. \t-]+)"""
    rb"""|(?P<dot>\.)|[A-Za-z0-9_-]+|"[^"\n]*"?|'[^'\n]*'?|[ \t]+"""
)
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = {ord(c): _ESCAPES.get(c, f"\\u{ord(c):04x}") for c in [*map(chr, range(32)), "\x7f", '"', "\\"]}


def read_spec_file(path: Path, expected: str) -> Spec | None:
    """Return the spec in a TOML file; None if the sha256 of the file is the expected one."""
    content = json_reader.read_bytes(path, "spec", _MAX_BYTES)
    if hashlib.sha256(content).hexdigest() == expected:
        return None
    if _has_deep_key(content):
        raise CheckError(f"spec {path.name}: a key has more than {_DEEPEST} parts")
    try:
        import tomllib
    except ImportError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise CannotAnswerError(
            f"{path}: Python {version} has no TOML reader, so the spec cannot be compared with that of the "
            "certificate. Run the check with Python 3.11 or later, or without --spec."
        ) from error
    try:
        data = tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CheckError(f"spec {path.name}: not valid TOML ({str(error)[:200]})") from error
    data.pop("about", None)  # names the model for reports, and means nothing
    return read_spec(data, f"spec {path.name}")


def _has_deep_key(content: bytes, most: int = _DEEPEST) -> bool:
    """Return whether a key of a TOML text has more parts, in one pass over the text.

    Texts are told from keys as TOML does, up to the first error, where its reader stops.
    """
    dots = 0
    for token in re.finditer(_TOKEN, content.replace(rb"\\", b"__").replace(rb"\"", b"__")):
        if token.lastgroup == "end":
            dots = 0
        elif token.lastgroup == "dot":
            dots += 1
            if dots >= most:
                return True
    return False


def spec_digest(spec: Spec) -> str:
    """Return the sha256 of the spec as fairmend writes it to a TOML file."""
    tables = [] if spec.id_column is None else [_table("[table]", {"id": spec.id_column})]
    if spec.label:
        keys = [(key.name, getattr(spec.label, key.name), key.default) for key in fields(spec.label)]
        given = {name: value for name, value, default in keys if value != default}
        tables.append(_table("[label]", given | ({"classes": list(spec.label.classes)} if spec.label.classes else {})))
    if spec.claim:
        tables.append(_table("[claim]", {"kind": "score", "delta": spec.claim.delta, "on": spec.claim.on}))
    tables += [_table("[[feature]]", _entries(feature)) for feature in spec.features]
    tables += [_table("[[link]]", link.given) for link in spec.links]
    try:
        return hashlib.sha256("\n".join(tables).encode("utf-8")).hexdigest()
    except UnicodeEncodeError as error:
        raise CheckError("spec.content holds a text that a TOML file cannot hold") from error


def _entries(feature: Feature) -> dict[str, Any]:
    """Return the keys of a feature that are not at their defaults, in the order that fairmend writes them."""
    entries: dict[str, Any] = {"name": feature.name, "kind": feature.kind}
    if feature.categories:
        entries["categories"] = list(feature.categories)
    else:
        entries["range"] = [feature.low, feature.high]
    if feature.one_hot:
        entries["encoding"] = feature.encoding
    if feature.protected:
        entries["protected"] = True
    if feature.tolerance:
        whole = feature.kind == "integer" and feature.tolerance.is_integer()
        entries["tolerance"] = int(feature.tolerance) if whole else feature.tolerance
    if feature.dropped is not None:
        entries["dropped"] = feature.dropped
    if feature.missing is not None:
        entries["missing"] = feature.missing
    if feature.indicates is not None:
        entries["indicates"] = feature.indicates
    if feature.input is not None:
        entries["input"] = feature.input
    if feature.categories and not feature.one_hot:  # fairmend writes the default encoding of categories last
        entries["encoding"] = feature.encoding
    if feature.scale:
        entries["scale"] = dict(feature.scale)
    if feature.names:
        entries["names"] = dict(feature.names)
    return entries


def _table(header: str, entries: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in [header, *_pairs(entries)])


def _pairs(entries: Mapping[str, Any]) -> list[str]:
    return [
        f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else _value(key)} = {_value(value)}"
        for key, value in entries.items()
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(_pairs(value))}}}"
    return str(value)
