"""Read a spec from a TOML file, to compare it with that of a certificate."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fairmend_check import json_reader
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.kernel.spec import Spec, read_spec

_MAX_BYTES = 4 * 2**20
_DEEPEST = 50  # parts of a key such as a.b.c: the time to read one grows with the square of their number
# Tokens: what ends a key (a text of several lines, a comment, a sign that is in no key), a dot, and the rest of a key.
_TOKEN = (
    rb"""(?P<end>"{3}[\s\S]*?(?:"{3,5}|\Z)|'{3}[\s\S]*?(?:'{3,5}|\Z)|\#[^\n]*|[^A-Za-z0-9_"'\#. \t-]+)"""
    rb"""|(?P<dot>\.)|[A-Za-z0-9_-]+|"[^"\n]*"?|'[^'\n]*'?|[ \t]+"""
)


def read_spec_file(path: Path) -> Spec:
    """Return the spec in a TOML file."""
    content = json_reader.read_bytes(path, "spec", _MAX_BYTES)
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
