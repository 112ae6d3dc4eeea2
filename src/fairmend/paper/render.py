"""Show tables in the terminal, and write them as CSV, as Markdown and as one HTML page with the figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fairmend.base.files import write_atomically
from fairmend.paper.tables import Table

_STYLES = {"good": "green", "fair": "yellow", "bad": "red", "best": "bold"}
_CSS = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:.6rem 0 2rem;font-size:13px;display:block;overflow-x:auto}
th,td{border:1px solid #d0d7de;padding:.25rem .5rem;text-align:right;white-space:nowrap}th:first-child{text-align:left}
.good{background:#dafbe1}.fair{background:#fff1d6}.bad{background:#ffdcd7}.best{font-weight:700}.note{color:#59636e}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#3d444d}
.good{background:#12361f}.fair{background:#3d2f0b}.bad{background:#4a1a17}.note{color:#9198a1}}
"""


def show_tables(screen: Console, tables: Sequence[Table]) -> None:
    """Print tables."""
    for table in tables:
        shown = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.header):
            shown.add_column(heading, justify="left" if number == 0 else "right")
        for name, entries in table.rows.items():
            shown.add_row(name, *(Text(str(entry), style=_STYLES.get(entry.shade, "")) for entry in entries))
        screen.print(shown)


def write_tables(folder: Path, tables: Sequence[Table], figures: Sequence[tuple[str, str]] = ()) -> list[Path]:
    """Write tables.csv, tables.md, tables.html and one file per figure; `figures` are titles and SVG texts."""
    written = {"tables.csv": _csv(tables), "tables.md": _markdown(tables), "tables.html": _html(tables, figures)}
    written |= {f"{title.replace(' ', '-').replace(',', '')}.svg": svg + "\n" for title, svg in figures}
    for name, text in written.items():
        write_atomically(folder / name, text.encode("utf-8"))
    return [folder / name for name in written]


def _csv(tables: Sequence[Table]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["table", "title", "row", "column", "ours", "paper"])
    for table in tables:
        for row, entries in table.rows.items():
            for column, entry in zip(table.header[1:], entries, strict=True):
                writer.writerow([table.name, table.title, row, column, entry.word or entry.ours, entry.paper])
    return out.getvalue()


def _markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        lines = [f"### {table.title}", "", f"| {' | '.join(table.header)} |", f"|{'---|' * len(table.header)}"]
        for name, entries in table.rows.items():
            cells = (f"**{entry}**" if entry.shade == "best" else str(entry) for entry in entries)
            lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join([*lines, "", table.note]).rstrip() + "\n")
    return "\n".join(parts)


def _html(tables: Sequence[Table], figures: Sequence[tuple[str, str]]) -> str:
    parts = [
        f"<!doctype html><meta charset=utf-8><title>fairmend bench</title><style>{_CSS}</style><h1>fairmend bench</h1>"
    ]
    for table in tables:
        head = "".join(f"<th>{escape(heading)}</th>" for heading in table.header)
        body = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(f'<td class="{entry.shade}">{escape(str(entry))}</td>' for entry in entries)
            + "</tr>"
            for name, entries in table.rows.items()
        )
        parts.append(f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{body}</table>")
        parts.append(f'<p class="note">{escape(table.note)}</p>')
    parts += [f"<h2>{escape(title)}</h2>{svg}" for title, svg in figures]
    return "\n".join(parts) + "\n"
