"""Build the document of a repair from the comparison of the networks before and after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairmend._version import __version__
from fairmend.base.arrays import Floats, Ints
from fairmend.base.text import short
from fairmend.evaluate.compare import Measurement, RepairComparison
from fairmend.evaluate.document import (
    FORMAT,
    REPAIR,
    VERSION,
    DecisiveFeatures,
    Document,
    FeatureGroups,
    LayerChange,
    NetworkFigures,
    Origin,
    Outcomes,
    PairTable,
    PolicySummary,
    RecipeSummary,
    Repair,
    ScoreRanges,
    WeightChange,
    WeightChanges,
)
from fairmend.evaluate.document_parts import (
    class_names,
    describe_similarity,
    disparity_figures,
    regression_errors,
    score_figures,
)
from fairmend.evaluate.group_rates import tabulate_groups
from fairmend.evaluate.groups import protected_values
from fairmend.evaluate.nearest_counterfactuals import nearest_in_audit, pick_evenly
from fairmend.evaluate.outcomes import tabulate_outcomes
from fairmend.evaluate.report_pairs import tabulate_pairs
from fairmend.evaluate.score_ranges import compute_score_ranges, order_by_score, score_kind
from fairmend.evaluate.summary import accuracy_measure, describe_policy, was_run
from fairmend.network import Network
from fairmend.prove.condition import model_condition
from fairmend.repairing.result import RepairResult
from fairmend.repairing.selection import Candidate
from fairmend.spec import Spec

# Which weights a repair changed: by layer, by input column, and in the head.


_MOST_COLUMNS, _MOST_UNITS = 30, 40


def compare_weights(before: Network, after: Network, spec: Spec) -> WeightChanges:
    """Compare the weights of two networks of the same shape."""
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
    for name, old, new in zip(before.names, before.affines, after.affines, strict=True):
        was, now = (affine.parameters.astype(np.float64) for affine in (old, new))
        distance = np.abs(now - was)
        outputs, inputs = old.weight.shape
        changed = int((was != now).sum())
        l1, largest = float(distance.sum()), float(distance.max())
        layers.append(LayerChange(short(name), inputs, outputs, changed, len(was), l1, largest))
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


MOST_RANGES = 240
_MOST_STEPS = 400


def repair_document(
    original: Network, comparison: RepairComparison, origin: Origin, *, title: str, check: str | None = None
) -> Document:
    """Return everything the report says; `check` is the command that checks the certificate."""
    people, result = comparison.split, comparison.result
    spec = people.spec
    unequal = comparison.before.data
    document = Document(
        FORMAT,
        VERSION,
        REPAIR,
        __version__,
        short(title),
        class_names(spec, original, people.frame),
        origin,
        describe_similarity(spec, exact=unequal.method == comparison.after.data.method == "enumerate"),
        [] if spec.regression else _groups(original, comparison),
        PairTable(unequal.count, unequal.exact, [], 0, 0, []),
        DecisiveFeatures(0, unequal.exact, {}, 0),
        ScoreRanges(score_kind(original), result.regions, unequal.exact, [], []),
        [short(warning, 2_000) for warning in comparison.warnings[:50]],
        repair=_repair(original, comparison, check),
        first_row=people.rows.first,
        notes=[short(people.out_of_range.describe(), 2_000)] if people.out_of_range.rows else [],
        threshold=spec.threshold,
        about=spec.about,
        condition=model_condition(result.network),
        outcomes=None if spec.regression else _outcomes(original, comparison),
    )
    if spec.claim.is_score:
        return replace(document, repair=_with_scores(document.repair, comparison))
    nearest = nearest_in_audit(original, spec, unequal)
    return replace(
        document,
        pairs=tabulate_pairs(
            nearest,
            spec,
            original,
            result.network,
            total=unequal.count,
            exact=unequal.exact,
            numbers=people.rows,
        ),
        flips=nearest.decisive_features(),
        ranges=_score_ranges(original, comparison),
    )


def _with_scores(repair: Repair | None, comparison: RepairComparison) -> Repair:
    """Return the repair with the differences of the repair inputs' scores, both on the same scale."""
    before, after = comparison.before.repair_scores, comparison.after.repair_scores
    assert repair is not None
    assert before is not None
    assert after is not None
    if comparison.result.everyone:
        # What the network ignores changes no score; an audit sees how sums are rounded in different batches.
        after = replace(after, differences=np.zeros_like(after.differences))
    end = max(before.largest, after.largest, before.claim.limit)
    return replace(repair, scores_before=score_figures(before, end=end), scores_after=score_figures(after, end=end))


