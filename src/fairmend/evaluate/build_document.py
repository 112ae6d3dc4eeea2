"""Build the documents of an audit, of quantify, of certify and of a search from their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from fairmend._version import __version__
from fairmend.auditing.result import AuditPair, AuditResult
from fairmend.base.text import listed, number, percent, probabilities, short
from fairmend.evaluate.document import (
    AUDIT,
    FORMAT,
    QUANTIFY,
    VERSION,
    Audit,
    DecisiveFeatures,
    DisparityFigures,
    Document,
    Origin,
    Outcomes,
    PairTable,
    Quantification,
    RowShares,
    ScoreRanges,
    UnequalBox,
)
from fairmend.evaluate.document_parts import class_names, describe_similarity, disparity_figures, score_figures
from fairmend.evaluate.group_rates import tabulate_groups
from fairmend.evaluate.groups import values_of_rows
from fairmend.evaluate.labelled import LabelledFigures
from fairmend.evaluate.nearest_counterfactuals import nearest_in_audit, pick_evenly
from fairmend.evaluate.outcomes import tabulate_outcomes
from fairmend.evaluate.report_pairs import tabulate_pairs
from fairmend.evaluate.row_numbers import RowNumbers
from fairmend.evaluate.score_ranges import compute_score_ranges, order_by_score, score_kind
from fairmend.network import Network
from fairmend.quantifying.result import QuantifyResult
from fairmend.quantifying.unequal_map import QuantifyBox
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, spec_warnings

# The document of an audit's report, from the result of the audit.


_MOST_RANGES = 240
_MOST_WORST = 20


def audit_warnings(net: Network, spec: Spec, result: AuditResult, labelled: LabelledFigures) -> list[str]:
    """Return the signs that the spec does not describe what the network was trained with.

    Samples of the input space give no such sign.
    """
    if result.sampled or (result.scores is not None and result.scores.claim.on == "output"):
        return []
    auc = None if labelled.utility is None else labelled.utility.auc
    return spec_warnings(result.rows.decide(net), auc, spec.classes)


def audit_document(
    net: Network,
    spec: Spec,
    result: AuditResult,
    origin: Origin,
    *,
    title: str,
    labelled: LabelledFigures,
    frame: pd.DataFrame | None = None,
    warnings: Sequence[str] = (),
    rows: RowNumbers | None = None,
    out_of_range: OutOfRange | None = None,
) -> Document:
    """Return everything the report says; `frame` holds rows of the data as the user wrote them.

    `rows` names the people by row and id, and `out_of_range` is what was done to their values.

    If the spec claims scores, it says how far they differ, and nothing about classes.
    """
    examined, numbers = result.examined, RowNumbers() if rows is None else rows
    notes = [] if out_of_range is None or not out_of_range.rows else [short(out_of_range.describe(), 2_000)]
    names = class_names(spec, net, frame)
    if result.scores is not None:
        return Document(
            FORMAT,
            VERSION,
            AUDIT,
            __version__,
            short(title),
            names,
            origin,
            describe_similarity(spec, exact=result.method == "enumerate"),
            [],
            PairTable(result.count, result.exact, [], 0, 0, []),
            DecisiveFeatures(0, result.exact, {}, 0),
            ScoreRanges(score_kind(net), len(examined.X), result.exact, [], []),
            [short(warning, 2_000) for warning in warnings],
            audit=replace(
                _audit(spec, result, labelled, [], disparity_figures(result.disparity, spec, names)),
                scores=score_figures(result.scores, labelled.regression),
            ),
            threshold=spec.threshold,
            first_row=numbers.first,
            notes=notes,
            about=spec.about,
            condition=result.condition,
            outcomes=_outcomes(net, spec, result, names),
        )
    nearest = nearest_in_audit(net, spec, result)
    return Document(
        FORMAT,
        VERSION,
        AUDIT,
        __version__,
        short(title),
        names,
        origin,
        describe_similarity(spec, exact=result.method == "enumerate"),
        tabulate_groups(
            spec,
            values_of_rows(spec, result.rows),
            [labelled.groups] if labelled.groups else [],
            [result.rows.decide(net)],
            classes=net.outputs,
            unfair=result.rows.unequal,
        ),
        tabulate_pairs(nearest, spec, net, total=result.count, exact=result.exact, numbers=numbers),
        nearest.decisive_features(),
        _score_ranges(net, spec, result),
        [short(warning, 2_000) for warning in warnings],
        audit=_audit(spec, result, labelled, names, disparity_figures(result.disparity, spec, names)),
        threshold=spec.threshold,
        first_row=numbers.first,
        notes=notes,
        about=spec.about,
        condition=result.condition,
        outcomes=_outcomes(net, spec, result, names),
    )


def _outcomes(net: Network, spec: Spec, result: AuditResult, names: list[str]) -> Outcomes | None:
    """Return who is selected among all audited people; None for a regression network and for samples."""
    if spec.regression or result.sampled:
        return None
    return tabulate_outcomes(spec, values_of_rows(spec, result.rows), [result.rows.decide(net)], names)


def _audit(
    spec: Spec, result: AuditResult, labelled: LabelledFigures, names: list[str], disparity: DisparityFigures
) -> Audit:
    utility = labelled.utility
    return Audit(
        count=result.count,
        total=result.total,
        rate=result.idi_rate,
        exact=result.exact,
        sampled=result.sampled,
        interval=None if result.interval is None else list(result.interval),
        evaluations=result.evaluations,
        seconds=result.seconds,
        looked_at=len(result.examined.X),
        labelled_rows=labelled.rows,
        accuracy=None if utility is None else utility.accuracy,
        balanced_accuracy=None if utility is None else utility.balanced_accuracy,
        positive_rate=None if utility is None else utility.positive_rate,
        auc=None if utility is None else utility.auc,
        worst=[_describe_pair(pair, names, spec) for pair in result.pairs[:_MOST_WORST]],
        disparity=disparity,
        method=result.method,
        unknown=result.unknown,
    )


def _describe_pair(pair: AuditPair, names: list[str], spec: Spec) -> str:
    """Return both people of a pair with their predictions and scores."""
    claimed = spec.claim.on
    difference = _capitalize(pair.difference)
    if claimed is not None or pair.answers is None:
        own, other = (_describe_score(value, claimed) for value in pair.scores)
        which = "" if pair.output is None else f", output {pair.output}"
        return short(f"{_capitalize(pair.name)}{which}: {own}. {difference}: {other}.", 600)
    first, second = (names[answer] if answer < len(names) else f"class {answer}" for answer in pair.answers)
    two = pair.output is None
    what = "score" if two else f"probability of “{first}”"
    scores = probabilities(pair.scores, spec.threshold if two else None)
    own, other = (f"“{name}” ({what} {value})" for name, value in zip((first, second), scores, strict=True))
    return short(f"{_capitalize(pair.name)}: {own}. {difference}: {other}.", 600)


def _describe_score(value: float, claimed: str | None) -> str:
    if claimed == "probability":
        return f"probability {percent(value, 2)}"
    return f"{claimed or 'score'} {number(value)}"


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _score_ranges(net: Network, spec: Spec, result: AuditResult) -> ScoreRanges:
    """Return the score ranges of some of the inputs, evenly spaced in order of their score."""
    people = result.scored_sample(net)
    order = order_by_score(people)
    chosen = order[pick_evenly(len(order), _MOST_RANGES)]
    found = compute_score_ranges(spec, people.take(chosen))
    listed = found.as_list(result.examined.unequal[chosen])
    return ScoreRanges(score_kind(net), len(order), found.exact, listed, [])


# The document of a report on shares of all people, from the result of `fairmend.quantify`.


def quantify_document(
    net: Network,
    spec: Spec,
    found: QuantifyResult,
    origin: Origin,
    *,
    title: str,
    boxes: int,
    frame: pd.DataFrame | None = None,
    out_of_range: OutOfRange | None = None,
    warnings: Sequence[str] = (),
) -> Document:
    """Return everything the report says, with so many boxes at most; `frame` holds rows of the data."""
    names = class_names(spec, net, frame)
    rows = None
    if found.rows is not None:
        rows = RowShares(found.rows.fair, found.rows.unfair, found.rows.undecided)
    return Document(
        FORMAT,
        VERSION,
        QUANTIFY,
        __version__,
        short(title),
        names,
        origin,
        describe_similarity(spec, exact=True),
        [],
        PairTable(0, True, [], 0, 0, []),
        DecisiveFeatures(0, True, {}, 0),
        ScoreRanges(score_kind(net), 0, True, [], []),
        threshold=spec.threshold,
        warnings=[short(warning, 2_000) for warning in warnings],
        notes=[] if out_of_range is None or not out_of_range.rows else [short(out_of_range.describe(), 2_000)],
        about=spec.about,
        condition=found.condition,
        quantify=Quantification(
            found.fair,
            found.unfair,
            found.undecided,
            net.dtype.name,
            [_box(box, names) for box in found.boxes[:boxes]],
            len(found.boxes[boxes:]),
            found.leaves,
            found.seconds,
            found.sampled,
            found.samples,
            rows,
            [
                short(feature.name)
                for feature in spec.protected
                if any(feature.name in link.when for link in spec.links)
            ],
            spec.claim.delta,
        ),
    )


def _box(box: QuantifyBox, names: Sequence[str]) -> UnequalBox:
    changes = ""
    if box.classes is not None:
        sides = zip(box.classes, (box.positive, box.negative), strict=True)
        changes = "; ".join(f"{_class(label, names)} with {_values(box, values)}" for label, values in sides)
    elif box.decides:  # a claim about scores
        changes = f"higher with {_values(box, box.positive)}; lower with {_values(box, box.negative)}"
    return UnequalBox(short(box.text, 2_000), box.share, box.of_box, box.rows, short(changes, 1_000))


def _class(label: int, names: Sequence[str]) -> str:
    return names[label] if label < len(names) else f"class {label}"


def _values(box: QuantifyBox, values: dict[str, object]) -> str:
    """Return the protected values that differ: "sex Female"."""
    return listed([f"{name} {value}" for name, value in values.items() if name in box.decides])
