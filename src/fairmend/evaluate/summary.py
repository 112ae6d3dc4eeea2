"""The summary at the top of a report: the headline, what is proven or was examined, for whom, and what is not shown.

The sentences about what is proven come from `fairmend.prove.claims`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairmend.auditing.figures import ScoreFigures
from fairmend.base.text import at_most_percent, capitalized, count, listed, number, percent, score_difference
from fairmend.evaluate.document import AuditDocument, Document, FeatureGroups, QuantifyDocument, RepairDocument
from fairmend.network import DEFAULT_THRESHOLD
from fairmend.prove.claims import Guarantee, ProvenShares, UnequalCount
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.repairing.options import Policy
    from fairmend.repairing.result import RepairResult
    from fairmend.repairing.selection import Candidate


# The choice that auto made: the policy, the recipes not run, and what may help after a collapse


_LARGE = 10.0
"""Inputs beyond this are not scaled: standardized values hardly ever reach it."""


def describe_policy(policy: Policy, measure: str = "balanced accuracy") -> str:
    """Return how the policy selects a candidate, in a sentence or two; `measure` is the accuracy that it looks at."""
    points = f"{number(100 * policy.keep)} point{'' if policy.keep == 0.01 else 's'}"
    first = "or the first of those that are not clearly different"
    if policy.prefer == "accuracy":
        figures = f"{measure} is at most {number(policy.keep)}"
        if measure != "R²":
            figures = f"accuracy and {measure} are at most {points}"
        kept = f"A candidate keeps the model if its {figures} below the original network's."
        most = f"keeps the most {measure}, {first}"
    else:
        kept = (
            "A candidate keeps the model if its agreement with the original network's decisions is at most "
            f"{points} below 100 %."
        )
        most = f"keeps the most of its decisions, {first}"
    if policy.guarantee == "everyone":
        return f"Only a proof for everyone counts. {kept} Of those that do, auto takes the one that {most}."
    if policy.guarantee == "listed":
        return f"A proof for the repair inputs is enough. {kept} Of those that do, auto takes the one that {most}."
    return f"{kept} Of those that do, auto takes those with the strongest guarantee, and of these the one that {most}."


def accuracy_measure(result: RepairResult) -> str:
    """Return what the candidates' ``balanced_accuracy`` is: for a regression network, R²."""
    return "R²" if result.original_accuracy is None else "balanced accuracy"


def was_run(candidate: Candidate) -> bool:
    """Return whether the recipe was run and evaluated."""
    return not candidate.problem.startswith(("not run", "time limit"))


def describe_unrun(reasons: Sequence[str]) -> str:
    """Return how many recipes were not run, and why, in one sentence; empty if all were."""
    if not reasons:
        return ""
    recipes = "1 recipe was" if len(reasons) == 1 else f"{len(reasons)} recipes were"
    return f"{recipes} not run: {'; '.join(dict.fromkeys(reason.removeprefix('not run: ') for reason in reasons))}."


def describe_collapse(result: RepairResult, spec: Spec, calibration_rows: int) -> str:
    """Return that the network collapsed and what would help, in one line."""
    every = "the repaired network, like every proven candidate," if result.candidates else "the repaired network"
    help_ = [f"more calibration rows than {calibration_rows:,} (--calibration-rows)"]
    if any(feature.reach and feature.varies and not feature.protected for feature in spec.features):
        help_.append("smaller tolerances in the spec, or bands")
    if spec.banded:
        help_.append("narrower bands in the spec")
    if spec.links:
        help_.append("fewer links in the spec")
    if unscaled := _unscaled(spec):
        help_.append(f"a network with scaled inputs (not scaled: {listed(unscaled)})")
    if result.policy is None:
        help_.append("method auto")
    elif result.policy.guarantee != "listed":
        help_.append("--guarantee listed, which accepts a proof for the repair inputs")
    return (
        f"Collapsed: {every} lost a class, or agrees with the original hardly more than chance would. A proof of its "
        f"fairness is worth little. What may help: {listed(help_, 'or', most=None)}."
    )


def _unscaled(spec: Spec) -> list[str]:
    numbers = [feature for feature in spec.features if not feature.one_hot and not feature.as_is]
    return [f.name for f in numbers if np.abs(f.scaled(np.array(f.bounds))).max() > _LARGE]


@dataclass(frozen=True)
class Section:
    """A part of the summary: a heading and one sentence, or a few, for each paragraph."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The top of the page. `status` is "good", "bad" or "open"; `tag` is a label of a few words."""

    status: str
    tag: str
    headline: str
    sections: tuple[Section, Section, Section]


def summarize(document: Document) -> Summary:
    """Return the summary of an audit, of a repair or of quantify."""
    if isinstance(document, RepairDocument):
        return _summarize_repair(document)
    if isinstance(document, QuantifyDocument):
        return _summarize_shares(document)
    assert isinstance(document, AuditDocument)
    return _summarize_audit(document)


