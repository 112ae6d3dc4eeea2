"""A dossier as Markdown and as one HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairmend.base.text import printable
from fairmend.report.dossier.content import MARKS, Chapter, Evidence, Table, chapters
from fairmend.report.markdown import escape, table_lines
from fairmend.report.page import render_static
from fairmend.report.report import PagedDocument

_SUBTITLE = (
    "What the files in this folder show, for four readers. Every sentence and every table is marked. The excerpts of "
    "rules are those that were read for this template; read the text in force before you rely on one."
)


def dossier_page(document: PagedDocument, evidence: Evidence) -> str:
    """Return the page."""
    return render_static(
        "dossier.html",
        "dossier.css",
        doc=document,
        title=_title(document),
        subtitle=_SUBTITLE,
        marks=MARKS,
        chapters=chapters(document, evidence),
        evidence=evidence,
        is_table=lambda part: isinstance(part, Table),
    )


def dossier_markdown(document: PagedDocument, evidence: Evidence) -> str:
    """Return the same in Markdown."""
    lines = [
        f"# Dossier: {escape(_title(document))}",
        "",
        _SUBTITLE,
        "",
        *(f"- **[{mark}]** {escape(text)}" for mark, text in MARKS.items()),
        "",
    ]
    for chapter in chapters(document, evidence):
        lines += _chapter(chapter)
    lines += [*_check(evidence.commands), "## Files", ""]
    lines += table_lines(("File", "What it is", "sha256"), [(f.name, f.what, f.sha256) for f in evidence.files])
    lines += ["What the result is about:", ""]
    lines += table_lines(("Role", "Name", "sha256"), [(f.role, f.name, f.sha256 or "") for f in document.origin.files])
    return "\n".join(lines).rstrip() + "\n"


def _title(document: PagedDocument) -> str:
    return document.about.name or document.title


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield from (f"## {escape(chapter.heading)}", "", f"*{escape(chapter.reader)}*", "")
    for excerpt in chapter.excerpts:
        yield from (
            f"> “{escape(excerpt.text)}”",
            ">",
            f"> {escape(excerpt.citation)} (read at: {escape(excerpt.read_at)})",
            "",
        )
    listing = False
    for part in chapter.parts:
        if isinstance(part, Table):
            if listing:
                yield ""
            yield from (f"**[{part.mark}]** {escape(part.caption)}", "")
            yield from table_lines(part.heads, part.rows)
            listing = False
        else:
            yield f"- **[{part.mark}]** {escape(part.text)}"
            listing = True
    yield ""


def _check(commands: Sequence[str]) -> list[str]:
    # Indented code ends only with the line, whatever the names of the files are.
    return ["## Check it yourself", "", *(f"    {printable(command)}" for command in commands), ""]
