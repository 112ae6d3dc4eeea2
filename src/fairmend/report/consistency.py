"""Whether a document that was read fits together; what `plain` cannot see, because every field by itself is right."""

from __future__ import annotations

from collections.abc import Iterator

from fairmend.errors import FairmendError
from fairmend.evaluate.document import AUDIT, REPAIR, Document, Pair
from fairmend.report.charts import GUARANTEES

STATES = ("one", "two", "open")
SCORES = ("logit", "lead")


def check_consistent(document: Document) -> None:
    """Refuse a document from which no page can be drawn."""
    for problem in _problems(document):
        raise FairmendError(problem)


def _problems(document: Document) -> Iterator[str]:
    present = {REPAIR: document.repair is not None, AUDIT: document.audit is not None}
    if not present.pop(document.kind, False) or any(present.values()):
        yield f"kind is {document.kind!r:.40}, and there must be either a repair or an audit, as it says"
    if len(document.answers) < 2:
        yield "answers: there must be at least two"
    ranges = document.ranges
    if ranges.score not in SCORES:
        yield f"ranges.score: is {ranges.score!r:.40}, not one of {', '.join(SCORES)}"
    if any(span.state not in STATES for span in (*ranges.before, *ranges.after)):
        yield f"ranges: a state is not one of {', '.join(STATES)}"
    columns, repaired = len(document.pairs.columns), document.kind == REPAIR
    for number, pair in enumerate(document.pairs.rows):
        if not _fits(pair, columns, repaired):
            yield f"pairs.rows[{number}]: its values, answers and scores do not fit the columns"
    if document.repair is not None and any(
        candidate.proven and candidate.guarantee not in GUARANTEES for candidate in document.repair.candidates
    ):
        yield f"repair.candidates: a guarantee is not one of {'; '.join(GUARANTEES)}"
    if document.audit is not None and document.audit.interval is not None and len(document.audit.interval) != 2:
        yield "audit.interval: must be a lower and an upper end"


def _fits(pair: Pair, columns: int, repaired: bool) -> bool:
    twos: list[list[int] | list[float]] = [pair.answers, pair.scores]
    if repaired:
        twos += [pair.answers_after or [], pair.scores_after or []]
    both = all(len(two) == 2 for two in twos) and min(pair.answers) >= 0
    return both and len(pair.values) == len(pair.others) == columns
