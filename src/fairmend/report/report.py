"""A report: a document, the page and the model card drawn from it, the files that hold them, and notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_json, write_text
from fairmend.base.text import printable, suggest
from fairmend.evaluate.document import (
    AUDIT,
    DOCUMENTS,
    FORMAT,
    QUANTIFY,
    REPAIR,
    VERSION,
    AuditDocument,
    FeatureGroups,
    FeatureMeans,
    QuantifyDocument,
    RepairDocument,
)
from fairmend.spec.label import About, as_about

if TYPE_CHECKING:
    import pandas as pd

DATA_NAME, PAGE_NAME = "result.json", "report.html"
"""The files that the commands write into their folder."""

CARD_NAME = "report.md"
"""The model card that `fairmend report` writes."""

PagedDocument = AuditDocument | RepairDocument | QuantifyDocument
"""The documents that a page is drawn from."""

_AGAIN = "Run the command that wrote it again"


@dataclass(frozen=True, eq=False)
class Report:
    """A report on a repair, on an audit or on shares of all people.

    Attributes
    ----------
    document : everything the report says, as data
    """

    document: PagedDocument

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
        from fairmend.report.markdown import model_card

        return model_card(self.document)

    @property
    def by_group(self) -> pd.DataFrame:
        """The figures of each group: an index of feature and group, so that ``by_group.loc["sex"]`` is one table.

        Selection rates, as `MetricFrame.by_group` of Fairlearn has them, and the share treated unequally; with more
        than two classes the share that gets each, and of a regression network the mean output with its 95 % interval.
        Of a repair, before and after.
        """
        return group_frame(self.document)

    def plot(self, section: str = "groups") -> Plot:
        """Return one section of the page, such as "groups", "effects", "pairs" or "disparity", for a notebook."""
        return plot_section(self.html, section)

    def _repr_html_(self) -> str:
        """Show the page in a notebook."""
        return frame(self.html)

    def with_about(self, about: About | Mapping[str, Any]) -> Report:
        """Return the report with texts about the model; those that are given replace earlier ones."""
        return Report(replace(self.document, about=self.document.about.updated(as_about(about))))

    def without_what_if(self) -> Report:
        """Return the report without the networks and the rows of the data with which the page computes scores."""
        document = self.document
        if isinstance(document, QuantifyDocument) or document.page is None:
            return self
        return Report(replace(document, page=replace(document.page, what_if=None, what_if_left_out="")))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page. An existing file is replaced as a whole or not at all."""
        write_text(path, self.html)

    def save_card(self, path: str | PathLike[str]) -> None:
        """Write the model card. An existing file is replaced as a whole or not at all."""
        write_text(path, self.markdown)

    def save_data(self, path: str | PathLike[str]) -> None:
        """Write the document as JSON, which `load_report` reads."""
        write_json(path, self.document.as_dict())


def load_report(path: str | PathLike[str]) -> Report:
    """Read a result.json, or the one in a folder that `fairmend repair`, `audit`, `quantify` or `demo` wrote."""
    from fairmend.report.consistency import inconsistencies
    from fairmend.report.schema import from_plain

    file = Path(path)
    if file.is_dir():
        file = file / DATA_NAME
        if not file.exists():
            raise FairmendError(
                f"{path}: the folder holds no {DATA_NAME}. Give a folder that fairmend repair, audit, quantify or demo "
                "wrote"
            )
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FairmendError(f"{file}: cannot read the result ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FairmendError(f"{file}: not valid JSON ({error}). {_AGAIN}") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise FairmendError(f"{file}: not a result of fairmend. Run fairmend repair or fairmend audit again")
    if plain.get("version") != VERSION:
        raise FairmendError(
            f"{file}: has version {plain.get('version')!r:.20}; this fairmend reads version {VERSION}. {_AGAIN}"
        )
    if plain.get("kind") not in (REPAIR, AUDIT, QUANTIFY):
        raise FairmendError(
            f"{file}: kind is {plain.get('kind')!r:.40}; only a repair, an audit and quantify have a page"
        )
    try:
        document = from_plain(DOCUMENTS[plain["kind"]], plain)
        assert isinstance(document, PagedDocument)
        for problem in inconsistencies(document):
            raise FairmendError(problem)
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}. {_AGAIN}") from error
    return Report(document)


# In a notebook: the page in the output of a cell, one section of it, and the groups as a data frame


_SECTION = re.compile(r'<section id="([\w-]+)".*?</section>', re.DOTALL)
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_PAGE_HEIGHT, _SECTION_HEIGHT = 800, 480  # pixels


def frame(page: str, height: int = _PAGE_HEIGHT) -> str:
    """Return a page as an element of another: its styles and scripts touch nothing outside of it."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" style="width: 100%; height: {height}px; border: 0" '
        'title="fairmend report"></iframe>'
    )


@dataclass(frozen=True)
class Plot:
    """One section of a report's page; a notebook shows it. ``html`` is a page with this section only."""

    name: str
    html: str

    def _repr_html_(self) -> str:
        """Show the section in a notebook."""
        return frame(self.html, _SECTION_HEIGHT)


def plot_section(page: str, name: str) -> Plot:
    """Return a section of a page; the error for an unknown name lists those that the page has."""
    found = {match[1]: match[0] for match in _SECTION.finditer(page)}
    if name not in found:
        raise FairmendError(f'the report has no section "{name}"{suggest(name, found)}; it has {", ".join(found)}')
    style = "".join(_STYLE.findall(page))
    return Plot(name, f'<!doctype html><html lang="en"><meta charset="utf-8">{style}<main>{found[name]}</main></html>')


def group_frame(document: PagedDocument) -> pd.DataFrame:
    """Return the figures of each group, indexed by feature and group; before and after a repair side by side."""
    import pandas as pd

    if isinstance(document, QuantifyDocument):
        raise FairmendError("a report about shares of all people has no groups. Report on an audit or a repair")
    if not isinstance(document, RepairDocument):
        return _frame(_rows(document.groups, document.mean_outputs, document.class_names))
    before, after = (
        _frame(_rows(side.groups, side.mean_outputs, document.class_names))
        for side in (document.before, document.after)
    )
    own = [name for name in before.columns if name != "rows"]
    joined = before[["rows"]]
    for name in own:
        joined = joined.assign(**{f"{name}_before": before[name], f"{name}_after": after[name]})
    return pd.DataFrame(joined)


def _rows(groups: list[FeatureGroups], means: list[FeatureMeans], classes: list[str]) -> list[dict[str, Any]]:
    """Return the figures of each group; those that do not apply to the model are left out."""
    rows: list[dict[str, Any]] = []
    for feature in groups:
        for group in feature.groups:
            row: dict[str, Any] = {"feature": feature.feature, "group": group.name, "rows": group.rows}
            rates = {f"rate of {name}": rate for name, rate in zip(classes, group.class_rates, strict=False)}
            shares = {"selection_rate": group.selection_rate, "unfair_rate": group.unfair_rate}
            rows.append(row | rates | {name: share for name, share in shares.items() if share is not None})
    for mean in means:
        name = mean.feature if mean.output is None else f"{mean.feature}, output {mean.output}"
        for each in mean.groups:
            row = {"feature": name, "group": each.name, "rows": each.rows}
            rows.append(row | {"mean_output": each.mean, "low": each.low, "high": each.high})
    return rows


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=None if rows else ["feature", "group", "rows"]).set_index(["feature", "group"])