def gap_widened(before: float | None, after: float | None) -> bool:
    """Return whether a gap between groups grew by more than half a percentage point."""
    return before is not None and after is not None and after - before > 0.005


def _some_gap_widened(before: FeatureGroups, after: FeatureGroups) -> bool:
    names = ("demographic_parity_difference", "equalized_odds_difference", "widest_difference")
    return any(gap_widened(getattr(before, name), getattr(after, name)) for name in names)


# Repairs

_COLLAPSE = "the repair collapsed: the model lost a class, or agrees with the original hardly more than chance would"


def _summarize_repair(repair: RepairDocument) -> Summary:
    similar = repair.similar
    guarantee = Guarantee(
        tuple(repair.blind_features or similar.protected) if repair.blind else (),
        tuple(similar.protected),
        similar.tolerances,
        repair.proven_repair_inputs,
        repair.repair_inputs,
        repair.precision if repair.proof_covers_inference else "real",
        linked=tuple(similar.linked),
        claim=repair.claim,
        threshold=repair.threshold,
        bands=tuple(similar.bands),
        by_classes=repair.by_classes is not None,
        classes=tuple(repair.by_classes or ()),
    )
    left = repair.after.repair_inputs
    unequal = UnequalCount(left.count, repair.repair_inputs, left.exact)
    status = "good" if guarantee.complete else "open" if guarantee.everyone else "bad"
    headline = guarantee.headline(repair.method, unequal)
    if repair.collapsed:
        status, headline = "bad", f"{headline} But {_COLLAPSE}."
    return Summary(
        status,
        guarantee.tag(),
        headline,
        (
            Section("What is proven", guarantee.explanation()),
            Section("For whom", guarantee.coverage()),
            Section("What is not proven", _limits_of_repair(repair, guarantee)),
        ),
    )


def _limits_of_repair(repair: RepairDocument, guarantee: Guarantee) -> tuple[str, ...]:
    limits, left = [], repair.after.data
    if not guarantee.covers_everyone:
        unequal = UnequalCount(left.count, left.total, left.exact)
        share = percent(left.idi_rate, 1 if left.idi_rate >= 0.001 else 2)
        limits.append(f"Other people: of the {count(left.total)} rows of the data, {unequal.still_unequal(share)}.")
    both = list(zip(repair.before.groups, repair.after.groups, strict=True))
    grown = [before.feature for before, after in both if _some_gap_widened(before, after)]
    gaps = f"some gaps for {listed(grown)} have grown (below)" if grown else "the gaps are shown below"
    return (
        *limits,
        _proxies(repair),
        f"Equal outcomes: groups may still have different selection rates; {gaps}. {below_four_fifths(repair)}".rstrip()
        if both
        else "Equal outcomes: groups may still have different scores on average.",
        "Accurate predictions: how well the model still predicts is shown below."
        if repair.outcomes is None
        else "Correct predictions: what the model still gets right is shown below.",
    )


# Audits


def _summarize_audit(audit: AuditDocument) -> Summary:
    status, tag, headline = _audit_headline(audit) if audit.scores is None else _score_headline(audit, audit.scores)
    few = below_four_fifths(audit)
    return Summary(
        status,
        tag,
        headline,
        (
            Section("What was examined", (_examined(audit),)),
            Section("Who was examined", _people(audit)),
            Section(
                "What this audit does not show",
                (
                    "Proof: an audit says nothing about other people. To prove more, run fairmend certify or repair.",
                    _proxies(audit),
                    f"Equal outcomes: selection rates are another question; the gaps are shown below. {few}".rstrip()
                    if audit.scores is None
                    else "Equal outcomes: groups may still have different scores on average.",
                ),
            ),
        ),
    )


def _audit_headline(audit: AuditDocument) -> tuple[str, str, str]:
    """Return the status, the tag and the headline."""
    near = listed(_amounts(audit), "or")
    different = f"{listed(audit.similar.protected, 'or')} were different{_linked(audit)}"
    different += f", or their {near}" if near else ""
    people = "samples of the input space" if audit.sampled else "people"
    prediction = f"a different prediction{_at_threshold(audit)}"
    if audit.count:
        least = "" if audit.exact else "at least "
        rate = percent(audit.idi_rate, 2)
        sentence = (
            f"{least}{count(audit.count)} of {count(audit.total)} {people} ({rate}) would get {prediction} "
            f"if only their {different}."
        )
        return "bad", capitalized(f"{least}{rate} treated unequally"), capitalized(sentence)
    if audit.exact:
        sentence = f"None of the {count(audit.total)} {people} would get {prediction} if only their"
        return "good", "No one treated unequally", f"{sentence} {different}."
    sentence = f"None of the {count(audit.total)} {people} was found to get {prediction} if only their"
    return "open", "No one found", f"{sentence} {different}, but not every possibility could be tried."


