"""A report: its data, the HTML page and the model card drawn from it, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

from fairmend.base.files import write_json, write_text
from fairmend.base.text import printable
from fairmend.evaluate.document import Document
from fairmend.spec.about import About, as_about

DATA_NAME, PAGE_NAME = "report.json", "report.html"
"""The files that the commands write into their folder."""

CARD_NAME = "report.md"
"""The model card that `fairmend report` writes."""


@dataclass(frozen=True, eq=False)
class Report:
    """A report on a repair or an audit.

    Attributes
    ----------
    document : everything the report says, as data
    """

    document: Document

    def __repr__(self) -> str:
        """Return the kind of the report, its subject and its date."""
        return f"Report({self.document.kind} of {printable(self.document.title)}, {self.document.origin.created})"

    @cached_property
    def html(self) -> str:
        """The page: one self-contained text below 5 MB, which loads nothing."""
        from fairmend.report.page import render

        return render(self.document)

    @cached_property
    def markdown(self) -> str:
        """The model card: the same in Markdown, with the head that Hugging Face reads."""
        from fairmend.report.card import model_card

        return model_card(self.document)

    def with_about(self, about: About | Mapping[str, Any]) -> Report:
        """Return the report with texts about the model; those that are given replace earlier ones."""
        return Report(replace(self.document, about=self.document.about.updated(as_about(about))))

    def without_what_if(self) -> Report:
        """Return the report without the networks and the rows of the data with which the page computes scores."""
        return Report(replace(self.document, what_if=None, what_if_left_out=""))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page. An existing file is replaced as a whole or not at all."""
        write_text(path, self.html)

    def save_card(self, path: str | PathLike[str]) -> None:
        """Write the model card. An existing file is replaced as a whole or not at all."""
        write_text(path, self.markdown)

    def save_data(self, path: str | PathLike[str]) -> None:
        """Write the data as JSON, which `load_report` reads."""
        write_json(path, asdict(self.document))
