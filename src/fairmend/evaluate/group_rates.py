"""The selection rate of each group, and the gaps between groups, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairmend.base.arrays import Bools, count_codes, count_together
from fairmend.base.metrics import Classes
from fairmend.base.text import short
from fairmend.evaluate.document import FeatureGroups, GroupRates
from fairmend.evaluate.groups import CodedValues, GroupMetrics, Values, class_shares, grouped
from fairmend.spec import Spec
from fairmend.spec.features import Feature

_MOST_FEATURES, _MOST_GROUPS, _MOST_CLASSES = 12, 12, 12


def tabulate_groups(
    spec: Spec,
    values: Mapping[str, Values | CodedValues],
    metrics: Sequence[GroupMetrics],
    predictions: Classes,
    *,
    classes: int,
    unfair: Bools | None = None,
) -> list[FeatureGroups]:
    """Return the groups of each protected feature, of at most twelve.

    Parameters
    ----------
    values : by protected feature, the user's values (rows,)
    metrics : the gaps by feature; empty without labels
    predictions : those of the network (rows,)
    classes : how many outputs the network has; selection rates need one or two
    unfair : which rows are treated unequally (rows,)
    """
    return [
        _feature(feature, values[feature.name], metrics[number] if metrics else None, predictions, classes, unfair)
        for number, feature in enumerate(spec.protected[:_MOST_FEATURES])
    ]


def _feature(
    feature: Feature,
    values: Values | CodedValues,
    metrics: GroupMetrics | None,
    predictions: Classes,
    classes: int,
    unfair: Bools | None,
) -> FeatureGroups:
    names, codes, binned = grouped(feature, values)
    sizes = count_codes(codes, len(names))

    def share_of(which: Bools | Classes | None) -> list[float | None]:
        if which is None:
            return [None] * len(names)
        return (count_together((codes, len(names)), (which, 2))[:, 1] / sizes).tolist()  # type: ignore[no-any-return]

    selected = share_of(predictions if classes <= 2 else None)
    by_class: list[list[float]] = [[]] * len(names)
    if classes > 2:
        by_class = class_shares(codes, predictions, len(names), classes)[:, :_MOST_CLASSES].tolist()
    rows = list(zip(map(short, names), sizes.tolist(), selected, share_of(unfair), by_class, strict=True))
    # Keep the largest groups, in their own order.
    chosen = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[:_MOST_GROUPS])
    reason = None if metrics is None else metrics.reason
    widest = None if metrics is None else metrics.widest_class
    return FeatureGroups(
        short(feature.name),
        binned,
        [GroupRates(*rows[i]) for i in chosen],
        len(rows) - len(chosen),
        None if metrics is None else metrics.demographic_parity_difference,
        None if metrics is None else metrics.equalized_odds_difference,
        short(reason, 300) if reason else None,
        None if widest is None else short(widest[0]),
        None if widest is None else widest[1],
    )
