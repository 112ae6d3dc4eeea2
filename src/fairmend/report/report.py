"""A report: its data, the HTML page and the model card drawn from it, and the files that hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_json, write_text
from fairmend.base.text import printable
from fairmend.evaluate.document import (
    AUDIT,
    FORMAT,
    QUANTIFY,
    REPAIR,
    VERSION,
    DisparityFigures,
    Document,
    FeatureGroups,
    OutcomeTable,
    Pair,
    ScoreFigures,
)
from fairmend.report.frontier import GUARANTEES
from fairmend.report.schema import from_plain
from fairmend.report.what_if import what_if_problems
from fairmend.spec.claim import About, as_about

# Read report.json back, and refuse a file from which no page can be drawn.


_STATES = ("one", "two", "open")
_SCORES = ("positive", "own")
_CLAIMED = ("probability", "logit", "output")
_PREFERENCES = ("accuracy", "decisions")
_AGAIN = "Run the command that wrote it again"


def load_report(path: str | PathLike[str]) -> Report:
    """Read a report.json, or the one in a folder that `fairmend repair`, `audit`, `quantify` or `demo` wrote."""
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
        raise FairmendError(f"{file}: cannot read the report's data ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FairmendError(f"{file}: not valid JSON ({error}). {_AGAIN}") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise FairmendError(f"{file}: not the data of a report. Run fairmend repair or fairmend audit again")
    if plain.get("version") != VERSION:
        raise FairmendError(
            f"{file}: has version {plain.get('version')!r:.20}; this fairmend reads version {VERSION}. {_AGAIN}"
        )
    try:
        document = from_plain(Document, plain)
        for problem in _inconsistencies(document):
            raise FairmendError(problem)
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}. {_AGAIN}") from error
    return Report(document)


def _inconsistencies(document: Document) -> Iterator[str]:
    """Yield what the codec cannot find, because each field by itself is valid."""
    present = {kind: getattr(document, kind) is not None for kind in (REPAIR, AUDIT, QUANTIFY)}
    if not present.pop(document.kind, False) or any(present.values()):
        yield f"kind is {document.kind!r:.40}; the file must hold either a repair or an audit or quantify, as it says"
    shares = document.quantify
    if shares is not None and not all(0 <= share <= 1 for share in (shares.fair, shares.unfair, shares.undecided)):
        yield "quantify: a share is not from 0 to 1"
    if len(document.answers) < 2:
        yield "answers: at least two are needed"
    if not 0 < document.threshold < 1:
        yield f"threshold: {document.threshold:g} is not a probability above 0 and below 1"
    ranges = document.ranges
    if ranges.score not in _SCORES:
        yield f"ranges.score: {ranges.score!r:.40} is not one of {', '.join(_SCORES)}"
    if any(entry.state not in _STATES for entry in (*ranges.before, *ranges.after)):
        yield f"ranges: a state is not one of {', '.join(_STATES)}"
    columns, repaired = len(document.pairs.columns), document.kind == REPAIR
    for number, pair in enumerate(document.pairs.rows):
        if not _fits(pair, columns, repaired):
            yield f"pairs.rows[{number}]: its values, answers and scores do not fit the columns"
    for feature in document.groups:
        if not _shares_fit(feature, len(document.answers), repaired):
            yield f"groups of {feature.feature!r:.40}: the shares of classes do not fit the answers"
    for table in [] if document.outcomes is None else document.outcomes.tables:
        if not _outcomes_fit(table, repaired):
            yield f"outcomes of {', '.join(table.features)!r:.40}: the groups do not fit the features or the networks"
    if document.repair is not None and any(
        candidate.proven and candidate.guarantee not in GUARANTEES for candidate in document.repair.candidates
    ):
        yield f"repair.candidates: a guarantee is not one of {'; '.join(GUARANTEES)}"
    for where, scores in _score_figures(document):
        if len(scores.edges) != len(scores.counts) + 1 or not scores.edges[-1] > 0:
            yield f"{where}: the edges and the counts do not fit"
        if scores.on not in _CLAIMED or not 0 < scores.delta < (1 if scores.on == "probability" else math.inf):
            yield f"{where}: no claim about scores has on = {scores.on!r:.40} and delta = {scores.delta:g}"
    for where, disparity in _disparities(document):
        yield from (f"{where}: {problem}" for problem in _disparity_problems(disparity))
    policy = None if document.repair is None else document.repair.policy
    if policy is not None and policy.prefer not in _PREFERENCES:
        yield f"repair.policy.prefer: {policy.prefer!r:.40} is not one of {', '.join(_PREFERENCES)}"
    if document.audit is not None and document.audit.interval is not None and len(document.audit.interval) != 2:
        yield "audit.interval: must hold a lower and an upper end"
    if document.what_if is not None:
        yield from what_if_problems(document.what_if, repaired)


def _disparities(document: Document) -> Iterator[tuple[str, DisparityFigures]]:
    found = {} if document.audit is None else {"audit.disparity": document.audit.disparity}
    if document.repair is not None:
        sides = {"before": document.repair.before, "after": document.repair.after}
        found |= {f"repair.{when}.disparity": figures.disparity for when, figures in sides.items()}
    yield from ((where, disparity) for where, disparity in found.items() if disparity is not None)


def _disparity_problems(disparity: DisparityFigures) -> Iterator[str]:
    if disparity.on not in ("probability", "output"):
        yield f"on = {disparity.on!r:.40} is not one of probability, output"
    if len(disparity.edges) != len(disparity.counts) + 1 or not disparity.edges[-1] > 0:
        yield "the edges and the counts do not fit"
    curve = len(disparity.thresholds) == len(disparity.unequal)
    if not curve or (disparity.threshold is None) != (not disparity.thresholds):
        yield "the thresholds and the shares do not fit"
    elif disparity.threshold is not None and disparity.threshold not in disparity.thresholds:
        yield "the threshold that decides is not one of the thresholds"
    pair = disparity.worst
    if pair is not None and not (len(pair.columns) == len(pair.values) == len(pair.others) and len(pair.scores) == 2):
        yield "the values and scores of the worst pair do not fit its columns"


def _score_figures(document: Document) -> Iterator[tuple[str, ScoreFigures]]:
    found = {
        "audit.scores": None if document.audit is None else document.audit.scores,
        "repair.scores_before": None if document.repair is None else document.repair.scores_before,
        "repair.scores_after": None if document.repair is None else document.repair.scores_after,
    }
    yield from ((where, scores) for where, scores in found.items() if scores is not None)


def _outcomes_fit(table: OutcomeTable, repaired: bool) -> bool:
    """Return whether every group has a value of each feature, and figures of each network."""
    return (table.flagged_after is not None) == repaired and all(
        len(group.values) == len(table.features) and (group.after is not None) == repaired for group in table.groups
    )


def _shares_fit(feature: FeatureGroups, answers: int, repaired: bool) -> bool:
    """Return whether every group has the shares of the same classes."""
    before = [len(group.classes_before) for group in feature.groups]
    after = [len(group.classes_after) for group in feature.groups]
    same = len(set(before)) <= 1 and max(before, default=0) <= answers
    return same and after == (before if repaired else [0] * len(before))


def _fits(pair: Pair, columns: int, repaired: bool) -> bool:
    twos: list[list[int] | list[float]] = [pair.answers, pair.scores]
    if repaired:
        twos += [pair.answers_after or [], pair.scores_after or []]
    both = all(len(two) == 2 for two in twos) and min(pair.answers) >= 0
    return both and len(pair.values) == len(pair.others) == columns


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
