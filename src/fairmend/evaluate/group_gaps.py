"""How groups fare, as the report shows it: the rate of positive answers of each, beside the gaps between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairmend.evaluate.document import Group, GroupFeature
from fairmend.evaluate.groups import GroupMetrics, Values, grouped
from fairmend.spec import Spec
from fairmend.text import short

MOST_FEATURES, MOST_GROUPS = 12, 12

Answers = npt.NDArray[np.int64]


def group_features(
    spec: Spec,
    values: dict[str, Values],
    metrics: Sequence[Sequence[GroupMetrics]],
    answers: Sequence[Answers],
    *,
    classes: int,
    unfair: npt.NDArray[np.bool_] | None = None,
) -> list[GroupFeature]:
    """Return the groups of each protected feature.

    Parameters
    ----------
    values : the user's values (rows,) of each protected feature
    metrics : the gaps of each network (before, and after), by feature; none where there are no labels
    answers : what each network answers (rows,)
    unfair : who is treated unequally (rows,)
    """
    return [
        _feature(spec, number, values, [m[number] for m in metrics], answers, classes, unfair)
        for number in range(min(MOST_FEATURES, len(spec.protected)))
    ]


def _feature(
    spec: Spec,
    number: int,
    values: dict[str, Values],
    metrics: list[GroupMetrics],
    answers: Sequence[Answers],
    classes: int,
    unfair: npt.NDArray[np.bool_] | None,
) -> GroupFeature:
    feature = spec.protected[number]
    names, codes, binned = grouped(feature, values[feature.name])
    sizes = np.bincount(codes, minlength=len(names))

    def rates(which: npt.NDArray[np.generic] | None) -> list[float | None]:
        if which is None:
            return [None] * len(names)
        return (np.bincount(codes, weights=which.astype(np.float64), minlength=len(names)) / sizes).tolist()  # type: ignore[no-any-return]

    positives = [rates(a == 1 if classes <= 2 else None) for a in answers]
    positives += [[None] * len(names)] * (2 - len(positives))
    rows = list(zip(map(short, names), sizes.tolist(), *positives, rates(unfair), strict=True))
    # The largest groups say most; bins stay in their order.
    chosen = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[:MOST_GROUPS])
    gaps = [(m.demographic_parity_difference, m.equalized_odds_difference) for m in metrics] + [(None, None)] * 2
    reason = next((m.reason for m in metrics if m.reason), None)
    return GroupFeature(
        short(feature.name),
        binned,
        [Group(*rows[i]) for i in chosen],
        len(rows) - len(chosen),
        *gaps[0],
        *gaps[1],
        None if reason is None else short(reason, 300),
    )
