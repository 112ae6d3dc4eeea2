"""The selection rate of each group, and the gaps between groups, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairmend.base.arrays import Bools, count_codes, count_together
from fairmend.base.metrics import Classes
from fairmend.base.text import short
from fairmend.evaluate.document import FeatureGroups, GroupRates
from fairmend.evaluate.groups import CodedValues, GroupMetrics, Values, class_shares, grouped
from fairmend.spec import Spec

_MOST_FEATURES, _MOST_GROUPS, _MOST_CLASSES = 12, 12, 12


def tabulate_groups(
    spec: Spec,
    values: Mapping[str, Values | CodedValues],
    metrics: Sequence[Sequence[GroupMetrics]],
    predictions: Sequence[Classes],
    *,
    classes: int,
    unfair: Bools | None = None,
) -> list[FeatureGroups]:
    """Return the groups of each protected feature, of at most twelve.

    Parameters
    ----------
    values : by protected feature, the user's values (rows,)
    metrics : for each network (before, after), the gaps by feature; empty without labels
    predictions : for each network, its predictions (rows,)
    classes : how many outputs the networks have; selection rates need one or two
    unfair : which rows are treated unequally (rows,)
    """
    return [
        _feature(spec, number, values, [m[number] for m in metrics], predictions, classes, unfair)
        for number in range(min(_MOST_FEATURES, len(spec.protected)))
    ]


def _feature(
    spec: Spec,
    number: int,
    values: Mapping[str, Values | CodedValues],
    metrics: list[GroupMetrics],
    predictions: Sequence[Classes],
    classes: int,
    unfair: Bools | None,
) -> FeatureGroups:
    feature = spec.protected[number]
    names, codes, binned = grouped(feature, values[feature.name])
    sizes = count_codes(codes, len(names))

    def share_of(which: Bools | Classes | None) -> list[float | None]:
        if which is None:
            return [None] * len(names)
        return (count_together((codes, len(names)), (which, 2))[:, 1] / sizes).tolist()  # type: ignore[no-any-return]

    positives = [share_of(predicted if classes <= 2 else None) for predicted in predictions]
    positives += [[None] * len(names)] * (2 - len(positives))
    by_class: list[list[list[float]]] = [
        class_shares(codes, a, len(names), classes)[:, :_MOST_CLASSES].tolist() if classes > 2 else [[]] * len(names)
        for a in predictions
    ]
    by_class += [[[]] * len(names)] * (2 - len(by_class))
    rows = list(zip(map(short, names), sizes.tolist(), *positives, share_of(unfair), *by_class, strict=True))
    # Keep the largest groups, in their own order.
    chosen = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[:_MOST_GROUPS])
    gaps = [(m.demographic_parity_difference, m.equalized_odds_difference) for m in metrics] + [(None, None)] * 2
    reason = next((m.reason for m in metrics if m.reason), None)
    return FeatureGroups(
        short(feature.name),
        binned,
        [GroupRates(*rows[i]) for i in chosen],
        len(rows) - len(chosen),
        *gaps[0],
        *gaps[1],
        None if reason is None else short(reason, 300),
    )
