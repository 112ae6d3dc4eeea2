"""About: which model a report is about, who owns it, and who approved it. Nothing that is proven depends on it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import shown
from fairmend.spec.toml import read_toml, require_known_keys

_LONGEST = 2_000  # characters of a text


@dataclass(frozen=True)
class About:
    """What the top of a report says about the model; a text that is not given is empty.

    Attributes
    ----------
    name, version : of the model
    owner, contact : who answers for it, and how to reach them
    purpose : what it decides, and about whom
    approved_by, date : the sign-off: who approved the model, and when
    """

    name: str = ""
    version: str = ""
    owner: str = ""
    purpose: str = ""
    contact: str = ""
    approved_by: str = ""
    date: str = ""

    def updated(self, other: About) -> About:
        """Return these texts, replaced by those that `other` gives."""
        return replace(self, **other.to_dict())

    def to_dict(self) -> dict[str, str]:
        """Return the texts that are given."""
        return {key: text for key, text in asdict(self).items() if text}


def as_about(given: About | Mapping[str, Any] | None, where: str = "[about]") -> About:
    """Return a table as `About`; refuse unknown keys and values that are not texts."""
    if given is None or isinstance(given, About):
        return given or About()
    if not isinstance(given, Mapping):
        raise FairmendError(f'{where} must be a table of keys and values, such as owner = "Credit risk", got {given!r}')
    require_known_keys(given, [key.name for key in fields(About)], where)
    return About(**{key: _as_text(value, f"{where}: {key}") for key, value in given.items()})


def load_about(path: str | os.PathLike[str]) -> About:
    """Return the file of --about: the keys of [about] at its top level, or in a table [about]."""
    data = read_toml(path, "the file of --about")
    tables = data.get("about")
    nested = isinstance(tables, Mapping) and len(data) == 1
    try:
        return as_about(tables if nested else data, "the file")
    except FairmendError as error:
        raise FairmendError(f"{path}: {error}") from error


def _as_text(value: object, where: str) -> str:
    """Return a text; a date may also be written as TOML writes one, without quotes."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, str):
        raise FairmendError(f'{where} must be a text, got {value!r}. Write "{shown(value)}", in quotes.')
    if len(value) > _LONGEST:
        raise FairmendError(f"{where} has {len(value):,} characters. Write at most {_LONGEST:,}.")
    return value.strip()
