"""The mean output of a regression network for each group, and how far the groups lie apart, with 95 % intervals.

The interval of a mean is mean ± 1.96 s / √n, and that of a difference of two means adds their variances (Welch).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend.auditing.result import NORMAL_QUANTILE
from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.text import short
from fairmend.evaluate.document import FeatureMeans, GroupMean, MeanEffect
from fairmend.evaluate.groups import SMALL, Codes, GroupColumn, grouped

_MOST_FEATURES, _MOST_GROUPS, _MOST_OUTPUTS = 12, 12, 4


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
    chosen = sorted(sorted(range(len(groups)), key=lambda i: -groups[i].rows)[:_MOST_GROUPS])
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
