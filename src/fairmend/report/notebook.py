"""A report in a notebook: the page in the output of a cell, one section of it, and the groups as a data frame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import suggest
from fairmend.evaluate.document import FeatureGroups, FeatureMeans, QuantifyDocument, RepairDocument

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.report.report import PagedDocument


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
