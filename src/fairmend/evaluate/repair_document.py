"""The report's document of a repair, from the comparison that `fairmend repair` shows."""

from __future__ import annotations

import numpy as np

from fairmend._version import __version__
from fairmend.evaluate.compare import Measurement, RepairComparison
from fairmend.evaluate.document import (
    FORMAT,
    REPAIR,
    VERSION,
    CandidateNote,
    Document,
    GroupFeature,
    Measured,
    Origin,
    Ranges,
    Repair,
)
from fairmend.evaluate.flips import evenly, find_twins
from fairmend.evaluate.group_gaps import group_features
from fairmend.evaluate.groups import protected_values
from fairmend.evaluate.pairs import pairs_of
from fairmend.evaluate.score_ranges import by_score, score_kind, spans
from fairmend.evaluate.shared import answer_words, similar
from fairmend.evaluate.weight_changes import weight_changes
from fairmend.network import Network
from fairmend.repair.selection import Candidate
from fairmend.text import short

MOST_SPANS = 240
MOST_STEPS = 400


def repair_document(
    original: Network, comparison: RepairComparison, origin: Origin, *, title: str, check: str | None = None
) -> Document:
    """Return everything the report says; `check` is the command that checks the certificate."""
    people, result = comparison.split, comparison.result
    spec = people.spec
    unequal = comparison.before.data
    rows = np.flatnonzero(unequal.rows)
    twins = find_twins(original, spec, people.X, rows, unequal.other[rows])
    return Document(
        FORMAT,
        VERSION,
        REPAIR,
        __version__,
        short(title),
        answer_words(spec, original, people.frame),
        origin,
        similar(spec, exact=unequal.exact and comparison.after.data.exact),
        _groups(original, comparison),
        pairs_of(twins, spec, unequal.count, unequal.exact, original, result.network),
        twins.flips(),
        _ranges(original, comparison),
        [short(warning, 2_000) for warning in comparison.warnings[:50]],
        repair=_repair(original, comparison, check),
    )


def _repair(original: Network, comparison: RepairComparison, check: str | None) -> Repair:
    people, result = comparison.split, comparison.result
    return Repair(
        method=result.method,
        claim=short(comparison.claim, 4_000),
        beyond=short(comparison.beyond, 4_000),
        certified=None if result.certificate is None else short(result.certificate.claim, 4_000),
        blind=result.blind,
        strict=all(f.protected or not f.varies for f in people.spec.features),
        proven=result.proven,
        inputs=result.regions,
        covers_inference=bool(result.proven and result.proof.covers_inference[result.proof.holds].all()),
        precision=original.dtype.name,
        data_rows=len(people.X),
        scored_rows=len(people.scored),
        held_out=people.held_out,
        before=_measured(comparison.before),
        after=_measured(comparison.after),
        changed_predictions=comparison.changed,
        changed_weights=result.changed_weights,
        total_weights=result.total_weights,
        head_change=result.objective,
        margin=result.margin,
        gap=result.gap,
        seconds=dict(result.seconds),
        fair_loss=_thinned(result.history.fair),
        task_loss=_thinned(result.history.task),
        weights=weight_changes(original, result.network, people.spec),
        candidates=[_candidate(candidate) for candidate in result.candidates],
        check=check,
    )


def _measured(figures: Measurement) -> Measured:
    utility = figures.utility
    return Measured(
        figures.repair.count,
        figures.repair.exact,
        figures.data.count,
        figures.data.rate,
        figures.data.exact,
        utility.accuracy,
        utility.balanced_accuracy,
        utility.positive_rate,
        utility.auc,
    )


def _groups(original: Network, comparison: RepairComparison) -> list[GroupFeature]:
    people = comparison.split
    X = people.X[people.scored]
    networks = (original, comparison.result.network)
    return group_features(
        people.spec,
        protected_values(people.spec, X),
        [comparison.before.groups, comparison.after.groups],
        [net.predict(X) for net in networks],
        classes=original.outputs,
    )


def _ranges(original: Network, comparison: RepairComparison) -> Ranges:
    """Of the repair inputs, in order of their score before; of too many an even choice."""
    people, repaired = comparison.split, comparison.result.network
    own = by_score(original, people.X_repair)
    chosen = own[evenly(len(own), MOST_SPANS)]
    X = people.X_repair[chosen]
    before, after = (spans(net, people.spec, X) for net in (original, repaired))
    unequal = [figures.repair.rows[chosen] for figures in (comparison.before, comparison.after)]
    return Ranges(
        score_kind(original),
        len(own),
        before.exact and after.exact,
        before.as_list(original, unequal[0]),
        after.as_list(repaired, unequal[1]),
    )


def _candidate(candidate: Candidate) -> CandidateNote:
    return CandidateNote(
        short(candidate.recipe.name),
        candidate.guarantee,
        candidate.balanced_accuracy,
        candidate.changed,
        candidate.agreement,
        candidate.unfair_rate,
        candidate.chosen,
        candidate.proven,
        short(candidate.reason or candidate.problem, 500),
    )


def _thinned(losses: tuple[float, ...]) -> list[float]:
    return [float(losses[i]) for i in evenly(len(losses), MOST_STEPS) if np.isfinite(losses[i])]
