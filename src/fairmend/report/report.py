"""A report: a document, the HTML page and the model card drawn from it, and the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.auditing.figures import DisparityFigures, Pair, ScoreFigures
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_json, write_text
from fairmend.base.text import printable
from fairmend.evaluate.document import (
    AUDIT,
    DOCUMENTS,
    FORMAT,
    QUANTIFY,
    REPAIR,
    VERSION,
    AuditDocument,
    FeatureGroups,
    NearestPair,
    Outcomes,
    Page,
    QuantifyDocument,
    RepairDocument,
)
from fairmend.report.frontier import GUARANTEES
from fairmend.report.what_if import what_if_problems
from fairmend.spec.label import About, as_about

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.report.notebook import Plot

DATA_NAME, PAGE_NAME = "result.json", "report.html"
"""The files that the commands write into their folder."""

CARD_NAME = "report.md"
"""The model card that `fairmend report` writes."""

PagedDocument = AuditDocument | RepairDocument | QuantifyDocument
"""The documents that a page is drawn from."""

_STATES = ("one", "two", "open")
_SCORES = ("positive", "own")
_PREFERENCES = ("accuracy", "decisions")
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
        from fairmend.report.notebook import group_frame

        return group_frame(self.document)

    def plot(self, section: str = "groups") -> Plot:
        """Return one section of the page, such as "groups", "effects", "pairs" or "disparity", for a notebook."""
        from fairmend.report.notebook import plot_section

        return plot_section(self.html, section)

    def _repr_html_(self) -> str:
        """Show the page in a notebook."""
        from fairmend.report.notebook import frame

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
        for problem in _inconsistencies(document):
            raise FairmendError(problem)
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}. {_AGAIN}") from error
    return Report(document)


def _inconsistencies(document: PagedDocument) -> Iterator[str]:
    """Yield what the reader cannot find, because each field by itself is valid."""
    if len(document.class_names) < 2:
        yield "class_names: at least two are needed"
    if not 0 < document.threshold < 1:
        yield f"threshold: {document.threshold:g} is not a probability above 0 and below 1"
    if isinstance(document, QuantifyDocument):
        if not all(0 <= share <= 1 for share in (document.fair, document.unfair, document.undecided)):
            yield "a share is not from 0 to 1"
        return
    repaired = isinstance(document, RepairDocument)
    if document.page is None:
        yield "page: nothing to draw a page from"
    else:
        yield from _page_problems(document.page, repaired, document.claim.is_score)
    if document.outcomes is not None:
        yield from _outcome_problems(document.outcomes, repaired)
    if isinstance(document, AuditDocument):
        if document.interval is not None and len(document.interval) != 2:
            yield "interval: must hold a lower and an upper end"
        figures = {"": (document.scores, document.disparity, document.groups)}
        pairs = document.pairs
    else:
        yield from _candidate_problems(document)
        sides = {"before.": document.before, "after.": document.after}
        figures = {where: (side.scores, side.disparity, side.groups) for where, side in sides.items()}
        pairs = []
        if [len(f.groups) for f in document.before.groups] != [len(f.groups) for f in document.after.groups]:
            yield "groups: those before and after do not fit"
        if [len(f.values) for f in document.before.effects] != [len(f.values) for f in document.after.effects]:
            yield "effects: those before and after do not fit"
    yield from (f"pairs[{i}]: its answers and scores do not fit" for i, pair in enumerate(pairs) if not _is_two(pair))
    for where, (scores, disparity, groups) in figures.items():
        if (scores is not None) != document.claim.is_score:
            yield f"{where}scores: must be given for a claim about scores, and only then"
        for problem in [] if scores is None else _histogram_problems(scores):
            yield f"{where}scores: {problem}"
        yield from (f"{where}disparity: {problem}" for problem in _disparity_problems(disparity))
        for feature in groups:
            if not _shares_fit(feature, len(document.class_names)):
                yield f"{where}groups of {feature.feature!r:.40}: the shares of classes do not fit the class names"


def _page_problems(page: Page, repaired: bool, score: bool) -> Iterator[str]:
    if any((part is None) != score for part in (page.ranges, page.flips, page.pairs)):
        yield "page: ranges, flips and pairs must be given unless the claim is about scores"
    if page.ranges is not None:
        if page.ranges.score not in _SCORES:
            yield f"page.ranges.score: {page.ranges.score!r:.40} is not one of {', '.join(_SCORES)}"
        if any(entry.state not in _STATES for entry in (*page.ranges.before, *page.ranges.after)):
            yield f"page.ranges: a state is not one of {', '.join(_STATES)}"
    for number, pair in enumerate([] if page.pairs is None else page.pairs.rows):
        if not _fits(pair, len(page.pairs.columns if page.pairs else ()), repaired):
            yield f"page.pairs.rows[{number}]: its values, answers and scores do not fit the columns"
    if page.what_if is not None:
        yield from (f"page.{problem}" for problem in what_if_problems(page.what_if, repaired))


def _candidate_problems(document: RepairDocument) -> Iterator[str]:
    if any(candidate.proven and candidate.guarantee not in GUARANTEES for candidate in document.candidates):
        yield f"candidates: a guarantee is not one of {'; '.join(GUARANTEES)}"
    if document.policy is None:
        yield from ["policy: must be given with candidates"] if document.candidates else []
    elif document.policy.prefer not in _PREFERENCES:
        yield f"policy.prefer: {document.policy.prefer!r:.40} is not one of {', '.join(_PREFERENCES)}"


def _histogram_problems(figures: ScoreFigures | DisparityFigures) -> Iterator[str]:
    if len(figures.edges) != len(figures.counts) + 1 or not figures.edges[-1] > 0:
        yield "the edges and the counts do not fit"


def _disparity_problems(disparity: DisparityFigures) -> Iterator[str]:
    if disparity.on not in ("probability", "output"):
        yield f"on = {disparity.on!r:.40} is not one of probability, output"
    yield from _histogram_problems(disparity)
    thresholds = [entry.threshold for entry in disparity.curve]
    if (disparity.threshold is None) != (not thresholds):
        yield "the threshold and the curve do not fit"
    elif disparity.threshold is not None and disparity.threshold not in thresholds:
        yield "the threshold that decides is not one of the curve's"
    if disparity.on == "probability" and [entry.points for entry in disparity.above] != [1, 5, 10]:
        yield "the shares above 1, 5 and 10 points are needed"
    if disparity.worst is not None and not _is_two(disparity.worst):
        yield "the values and scores of the worst pair do not fit"


def _is_two(pair: Pair) -> bool:
    """Return whether there are two people with a value of each feature, two scores and two answers, if any."""
    two = all(values is None or len(values) == 2 for values in (pair.answers, pair.answer_names))
    return two and pair.scores is not None and len(pair.scores) == 2 and pair.values.keys() == pair.other_values.keys()


def _outcome_problems(outcomes: Outcomes, repaired: bool) -> Iterator[str]:
    """Yield the tables whose groups lack a value of a feature, or figures of a network."""
    for table in outcomes.tables:
        fits = (table.flagged_after is not None) == repaired and all(
            len(group.values) == len(table.features) and (group.after is not None) == repaired for group in table.groups
        )
        if not fits:
            yield f"outcomes of {', '.join(table.features)!r:.40}: the groups do not fit the features or the networks"


def _shares_fit(feature: FeatureGroups, classes: int) -> bool:
    """Return whether every group has the shares of the same classes."""
    counts = [len(group.class_rates) for group in feature.groups]
    return len(set(counts)) <= 1 and max(counts, default=0) <= classes


def _fits(pair: NearestPair, columns: int, repaired: bool) -> bool:
    twos: list[list[int] | list[float]] = [pair.answers, pair.scores]
    if repaired:
        twos += [pair.answers_after or [], pair.scores_after or []]
    both = all(len(two) == 2 for two in twos) and min(pair.answers) >= 0
    return both and len(pair.values) == len(pair.others) == columns
