"""Build the documents of an audit, of quantify, of certify and of a search from their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmend.auditing.figures import Pair
from fairmend.auditing.result import AuditPair, AuditResult, difference_in_words, records
from fairmend.base.text import short
from fairmend.evaluate.document import (
    AuditDocument,
    CertificateSummary,
    CertifyDocument,
    Page,
    QuantifyDocument,
    RowShares,
    SearchDocument,
    UnequalBox,
    VerdictCounts,
)
from fairmend.evaluate.document_parts import Context, common_parts, taken
from fairmend.evaluate.effects import mean_effects
from fairmend.evaluate.groups import CodedValues, columns_of_rows
from fairmend.evaluate.labelled import LabelledFigures
from fairmend.evaluate.nearest_counterfactuals import nearest_in_audit
from fairmend.evaluate.outcomes import tabulate_groups, tabulate_means, tabulate_outcomes
from fairmend.evaluate.pairs import tabulate_pairs
from fairmend.evaluate.people import People, RowNumbers
from fairmend.evaluate.proxies import proxy_table
from fairmend.evaluate.score_ranges import RangedPeople, tabulate_score_ranges
from fairmend.network import Model
from fairmend.prove.result import CertifyResult, Witness
from fairmend.quantifying.result import QuantifyResult
from fairmend.searching.result import SearchResult
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.out_of_range import regression_warnings, spec_warnings
from fairmend.spec.own_values import OwnValues, imputed_values

# Audit


def audit_warnings(net: Model, spec: Spec, result: AuditResult, labelled: LabelledFigures) -> list[str]:
    """Return the signs that the spec does not describe what the network was trained with.

    Samples of the input space give no such sign.
    """
    known = labelled.utility
    if result.sampled:
        return []
    if spec.regression:
        return [] if known is None else regression_warnings(known.r2, labelled.rows)
    auc = None if known is None else known.auc
    return spec_warnings(result.rows.decide(net), auc, spec.classes, by_chance=labelled.auc_by_chance)


def audit_document(
    net: Model,
    spec: Spec,
    result: AuditResult,
    context: Context,
    *,
    labelled: LabelledFigures,
    rows: RowNumbers | None = None,
    columns: Sequence[tuple[Feature, CodedValues]] = (),
    page: bool = True,
) -> AuditDocument:
    """Return what an audit found, with what only its page needs unless `page` is false.

    `rows` names the people by row and id. `columns` of the data that the model does not read have groups too.
    """
    common = common_parts(net, spec, context, result.condition)
    classes = None if spec.regression else result.rows.decide(net)
    compared, examined = [*columns_of_rows(spec, result.rows), *columns], result.examined
    groups, outcomes = [], None
    if classes is not None:
        groups = tabulate_groups(
            spec, compared, labelled.groups, classes, classes=net.outputs, unfair=result.rows.unequal
        )
    if classes is not None and not result.sampled:
        outcomes = tabulate_outcomes(spec, compared, [classes], common["class_names"])
    return AuditDocument(
        **common,
        **vars(result.figures()),
        scores=None if result.scores is None else result.scores.figures(),
        disparity=result.disparity.figures(),
        labelled_rows=labelled.rows,
        utility=labelled.utility,
        effects=mean_effects([net], spec, examined.X, common["class_names"])[0],
        proxies=[proxy_table(spec, examined.X, examined.rows, column) for column in columns],
        groups=groups,
        mean_outputs=tabulate_means(compared, result.rows.logits) if spec.regression else [],
        outcomes=outcomes,
        pairs=[pair.figures() for pair in result.pairs],
        page=describe_people(net, spec, result, RowNumbers() if rows is None else rows) if page else None,
    )


def describe_people(
    net: Model,
    spec: Spec,
    result: AuditResult,
    numbers: RowNumbers,
    after: Model | None = None,
    ranged: Sequence[RangedPeople] = (),
) -> Page:
    """Return some of the people of an audit in detail, and what a repaired model gives them.

    For a claim about scores, there are no pairs with two predictions. The score ranges are those of `ranged` people,
    before and after a repair, by default of the sample of the audit.
    """
    examined = result.examined
    if result.scores is not None:
        return Page(len(examined.X))
    nearest = nearest_in_audit(net, spec, result)
    pairs = tabulate_pairs(nearest, spec, net, after, total=result.count, exact=result.exact, numbers=numbers)
    ranges = tabulate_score_ranges(spec, *(ranged or [RangedPeople(result.scored_sample(net), examined.unequal)]))
    return Page(len(examined.X), ranges, nearest.decisive_features(), pairs)


# Quantify


def quantify_document(
    net: Model,
    spec: Spec,
    found: QuantifyResult,
    context: Context,
    *,
    boxes: int,
) -> QuantifyDocument:
    """Return the shares of all people, with so many boxes at most."""
    shown = [
        UnequalBox(
            **taken(box, "share of_box decides classes rows"),
            features=dict(box.features),
            positive=dict(box.positive),
            negative=dict(box.negative),
            text=short(box.text, 2_000),
        )
        for box in found.boxes[:boxes]
    ]
    return QuantifyDocument(
        **common_parts(net, spec, context, found.condition),
        **taken(found, "fair unfair undecided leaves seconds sampled samples"),
        precision=net.dtype.name,
        boxes=shown,
        boxes_left_out=len(found.boxes[boxes:]),
        rows=None if found.rows is None else RowShares(**taken(found.rows, "fair unfair undecided total")),
        own=[short(f.name) for f in spec.protected if any(f.name in link.when for link in spec.links)],
        certificate=None,
    )


# Certify and search


def certify_document(
    net: Model,
    people: People,
    result: CertifyResult,
    context: Context,
    certificate: CertificateSummary | None = None,
) -> CertifyDocument:
    """Return the verdicts on people."""
    rows, ids = people.rows.tolist(), people.ids
    return CertifyDocument(
        **common_parts(net, people.spec, context, result.condition),
        **taken(result, "engine runtime seconds unfair_rate reasons"),
        inputs=len(result),
        counts=VerdictCounts(**result.counts),
        rows=rows,
        ids=ids,
        verdicts=[verdict.value for verdict in result.verdicts],
        witnesses=_witnesses(people, result.witnesses, rows, ids),
        certificate=certificate,
    )


def _witnesses(
    people: People, witnesses: Sequence[Witness | None], rows: Sequence[int], ids: Sequence[str | None]
) -> list[Pair | None]:
    """Return the pairs that show unequal treatment, in the values of the data."""
    places = [place for place, witness in enumerate(witnesses) if witness is not None]
    found: list[Pair | None] = [None] * len(witnesses)
    if places:
        own = OwnValues(people.spec, people.frame.iloc[places], people.X.dtype)
        sides = [np.stack([getattr(witnesses[place], side) for place in places]) for side in ("x", "other")]
        values = zip(*(records(people.spec, side.astype(people.X.dtype), own) for side in sides), strict=True)
        for place, (mine, theirs) in zip(places, values, strict=True):
            witness = witnesses[place]
            assert witness is not None
            found[place] = _witness(witness, people, rows[place], ids[place], mine, theirs)
    return found


def _witness(
    witness: Witness,
    people: People,
    row: int,
    person: str | None,
    values: dict[str, Any],
    other_values: dict[str, Any],
) -> Pair:
    """Return the pair of a person and the witness."""
    spec, negative = people.spec, people.negative if witness.classes <= 2 else None
    answers = None
    if witness.answer is not None and witness.other_answer is not None:
        answers = [witness.answer, witness.other_answer]
    names = [
        spec.name_class(answer, witness.classes) if answer or negative is None else negative for answer in answers or ()
    ]
    scores = None if witness.scores is None else list(witness.scores)
    return Pair(
        row=row,
        id=person,
        values=values,
        other_values=other_values,
        answers=answers,
        answer_names=None if answers is None else names,
        scores=scores,
        on=spec.claim.on or "probability",
        output=witness.output,
        gap=None if scores is None else abs(scores[0] - scores[1]),
        difference=difference_in_words(spec, values, other_values),
        tie=witness.tie,
        imputed=imputed_values(spec, values) | imputed_values(spec, other_values),
    )


def search_document(
    net: Model, people: People, result: SearchResult, context: Context, *, local_steps: int, pairs: Sequence[AuditPair]
) -> SearchDocument:
    """Return what a tester found; `pairs` are some of the results."""
    return SearchDocument(
        **common_parts(net, people.spec, context),
        **taken(result, "method count seeds starts calls exact seconds"),
        local_steps=local_steps,
        pairs=[pair.figures() for pair in pairs],
    )
