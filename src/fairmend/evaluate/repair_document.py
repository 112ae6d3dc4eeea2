"""Build the document of a repair from the comparison of the networks before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.auditing.disparity import ScoreSummary
from fairmend.auditing.figures import Unequal
from fairmend.base.arrays import Floats, Ints
from fairmend.base.text import short
from fairmend.evaluate.build_document import describe_people
from fairmend.evaluate.compare import RepairComparison
from fairmend.evaluate.document import (
    FeatureEffects,
    LayerChange,
    Losses,
    NetworkFigures,
    Origin,
    PolicySummary,
    RecipeSummary,
    RepairDocument,
    WeightChange,
    WeightChanges,
)
from fairmend.evaluate.document_parts import Context, certificate_summary, common_parts, taken
from fairmend.evaluate.effects import mean_effects
from fairmend.evaluate.groups import GroupColumn
from fairmend.evaluate.outcomes import tabulate_groups, tabulate_means, tabulate_outcomes
from fairmend.evaluate.proxies import proxy_table
from fairmend.evaluate.score_ranges import RangedPeople
from fairmend.evaluate.summary import accuracy_measure, describe_policy, was_run
from fairmend.network import Lookup, Model, Network
from fairmend.prove.fit import model_condition
from fairmend.repairing.result import RepairResult
from fairmend.repairing.selection import Candidate
from fairmend.spec import Spec

_MOST_COLUMNS, _MOST_UNITS = 30, 40


def repair_document(
    original: Model,
    comparison: RepairComparison,
    origin: Origin,
    *,
    title: str,
    command: str | None = None,
    check: Mapping[str, Any] | None = None,
    files: Mapping[str, Path] | None = None,
) -> RepairDocument:
    """Return what a repair did and what is proven about it.

    `command` checks the certificate, `check` is the result of the check before it was written, as plain data, and
    `files` are those that the command writes.
    """
    people, result = comparison.split, comparison.result
    spec, repaired = people.spec, result.network
    label = None if spec.label is None else spec.label.column
    labels = people.frame[label].dropna().unique().tolist() if label in people.frame.columns else ()
    context = Context(origin, title, labels, comparison.warnings, people.out_of_range, files=files or {})
    common = common_parts(original, spec, context, model_condition(repaired) if check is None else check["condition"])
    names = common["class_names"]
    certificate = None
    if result.certificate is not None:
        inputs = result.certificate.count
        certificate = certificate_summary(result.certificate, inputs=inputs, command=command, check=check)
    compared, everyone, outcomes = people.compared_columns(), np.arange(len(people.X_scored)), None
    if not spec.regression:
        classes = [figures.scored.classes for figures in (comparison.before, comparison.after)]
        outcomes = tabulate_outcomes(spec, compared, classes, names)
    scores = _scores(comparison)
    effects = mean_effects((original, repaired), spec, people.X_scored, names)
    before, after = (
        _network_figures(comparison, number, compared, scores, effects[number], original.outputs) for number in (0, 1)
    )
    return RepairDocument(
        **common,
        **taken(result, "method blind everyone collapsed changed_weights total_weights gap margin classes"),
        guarantee=comparison.statement,
        proven=result.proven == result.regions,
        proven_repair_inputs=result.proven,
        repair_inputs=result.regions,
        proof_covers_inference=comparison.covers_inference,
        precision=original.dtype.name,
        blind_features=[short(name) for name in result.blind_features],
        by_classes=[short(each) for each in comparison.guarantee.classes] if result.by_classes else None,
        certificate=certificate,
        repair_rows=None if people.repair is None else people.rows.numbers(people.repair).tolist(),
        calibration_rows=people.rows.numbers(people.calibration).tolist(),
        unlabelled_rows=len(people.unlabelled),
        data_rows=len(people.X),
        scored_rows=len(people.X_scored),
        scored_rows_are_held_out=people.held_out or people.test is not None,
        scored_rows_are_test_data=people.test is not None,
        scored_on=people.describe_scored(),
        before=before,
        after=after,
        proxies=[proxy_table(spec, people.X_scored, everyone, column) for column in people.columns],
        outcomes=outcomes,
        changed_predictions=comparison.changed,
        head_change=result.objective,
        weights=compare_weights(original, repaired, spec),
        policy=_policy(result),
        candidates=[_candidate(candidate) for candidate in result.candidates],
        history=Losses(_finite(result.history.fair), _finite(result.history.task)),
        seconds=dict(result.seconds),
        page=describe_people(original, spec, comparison.before.data, people.rows, repaired, _ranged(comparison)),
    )


def _ranged(comparison: RepairComparison) -> list[RangedPeople]:
    """Return the repair inputs, whose score ranges the page compares."""
    both, by_classes = (comparison.before, comparison.after), (False, comparison.result.by_classes)
    return [RangedPeople(each.inputs, each.repair.rows, known) for each, known in zip(both, by_classes, strict=True)]


def _scores(comparison: RepairComparison) -> list[ScoreSummary]:
    """Return how far the scores of the repair inputs differ, before and after; empty for a claim about classes."""
    before, after = comparison.before.repair_scores, comparison.after.repair_scores
    if before is None or after is None:
        return []
    if comparison.result.everyone:
        # What the network ignores changes no score; an audit sees how sums are rounded in different batches.
        after = replace(after, differences=np.zeros_like(after.differences))
    return [before, after]


def _network_figures(
    comparison: RepairComparison,
    number: int,
    compared: Sequence[GroupColumn],
    scores: Sequence[ScoreSummary],
    effects: list[FeatureEffects],
    outputs: int,
) -> NetworkFigures:
    """Return the figures of one of the two networks; both have the same scale in each histogram."""
    both, spec = (comparison.before, comparison.after), comparison.split.spec
    figures, end = both[number], max(each.disparity.largest for each in both)
    allowed = max([summary.claim.limit for summary in scores], default=0.0)
    score_end = max([allowed, *(summary.largest for summary in scores)])
    repair, data, scored = figures.repair, figures.data, figures.scored
    groups, means = [], []
    if spec.regression:
        means = tabulate_means(compared, scored.logits)
    else:
        groups = tabulate_groups(spec, compared, figures.groups, scored.classes, classes=outputs)
    return NetworkFigures(
        repair_inputs=Unequal(repair.count, len(repair.rows), repair.rate, exact=repair.exact),
        data=Unequal(**taken(data, "count total idi_rate exact")),
        scores=scores[number].figures(score_end) if scores else None,
        largest_difference=None if data.scores is None else data.scores.largest,
        disparity=figures.disparity.figures(end),
        utility=figures.utility,
        effects=effects,
        groups=groups,
        mean_outputs=means,
    )


def _policy(result: RepairResult) -> PolicySummary | None:
    policy = result.policy
    if policy is None:
        return None
    measure = accuracy_measure(result)
    return PolicySummary(
        **asdict(policy),
        original_accuracy=result.original_accuracy,
        original_balanced_accuracy=result.original_balanced_accuracy,
        measure=measure,
        text=describe_policy(policy, measure),
    )


def _candidate(candidate: Candidate) -> RecipeSummary:
    same = (
        "guarantee accuracy balanced_accuracy changed agreement unfair_rate chosen proven collapsed on_frontier fall "
        "fall_of more_unequal"
    )
    recipe = asdict(candidate.recipe).items()
    return RecipeSummary(
        **taken(candidate, same),
        name=short(candidate.recipe.name),
        recipe={name: list(value) if isinstance(value, tuple) else value for name, value in recipe},
        ran=was_run(candidate),
        problem=short(candidate.problem, 500),
        reason=short(candidate.reason, 500),
        blind_features=[short(name) for name in candidate.blind_features],
    )


def _finite(losses: tuple[float, ...]) -> list[float | None]:
    return [float(loss) if np.isfinite(loss) else None for loss in losses]


# Which weights changed: by layer, by input column, and in the head


def compare_weights(before: Model, after: Model, spec: Spec) -> WeightChanges:
    """Compare the weights of two networks of the same shape; of other models there are none to compare."""
    if not isinstance(before, Network) or not isinstance(after, Network):
        return WeightChanges([], [], 0, [], 0)
    columns = _columns(before, after, spec)
    head = _head(before, after)
    return WeightChanges(
        _layers(before, after),
        _most_changed(columns, _MOST_COLUMNS),
        max(0, len(columns) - _MOST_COLUMNS),
        _most_changed(head, _MOST_UNITS),
        max(0, len(head) - _MOST_UNITS),
    )


def _layers(before: Network, after: Network) -> list[LayerChange]:
    layers = []
    for old, new in zip(before.weight_nodes, after.weight_nodes, strict=True):
        was, now = (node.operation.weights.astype(np.float64) for node in (old, new))
        distance = np.abs(now - was)
        table = isinstance(old.operation, Lookup)
        inputs, outputs = old.operation.arrays[0].shape[:: 1 if table else -1]
        changed = int((was != now).sum())
        l1, largest = float(distance.sum()), float(distance.max())
        layers.append(LayerChange(short(old.name), inputs, outputs, changed, len(was), l1, largest, table))
    return layers


def _columns(before: Network, after: Network, spec: Spec) -> list[WeightChange]:
    """Return the l1 norm of the weights that read each input column first."""
    was, now = (_first_weights(net) for net in (before, after))
    protected = np.zeros(spec.width, dtype=np.bool_)
    for feature in spec.protected:
        protected[spec.columns(feature.name)] = True
    names = spec.column_names
    return [
        WeightChange(short(n), *v) for n, *v in zip(names, was.tolist(), now.tolist(), protected.tolist(), strict=True)
    ]


def _first_weights(net: Network) -> Floats:
    """Return the sum of the sizes of all weights that read an input column before any other weight does (inputs,).

    Look-ups count with the spread of their table.
    """
    total = np.zeros(net.inputs)
    passed: list[Ints] = []  # for each number of a node, the input column that it passes on; -1 if it is none
    for node, width in zip(net.nodes, net.widths, strict=True):
        sources, sizes = [passed[source] for source in node.sources], node.operation.weight_sizes
        if sizes is None:
            passed.append(node.operation.follow(sources, width))
        else:
            known = sources[0] >= 0
            np.add.at(total, sources[0][known], sizes[known])
            passed.append(np.full(width, -1))
    return total


def _head(before: Network, after: Network) -> list[WeightChange]:
    """Return the weights and biases of the head, class by class."""
    several = before.outputs > 1
    changes = []
    for output in range(before.outputs):
        who = f"class {output}, " if several else ""
        was, now = (net.head.weight[output].astype(np.float64).tolist() for net in (before, after))
        changes += [
            WeightChange(f"{who}unit {unit + 1}", a, b) for unit, (a, b) in enumerate(zip(was, now, strict=True))
        ]
        if before.head.derived_bias is None:
            changes.append(WeightChange(f"{who}bias", float(before.head.bias[output]), float(after.head.bias[output])))
    return changes


def _most_changed(changes: list[WeightChange], most: int) -> list[WeightChange]:
    """Return at most `most` of them, in their own order: protected columns first, then those that changed most."""
    if len(changes) <= most:
        return changes
    rank = sorted(
        range(len(changes)), key=lambda i: (not changes[i].marked, -abs(changes[i].after - changes[i].before))
    )
    return [changes[i] for i in sorted(rank[:most])]
