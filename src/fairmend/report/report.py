"""A report: its data, the HTML page drawn from it, and the files that hold the two."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike

from fairmend.atomic import write_text
from fairmend.evaluate.document import Document
from fairmend.json_files import write_json
from fairmend.text import printable

__all__ = ["DATA_NAME", "PAGE_NAME", "Report"]

DATA_NAME, PAGE_NAME = "report.json", "report.html"
"""The files that the commands write into their folder."""


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

    def without_what_if(self) -> Report:
        """Return the report without the networks and the rows of the data with which the page computes scores."""
        return Report(replace(self.document, what_if=None, what_if_left_out=""))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page. An existing file is replaced as a whole or not at all."""
        write_text(path, self.html)

    def save_data(self, path: str | PathLike[str]) -> None:
        """Write the data as JSON, which `load_report` reads."""
        write_json(path, asdict(self.document))