def _repair(original: Network, comparison: RepairComparison, check: str | None) -> Repair:
    people, result = comparison.split, comparison.result
    names = class_names(people.spec, original, people.frame)
    return Repair(
        method=result.method,
        claim=short(comparison.claim, 4_000),
        beyond=short(comparison.beyond, 4_000),
        certified=None if result.certificate is None else short(result.certificate.claim, 4_000),
        blind=result.blind,
        strict=all(f.protected for f in people.spec.varying),
        proven=result.proven,
        inputs=result.regions,
        covers_inference=bool(result.proven and result.proof.covers_inference[result.proof.holds].all()),
        precision=original.dtype.name,
        data_rows=len(people.X),
        scored_rows=len(people.X_scored),
        held_out=people.held_out or people.test is not None,
        test_data=people.test is not None,
        before=_network_figures(comparison, comparison.before, names),
        after=_network_figures(comparison, comparison.after, names),
        changed_predictions=comparison.changed,
        changed_weights=result.changed_weights,
        total_weights=result.total_weights,
        head_change=result.objective,
        margin=result.margin,
        gap=result.gap,
        seconds=dict(result.seconds),
        fair_loss=_thinned(result.history.fair),
        task_loss=_thinned(result.history.task),
        weights=compare_weights(original, result.network, people.spec),
        candidates=[_candidate(candidate) for candidate in result.candidates],
        check=check,
        blind_features=[short(name) for name in result.blind_features],
        collapsed=result.collapsed,
        unlabelled_rows=len(people.unlabelled),
        policy=_policy(result),
    )


def _policy(result: RepairResult) -> PolicySummary | None:
    policy = result.policy
    if policy is None:
        return None
    original = result.original_balanced_accuracy if policy.prefer == "accuracy" else 1.0
    measure = accuracy_measure(result)
    words = describe_policy(policy, measure)
    return PolicySummary(policy.keep, policy.guarantee, policy.prefer, original, words, measure)


def _network_figures(comparison: RepairComparison, figures: Measurement, names: list[str]) -> NetworkFigures:
    utility = figures.utility
    end = max(comparison.before.disparity.largest, comparison.after.disparity.largest)
    return NetworkFigures(
        figures.repair.count,
        figures.repair.exact,
        figures.data.count,
        figures.data.idi_rate,
        figures.data.exact,
        None if utility is None else utility.accuracy,
        None if utility is None else utility.balanced_accuracy,
        None if utility is None else utility.positive_rate,
        None if utility is None else utility.auc,
        regression_errors(figures.regression),
        disparity_figures(figures.disparity, comparison.split.spec, names, end),
    )


def _groups(original: Network, comparison: RepairComparison) -> list[FeatureGroups]:
    spec, before, after = comparison.split.spec, comparison.before, comparison.after
    return tabulate_groups(
        spec,
        protected_values(spec, before.scored.X),
        [before.groups, after.groups],
        [before.scored.classes, after.scored.classes],
        classes=original.outputs,
    )


def _outcomes(original: Network, comparison: RepairComparison) -> Outcomes:
    """Return whom both networks select among the same people as in the figures of groups."""
    people, scored = comparison.split, (comparison.before.scored, comparison.after.scored)
    names = class_names(people.spec, original, people.frame)
    values = protected_values(people.spec, scored[0].X)
    return tabulate_outcomes(people.spec, values, [each.classes for each in scored], names)


def _score_ranges(original: Network, comparison: RepairComparison) -> ScoreRanges:
    """Return the score ranges of an even choice of the repair inputs, in order of their score before."""
    both = comparison.before, comparison.after
    own = order_by_score(comparison.before.inputs)
    chosen = own[pick_evenly(len(own), MOST_RANGES)]
    before, after = (compute_score_ranges(comparison.split.spec, figures.inputs.take(chosen)) for figures in both)
    unequal = [figures.repair.rows[chosen] for figures in both]
    return ScoreRanges(
        score_kind(original),
        len(own),
        before.exact and after.exact,
        before.as_list(unequal[0]),
        after.as_list(unequal[1]),
    )


def _candidate(candidate: Candidate) -> RecipeSummary:
    return RecipeSummary(
        short(candidate.recipe.name),
        candidate.guarantee,
        candidate.balanced_accuracy,
        candidate.changed,
        candidate.agreement,
        candidate.unfair_rate,
        candidate.chosen,
        candidate.proven,
        short((candidate.reason or candidate.problem).removeprefix("not run: "), 500),
        candidate.accuracy,
        [short(name) for name in candidate.blind_features],
        candidate.collapsed,
        candidate.on_frontier,
        was_run(candidate),
    )


def _thinned(losses: tuple[float, ...]) -> list[float]:
    return [float(losses[i]) for i in pick_evenly(len(losses), _MOST_STEPS) if np.isfinite(losses[i])]
