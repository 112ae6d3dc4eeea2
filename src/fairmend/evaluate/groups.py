"""Group fairness, through Fairlearn: how differently a network treats the groups of each protected feature.

Equal treatment of similar people says nothing about groups, and the other way round; both are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.encoding import decode_columns
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[Any]

MOST_NUMERIC_GROUPS = 4


@dataclass(frozen=True)
class GroupMetrics:
    """Differences between the groups of one feature, each from 0 (none) to 1.

    Attributes
    ----------
    feature : its name
    groups : the groups and how many rows each has
    binned : whether its numbers were binned into groups of about equal size
    demographic_parity_difference : largest difference in the rate of positive answers; None where not defined
    equalized_odds_difference : largest difference in the rate of right or of wrong positive answers; None likewise
    reason : why one of them is None
    """

    feature: str
    groups: Mapping[str, int]
    binned: bool
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    reason: str | None = None


def group_metrics(
    net: Network, spec: Spec, X: pd.DataFrame | npt.ArrayLike, y: npt.ArrayLike | None = None
) -> tuple[GroupMetrics, ...]:
    """Return the figures for each protected feature on X, with true classes y (rows,) where they are known."""
    inputs = spec.as_inputs(X, net.dtype)
    return group_metrics_of(spec, protected_values(spec, inputs), net.predict(inputs), y, classes=net.outputs)


def protected_values(spec: Spec, X: npt.NDArray[np.floating[Any]]) -> dict[str, Values]:
    """Return the user's values (rows,) of each protected feature of encoded inputs X (rows, width)."""
    return {f.name: decode_columns(f, X[:, spec.columns(f.name)]) for f in spec.protected}


def group_metrics_of(
    spec: Spec,
    values: Mapping[str, Values],
    predicted: npt.NDArray[np.int64],
    y: npt.ArrayLike | None = None,
    *,
    classes: int = 2,
) -> tuple[GroupMetrics, ...]:
    """Return the figures from the values (rows,) of each protected feature and the predictions (rows,)."""
    true = None if y is None else np.asarray(y)
    if true is not None and true.shape != predicted.shape:
        raise FairmendError(f"there are {len(true)} true and {len(predicted)} predicted classes; give one per row")
    return tuple(_of_feature(f, values[f.name], predicted, true, classes) for f in spec.protected)


def _of_feature(
    feature: Feature, values: Values, predicted: npt.NDArray[np.int64], true: Values | None, classes: int
) -> GroupMetrics:
    names, codes, binned = grouped(feature, values)
    sizes = {name: int(size) for name, size in zip(names, np.bincount(codes, minlength=len(names)), strict=True)}
    if classes > 2:
        return GroupMetrics(feature.name, sizes, binned, None, None, "only defined for two classes")
    if len(names) < 2:
        return GroupMetrics(feature.name, sizes, binned, None, None, f"every row is {names[0]}")
    from fairlearn import metrics  # a second to import, so only when a figure is asked for

    parity = metrics.demographic_parity_difference(predicted, predicted, sensitive_features=codes)
    if true is None:
        return GroupMetrics(feature.name, sizes, binned, float(parity), None, "the true classes are not known")
    for code, name in enumerate(names):
        seen = np.unique(true[codes == code])
        if len(seen) < 2:  # a rate of nobody is no rate
            reason = f"every row with {feature.name} {name} has the label {seen[0]}"
            return GroupMetrics(feature.name, sizes, binned, float(parity), None, reason)
    odds = metrics.equalized_odds_difference(true, predicted, sensitive_features=codes)
    return GroupMetrics(feature.name, sizes, binned, float(parity), float(odds))


def grouped(feature: Feature, values: Values) -> tuple[list[str], npt.NDArray[np.int64], bool]:
    """Return the names of the groups present, the group (rows,) of each row, and whether numbers were binned."""
    distinct, codes = np.unique(values, return_inverse=True)
    if feature.categories or len(distinct) <= MOST_NUMERIC_GROUPS:
        return [str(value) for value in distinct], codes.astype(np.int64), False
    inner = np.quantile(values, np.arange(1, MOST_NUMERIC_GROUPS) / MOST_NUMERIC_GROUPS, method="lower")
    # A row on an edge belongs below it; equal edges (one value in a quarter of the rows, or more) are one.
    found, codes = np.unique(np.searchsorted(np.unique(inner), values, side="left"), return_inverse=True)
    members = [values[codes == code] for code in range(len(found))]
    return [f"{group.min():.6g} to {group.max():.6g}" for group in members], codes.astype(np.int64), True
