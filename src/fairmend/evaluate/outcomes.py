"""Tables of groups and intersections: selection rates, impact ratios and mean outputs, however equal treatment is.

The figures are those that New York City's rules ask of bias audits of tools that select people (Local Law 144 of 2021;
Rules of the City of New York, title 6, section 5-301 (b)): counts, selection rates and impact ratios, each a selection
rate divided by the highest one. The scoring rates of section 5-301 (c), for tools that score people, are not computed.
An auditor may leave categories below 2 % of the data out of the impact ratios, if the summary justifies it and shows
size and rate (section 5-301 (d)). The four-fifths rule is that of the Uniform Guidelines on Employee Selection
Procedures (29 CFR 1607.4 D): an impact ratio below 0.8 is generally regarded as evidence of adverse impact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np

from fairmend.auditing.result import NORMAL_QUANTILE, wilson_interval
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints, chunks, count_codes, count_together, empty_array
from fairmend.base.metrics import Classes
from fairmend.base.text import short
from fairmend.evaluate.document import (
    FeatureGroups,
    FeatureMeans,
    GroupMean,
    GroupRates,
    MeanEffect,
    Outcomes,
    OutcomeTable,
    Selection,
    SelectionRates,
)
from fairmend.evaluate.document_parts import favourable_class
from fairmend.evaluate.groups import SMALL, Codes, GroupColumn, GroupMetrics, class_shares, grouped
from fairmend.spec import Spec

# The selection rate of each group, and the gaps between groups, as the report shows them.


_MOST_FEATURES, _MOST_RATES, _MOST_RATED_CLASSES = 12, 12, 12


def tabulate_groups(
    spec: Spec,
    columns: Sequence[GroupColumn],
    metrics: Sequence[GroupMetrics],
    predictions: Classes,
    *,
    classes: int,
    unfair: Bools | None = None,
) -> list[FeatureGroups]:
    """Return the groups of each column, of at most twelve.

    Parameters
    ----------
    metrics : the gaps by column; empty without labels
    predictions : those of the network (rows,)
    classes : how many outputs the network has; selection rates need one or two
    unfair : which rows are treated unequally (rows,)
    """
    favourable = favourable_class(spec, classes)
    return [
        _feature(column, metrics[number] if metrics else None, predictions, classes, unfair, favourable)
        for number, column in enumerate(columns[:_MOST_FEATURES])
    ]


def _feature(
    column: GroupColumn,
    metrics: GroupMetrics | None,
    predictions: Classes,
    classes: int,
    unfair: Bools | None,
    favourable: int | None,
) -> FeatureGroups:
    names, codes, binned = grouped(*column)
    sizes = count_codes(codes, len(names))

    def share_of(which: Bools | Classes | None) -> list[float | None]:
        if which is None:
            return [None] * len(names)
        return (count_together((codes, len(names)), (which, 2))[:, 1] / sizes).tolist()  # type: ignore[no-any-return]

    selected = share_of(predictions == favourable if classes <= 2 else None)
    by_class: list[list[float]] = [[]] * len(names)
    if classes > 2:
        by_class = class_shares(codes, predictions, len(names), classes)[:, :_MOST_RATED_CLASSES].tolist()
    rows = list(zip(map(short, names), sizes.tolist(), selected, share_of(unfair), by_class, strict=True))
    # Keep the largest groups, in their own order.
    chosen = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[:_MOST_RATES])
    reason = None if metrics is None else metrics.reason
    widest = None if metrics is None else metrics.widest_class
    return FeatureGroups(
        short(column[0].name),
        binned,
        [GroupRates(*rows[i]) for i in chosen],
        len(rows) - len(chosen),
        None if metrics is None else metrics.demographic_parity_difference,
        None if metrics is None else metrics.equalized_odds_difference,
        short(reason, 300) if reason else None,
        None if widest is None else short(widest[0]),
        None if widest is None else widest[1],
        0 if metrics is None else len(metrics.small),
    )


FOUR_FIFTHS = 0.8
"""Impact ratios below are flagged."""

_MOST_TABLES, _MOST_GROUPS, _MOST_CLASSES = 24, 40, 12


def tabulate_outcomes(
    spec: Spec, columns: Sequence[GroupColumn], predictions: Sequence[Classes], answers: Sequence[str]
) -> Outcomes:
    """Return the tables of each column, then of each intersection of two, three, and so on.

    Parameters
    ----------
    predictions : for each network (before, after), its predictions (rows,)
    answers : the names of the classes; the favourable one is a selection, and each of several if none is favourable
    """
    groups = {feature.name: grouped(feature, values)[:2] for feature, values in columns}
    favourable = favourable_class(spec, len(answers))
    classes = list(range(min(len(answers), _MOST_CLASSES))) if favourable is None else [favourable]
    together = (names for size in range(1, len(groups) + 1) for names in combinations(groups, size))
    chosen = list(islice(together, max(1, _MOST_TABLES // len(classes))))
    tables = []
    for names in chosen:
        people, codes = _intersect([groups[name] for name in names])
        counts = [count_together((codes, len(people)), (each, max(2, len(answers)))) for each in predictions]
        for number in classes:
            selected = [each[:, number] for each in counts]
            tables.append(_table(names, answers[number], people, counts[0].sum(axis=1), selected))
    every = (2 ** len(groups) - 1) * (len(answers) if favourable is None else 1)
    return Outcomes(len(predictions[0]), FOUR_FIFTHS, SMALL, tables, every - len(tables))


def _intersect(features: Sequence[tuple[list[str], Codes]]) -> tuple[list[tuple[str, ...]], Codes]:
    """Return the groups that have rows, each by its value of every feature, and the group of each row (rows,)."""
    names, codes = features[0]
    people: list[tuple[str, ...]] = [(name,) for name in names]
    for names, own in features[1:]:
        # Only groups that have rows are numbered, so that the numbers stay small with many features.
        present = count_together((codes, len(people)), (own, len(names))) > 0
        number = (np.cumsum(present) - 1).reshape(present.shape)
        people = [(*people[group], names[value]) for group, value in np.argwhere(present).tolist()]
        before, codes = codes, empty_array(codes.shape, np.min_scalar_type(len(people)))
        for part in chunks(len(codes)):
            codes[part] = number[before[part], own[part]]
    return people, codes


def _table(
    features: Sequence[str], answer: str, people: Sequence[tuple[str, ...]], sizes: Ints, selected: Sequence[Ints]
) -> OutcomeTable:
    """Return the table of one answer; `sizes` (groups,) says how many people there are, `selected` how many get it."""
    small = sizes < SMALL * sizes.sum()
    columns = [_selections(sizes, small, each) for each in selected]
    largest = np.argsort(-sizes, kind="stable")[:_MOST_GROUPS]
    rows = [
        SelectionRates(
            [short(value) for value in people[group]],
            int(sizes[group]),
            bool(small[group]),
            columns[0][group],
            columns[1][group] if len(columns) > 1 else None,
        )
        for group in sorted(largest.tolist())
    ]
    flagged = [sum(entry.flagged for entry in column) for column in columns]
    return OutcomeTable(
        [short(name) for name in features],
        short(answer),
        rows,
        len(people) - len(rows),
        flagged[0],
        flagged[1] if len(flagged) > 1 else None,
    )


def _selections(sizes: Ints, small: Bools, counts: Ints) -> list[Selection]:
    """Return the figures of each group for one network; `counts` (groups,) says how many are selected."""
    rates = counts / sizes
    highest = float(rates[~small].max(initial=0.0))
    found = []
    for count, size, is_small in zip(counts.tolist(), sizes.tolist(), small.tolist(), strict=True):
        rate = count / size
        ratio = None if is_small or highest == 0 else rate / highest
        low, high = wilson_interval(count, size)
        found.append(Selection(count, rate, low, high, ratio, ratio is not None and ratio < FOUR_FIFTHS))
    return found


# The mean output of a regression network for each group, and how far the groups lie apart, with 95 % intervals.
#
# The interval of a mean is mean ± 1.96 s / √n, and that of a difference of two means adds their variances (Welch).


_MOST_MEANS, _MOST_OUTPUTS = 12, 4


def tabulate_means(columns: Sequence[GroupColumn], outputs: FloatArray) -> list[FeatureMeans]:
    """Return the mean outputs (rows, outputs) of the groups of each column."""
    each = outputs.reshape(len(outputs), -1).astype(np.float64)
    several = each.shape[1] > 1
    return [
        _feature_means(column, each[:, number], number if several else None)
        for column in columns[:_MOST_FEATURES]
        for number in range(min(_MOST_OUTPUTS, each.shape[1]))
    ]


def _feature_means(column: GroupColumn, outputs: Floats, number: int | None) -> FeatureMeans:
    names, codes, binned = grouped(*column)
    sizes, means, errors = _means(codes, len(names), outputs)
    small = sizes < SMALL * len(outputs)
    groups = [
        GroupMean(short(name), int(rows), bool(is_small), *_interval(mean, error))
        for name, rows, is_small, mean, error in zip(names, sizes, small, means, errors, strict=True)
    ]
    chosen = sorted(sorted(range(len(groups)), key=lambda i: -groups[i].rows)[:_MOST_MEANS])
    large = np.flatnonzero(~small & (sizes > 0))
    difference = lowest = highest = None
    if len(large) > 1:
        low, high = large[np.argmin(means[large])], large[np.argmax(means[large])]
        error = None if np.isnan(errors[low] + errors[high]) else float(np.hypot(errors[low], errors[high]))
        gap = float(means[high] - means[low])
        difference = MeanEffect(gap, gap, gap) if error is None else MeanEffect(gap, gap - error, gap + error)
        lowest, highest = short(names[low]), short(names[high])
    return FeatureMeans(
        feature=short(column[0].name),
        binned=binned,
        output=number,
        groups=[groups[i] for i in chosen],
        groups_left_out=len(groups) - len(chosen),
        small_groups=int(small.sum()),
        difference=difference,
        lowest=lowest,
        highest=highest,
    )


def _means(codes: Codes, count: int, outputs: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the size of each group (groups,), its mean, and half the width of its interval, NaN for one person."""
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.bincount(codes, outputs, minlength=count) / sizes
        squares = np.bincount(codes, (outputs - means[codes]) ** 2, minlength=count)
        errors = np.where(sizes > 1, NORMAL_QUANTILE * np.sqrt(squares / (sizes - 1) / sizes), np.nan)
    return sizes, means, errors


def _interval(mean: float, error: float) -> tuple[float, float | None, float | None]:
    return (float(mean), None, None) if np.isnan(error) else (float(mean), float(mean - error), float(mean + error))
