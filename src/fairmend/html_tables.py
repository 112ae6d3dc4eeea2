"""Small HTML tables: how notebooks show specs, networks and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a table with a title above it and notes below; every text is escaped."""
    head = "".join(f'<th scope="col" style="text-align: left">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    heading_row = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<p><strong>{escape(title)}</strong></p><table>{heading_row}<tbody>{body}</tbody></table>{below}"


def html_pairs(title: str, pairs: Iterable[tuple[str, object]], notes: Iterable[str] = ()) -> str:
    """Return a table of names and values."""
    return html_table(title, (), pairs, notes)
