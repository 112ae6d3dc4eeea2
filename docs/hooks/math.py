"""Formulas as MathML at build time: $…$ and $$…$$ show in any browser, with nothing fetched."""

import re
from typing import Any

from latex2mathml.converter import convert

_FENCE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\$([^$\n]+?)\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert what is not code."""
    parts = _FENCE.split(markdown)
    return "".join(part if number % 2 else _formulas(part) for number, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = _DISPLAY.sub(lambda found: convert(found[1].strip(), display="block"), text)
    return _INLINE.sub(lambda found: convert(found[1]), text)
