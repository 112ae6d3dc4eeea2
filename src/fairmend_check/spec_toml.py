"""Read a spec from a TOML file, to compare it with that of a certificate."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fairmend_check import json_reader
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.spec import Spec, read_spec

_MAX_BYTES = 4 * 2**20
_DEEPEST = 50  # parts of a key such as a.b.c: the time to read one grows with the square of their number
_PART = rb"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_DEEP_KEY = rb"(?<![A-Za-z0-9_-])(?:" + _PART + rb"){%d}" % _DEEPEST


def read_spec_file(path: Path) -> Spec:
    """Return the spec in a TOML file."""
    content = json_reader.read_bytes(path, "spec", _MAX_BYTES)
    if re.search(_DEEP_KEY, content):
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
