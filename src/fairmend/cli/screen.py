"""A terminal that shows names from files as they are: they contain no markup, control characters or line breaks.

Each text is one line, and each cell of a table is one; only the lines that the screen wraps itself are more. It wraps
none at a no-break space, which keeps a figure and its unit together: rich would, so it sees another character instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fairmend.base.text import printable

_NO_BREAK, _STAND_IN = "\N{NO-BREAK SPACE}", "\ufdd0"  # the second is no character, so no file has it


class Screen(Console):
    """A console that escapes what cannot be printed, and knows no markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "highlight": False, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a text is one line, whatever the names in it contain."""
        super().print(*(_one_line(thing) if isinstance(thing, Text) else thing for thing in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object, with control characters escaped; those of the screen itself are kept."""
        shown = _hold_together(renderable) if isinstance(renderable, Text) else renderable
        for segment in super().render(shown, options):
            text = segment.text if segment.control else printable(segment.text, keep="\n")
            text = text.replace(_STAND_IN, _NO_BREAK)
            yield segment if text == segment.text else Segment(text, segment.style)


class Rows(Table):
    """A table whose cells and headings are text, without markup, on one line each.

    A word that is wider than its column goes on in the next line: rich would cut it off.
    """

    def add_row(self, *renderables: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*(_cell(cell) for cell in renderables), **options)
        for column in self.columns:
            column.overflow = "fold"

    def add_column(self, header: RenderableType = "", *more: Any, **options: Any) -> None:
        """Add a column."""
        heading = _cell(header)
        super().add_column("" if heading is None else heading, *more, **options)


def _cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return _hold_together(Text(printable(cell)))
    return _hold_together(_one_line(cell)) if isinstance(cell, Text) else cell


def _hold_together(text: Text) -> Text:
    """Return the text with a character at which rich does not break lines, in place of no-break spaces."""
    if _NO_BREAK not in text.plain:
        return text
    held = text.copy()
    held.plain = text.plain.replace(_NO_BREAK, _STAND_IN)
    return held


def _one_line(text: Text) -> Text:
    """Return the text; if something in it has to be escaped, without the styles of its parts."""
    shown = printable(text.plain)
    if shown == text.plain:
        return text
    return Text(shown, style=text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap)
