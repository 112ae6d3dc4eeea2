"""The report as a model card: Markdown with the head that Hugging Face reads, from the same document as the page."""

from __future__ import annotations

from fairmend.evaluate.summary import summarize
from fairmend.report.markdown import render_markdown
from fairmend.report.report import PagedDocument


def model_card(document: PagedDocument) -> str:
    """Return the card; its head names the model, and its first lines are those of the page."""
    return render_markdown("card.md", doc=document, summary=summarize(document))
