"""Compare the keys of JSON documents with those that a page documents."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^##+ (.+?)\s*$")
_ROW = re.compile(r"^\| `([^`]+)` \|(.*)\|\s*$")
_SHAPE = re.compile(r"\]\(#(?:fairmend-)?([a-z-]+)\)")

Key = tuple[str, ...]
_ALL_OF: Key = ("…",)


def paths(value: object, prefix: Key = ()) -> Iterator[Key]:
    """Yield the path of every key, including keys of inner documents; [] stands for the entries of a list."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield (*prefix, key)
            yield from paths(entry, (*prefix, key))
    elif isinstance(value, list):
        for entry in value:
            yield from paths(entry, (*prefix, "[]"))


def documented(page: Path) -> dict[str, set[Key]]:
    """Return the keys in the table of each section.

    ``*`` stands for any key, a link to a section for the keys of that section, and … for all of them at this level.
    """
    tables: dict[str, list[tuple[Key, str | None]]] = {}
    here = ""
    for line in page.read_text().splitlines():
        if heading := _HEADING.match(line):
            here = heading[1].strip("`").removeprefix("fairmend ").lower()
        elif row := _ROW.match(line):
            shape = _SHAPE.search(row[2])
            tables.setdefault(here, []).append((_key(row[1]), shape[1] if shape else None))

    def keys(section: str) -> set[Key]:
        found: set[Key] = set()
        for key, shape in tables[section]:
            if key != _ALL_OF:
                found.add(key if key[-1] != "[]" else key[:-1])
            prefix = () if key == _ALL_OF else key
            found |= {(*prefix, *inner) for inner in keys(shape)} if shape else set()
        return found

    return {section: keys(section) for section in tables}


def schema_paths(schema: dict[str, Any], part: dict[str, Any], prefix: Key = ()) -> Iterator[Key]:
    """Yield the path of every key that a part of a JSON schema allows; * stands for any key."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
    for choice in part.get("anyOf", ()):
        yield from schema_paths(schema, choice, prefix)
    if "items" in part:
        yield from schema_paths(schema, part["items"], (*prefix, "[]"))
    inner = dict(part.get("properties", {}))
    if isinstance(part.get("additionalProperties"), dict):
        inner["*"] = part["additionalProperties"]
    for key, entry in inner.items():
        yield (*prefix, key)
        yield from schema_paths(schema, entry, (*prefix, key))


def fits(pattern: Key, path: Key) -> bool:
    """Return whether a documented key describes a real one."""
    if pattern[-1] == "**":
        return len(path) >= len(pattern) and fits(pattern[:-1], path[: len(pattern) - 1])
    return len(pattern) == len(path) and all(p in ("*", q) for p, q in zip(pattern, path, strict=True))


def _key(text: str) -> Key:
    return tuple(part for word in text.split(".") for part in ((word[:-2], "[]") if word.endswith("[]") else (word,)))