def _at_threshold(document: Document) -> str:
    return "" if document.threshold == DEFAULT_THRESHOLD else f" at the threshold {document.threshold_words}"


def _score_headline(audit: AuditDocument, scores: ScoreFigures) -> tuple[str, str, str]:
    """Return the status, the tag and the headline of an audit of scores."""
    total = f"{count(audit.total)} {'samples of the input space' if audit.sampled else 'people'}"
    least = "" if audit.exact else "at least "
    differ = (
        f"similar people whose scores differ by more than {score_difference(scores.delta, scores.on)} ({scores.on})"
    )
    most = score_difference(scores.largest, scores.on)
    largest = f"The largest difference is {'' if audit.method == 'enumerate' else 'at least '}{most}."
    if audit.count:
        rate = percent(audit.idi_rate, 2)
        sentence = capitalized(f"{least}{count(audit.count)} of {total} ({rate}) have {differ}. {largest}")
        return "bad", capitalized(f"{least}{rate} treated unequally"), sentence
    if audit.exact:
        return "good", "No one treated unequally", f"None of the {total} has {differ}. {largest}"
    tried = "but not every possibility could be tried"
    return "open", "No one found", f"None of the {total} was found to have {differ}, {tried}. {largest}"


def _examined(audit: AuditDocument) -> str:
    near = listed(_amounts(audit))
    values = f"{listed(audit.similar.protected)}{_linked(audit)}{f', with changes of {near},' if near else ''}"
    who = "sample" if audit.sampled else "person"
    scores = f"{count(audit.evaluations)} scores"
    if audit.method == "enumerate":
        return f"Every value of {values} was compared for each {who}: {scores}."
    tried = f"Random values of {values} were tried for each {who}: {scores}."
    if audit.method == "branch":
        rest = f" {count(audit.unknown)} could not be decided." if audit.unknown else ""
        return f"{tried} Where they show nothing, bounds over all values prove it, or a search finds a value.{rest}"
    return f"{tried} Anyone for whom nothing was found may still be treated unequally."


def _people(audit: AuditDocument) -> tuple[str, ...]:
    if not audit.sampled:
        return (f"The {count(audit.total)} people in the data.",)
    uniform = "Uniform samples of all inputs that the spec allows, whether they are likely or not."
    if audit.interval is None or (not audit.exact and not audit.count):
        return (uniform,)
    low, high = (percent(end, 2) for end in audit.interval)
    between = f"between {low} and {high}" if audit.exact else f"at least {low}"
    return (uniform, f"Of the whole input space, {between} is treated unequally (95 % interval).")


def below_four_fifths(document: AuditDocument | RepairDocument) -> str:
    """Return a sentence about the features whose groups have an impact ratio below four fifths, or nothing."""
    tables = [] if document.outcomes is None else document.outcomes.tables
    flagged = [t for t in tables if (t.flagged_before if t.flagged_after is None else t.flagged_after)]
    names = list(dict.fromkeys(" × ".join(table.features) for table in flagged))
    return f"By {listed(names)}, a group is selected less than four fifths as often as another." if names else ""


def _proxies(document: Document) -> str:
    return f"Proxies: another feature may stand in for {listed(document.similar.protected, 'or')}."


def _amounts(document: Document) -> list[str]:
    amounts = [f"{name} by up to {number(amount)}" for name, amount in document.similar.tolerances.items()]
    return amounts + [f"{name} within its band" for name in document.similar.bands]


def _linked(document: Document) -> str:
    linked = document.similar.linked
    return f", with {listed(linked)} as the spec links {'it' if len(linked) == 1 else 'them'}" if linked else ""


# Shares of all people


def _summarize_shares(shares: QuantifyDocument) -> Summary:
    similar = shares.similar
    proven = ProvenShares(
        shares.fair,
        shares.unfair,
        shares.undecided,
        tuple(similar.protected),
        bool(similar.tolerances),
        tuple(shares.own),
        shares.claim,
    )
    limits = [
        "How many of your own people are treated unequally: few of all possible people look like them. Pass --data to "
        "count the rows of your data too."
        if shares.rows is None
        else "How many people like those in the data, but not in it, are treated unequally: only the rows are counted.",
        _proxies(shares),
    ]
    if shares.undecided > 0:
        undecided = at_most_percent(shares.undecided)
        limits.insert(0, f"{undecided} of all people: they are undecided. A longer run decides more of them.")
    return Summary(
        "bad" if shares.unfair > 0 else "good" if shares.undecided == 0 else "open",
        proven.tag(),
        proven.headline(),
        (
            Section("What is proven", (proven.explanation(shares.precision),)),
            Section("For whom", (proven.coverage(),)),
            Section("What is not proven", tuple(limits)),
        ),
    )
