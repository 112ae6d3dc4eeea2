"""The TOML form of a spec: read and write files, and convert features and labels to and from tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

import tomlkit
import tomlkit.exceptions

from fairmend.atomic import write_atomically
from fairmend.errors import FairmendError
from fairmend.spec.features import Feature, Label
from fairmend.text import suggest

__all__ = [
    "feature_table",
    "from_table",
    "inline_scale",
    "name_feature",
    "read_toml",
    "require_known_keys",
    "toml_bytes",
    "write_toml",
]

_Part = TypeVar("_Part", Feature, Label)


def read_toml(path: str | os.PathLike[str], what: str = "the spec") -> dict[str, Any]:
    """Return the content of a TOML file as plain data."""
    try:
        data: dict[str, Any] = tomlkit.parse(Path(path).read_bytes().decode("utf-8-sig")).unwrap()
    except OSError as err:
        raise FairmendError(f"{path}: cannot read {what} ({err.strerror}). Check the path.") from err
    except UnicodeDecodeError as err:
        raise FairmendError(f"{path}: {what} is not UTF-8 text. Save it as UTF-8.") from err
    except tomlkit.exceptions.ParseError as err:
        raise FairmendError(f"{path}, line {err.line}: not valid TOML ({err}). Correct this line.") from err
    except RecursionError as err:
        raise FairmendError(f"{path}: not valid TOML (nested too deeply)") from err
    except tomlkit.exceptions.TOMLKitError as err:
        raise FairmendError(f"{path}: not valid TOML ({err})") from err
    return data


def write_toml(path: str | os.PathLike[str], plain: Mapping[str, Any]) -> None:
    """Write the tables of a spec; an existing file is replaced completely or not at all."""
    write_atomically(Path(path), toml_bytes(plain))


def toml_bytes(plain: Mapping[str, Any]) -> bytes:
    """Return the bytes that `write_toml` writes."""
    tables = [inline_scale(table) for table in plain["feature"]]
    return tomlkit.dumps({**plain, "feature": tables}).encode("utf-8")


def inline_scale(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of a feature with its scale on one line."""
    if "scale" not in table:
        return dict(table)
    scale = tomlkit.inline_table()
    scale.update(table["scale"])
    return {**table, "scale": scale}


def from_table(cls: type[_Part], data: Mapping[str, Any], where: str) -> _Part:
    """Return the Feature or Label in a table; raise an error for an unknown or missing key."""
    if not isinstance(data, Mapping):
        raise FairmendError(f"{where} must be a table of keys and values, got {data!r}")
    require_known_keys(data, [f.name for f in fields(cls)], where)
    for f in fields(cls):
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


def feature_table(f: Feature) -> dict[str, Any]:
    """Return a feature as a TOML table, without the keys at their defaults."""
    plain = {key.name: getattr(f, key.name) for key in fields(f) if getattr(f, key.name) != key.default}
    if f.categories:
        plain |= {"categories": list(f.categories), "encoding": f.encoding}
    if f.range:
        plain["range"] = list(f.range)
    if f.scale:
        plain["scale"] = dict(f.scale)
    if f.kind == "integer" and f.tolerance and f.tolerance.is_integer():
        plain["tolerance"] = int(f.tolerance)
    return plain
