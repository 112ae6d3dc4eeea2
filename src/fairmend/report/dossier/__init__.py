"""The dossier: what a result shows to an examiner, an auditor, an insurer and under the EU AI Act.

`content` says it as data, and `rules` quotes what it goes by; here it becomes Markdown, and one HTML page that loads
nothing.
"""

from __future__ import annotations

from typing import Any

from fairmend.report.dossier.content import MARKS, Evidence, Table, chapters
from fairmend.report.markdown import render_markdown
from fairmend.report.page import render_static
from fairmend.report.report import PagedDocument

_SUBTITLE = (
    "What the files in this folder show, for four readers. Every sentence and every table is marked. The excerpts of "
    "rules are those that were read for this template; read the text in force before you rely on one."
)


def dossier_page(document: PagedDocument, evidence: Evidence) -> str:
    """Return the page."""
    return render_static("dossier.html", "dossier.css", **_content(document, evidence))


def dossier_markdown(document: PagedDocument, evidence: Evidence) -> str:
    """Return the same in Markdown."""
    return render_markdown("dossier.md", **_content(document, evidence))


def _content(document: PagedDocument, evidence: Evidence) -> dict[str, Any]:
    return {
        "doc": document,
        "title": document.about.name or document.title,
        "subtitle": _SUBTITLE,
        "marks": MARKS,
        "chapters": chapters(document, evidence),
        "evidence": evidence,
        "is_table": lambda part: isinstance(part, Table),
    }
