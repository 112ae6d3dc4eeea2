"""Formulas as MathML at build time: $…$ and $$…$$ show in any browser, with nothing fetched.

Markdown would take MathML at the start of a line for a block, so words without a meaning hold its place until the page
is HTML.
"""

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
_PLACE = re.compile(r"formula(\d+)here")

_formulas: list[str] = []


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Take the formulas out of what is not code."""
    _formulas.clear()
    parts = _CODE.split(markdown)
    return "".join(part if number % 2 else _FORMULA.sub(_placed, part) for number, part in enumerate(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Put them back."""
    return _PLACE.sub(lambda found: _formulas[int(found[1])], html)


def _placed(found: re.Match[str]) -> str:
    display, inline = found.groups()
    _formulas.append(convert(display.strip(), display="block") if display else convert(inline))
    return f"formula{len(_formulas) - 1}here"
