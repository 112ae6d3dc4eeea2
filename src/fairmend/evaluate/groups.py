"""Group fairness: how differently a network treats the groups of each protected feature.

Equal treatment of similar people implies nothing about groups, nor the other way round, so both are measured. The
figures are those of Fairlearn's `demographic_parity_difference` and `equalized_odds_difference`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.auditing.rows import AuditedRows
from fairmend.base.arrays import Bools, Floats, Ints, chunks, count_codes, count_together, in_chunks, select_rows
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import Classes
from fairmend.network import Model
from fairmend.spec import Spec
from fairmend.spec.encoding import decode_columns
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd


Values = npt.NDArray[Any]
Codes = npt.NDArray[np.integer[Any]]

_MOST_NUMERIC_GROUPS = 4
_MOST_VALUES = 8  # of whole numbers, which may be codes, that are groups of their own


@dataclass(frozen=True)
class GroupMetrics:
    """Differences between the groups of one feature, each from 0 (none) to 1.

    Attributes
    ----------
    feature : name of the feature
    groups : the groups, and the number of rows in each
    binned : whether numbers were binned into groups of about equal size
    demographic_parity_difference : largest difference in selection rate; None if not defined
    equalized_odds_difference : largest difference in true positive rate or in false positive rate; None if not defined
    reason : why one of the two is None
    class_rates : with more than two classes, the share of each group that gets a class, by class and group
    """

    feature: str
    groups: Mapping[str, int]
    binned: bool
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    reason: str | None = None
    class_rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def widest_class(self) -> tuple[str, float] | None:
        """The class whose shares differ most between groups, and the difference; None without shares by class."""
        spreads = {name: max(rates.values()) - min(rates.values()) for name, rates in self.class_rates.items()}
        return max(spreads.items(), key=lambda item: item[1]) if spreads else None


def group_metrics(
    net: Model, spec: Spec, X: pd.DataFrame | npt.ArrayLike, y: npt.ArrayLike | None = None
) -> tuple[GroupMetrics, ...]:
    """Return the metrics of each protected feature on X; y (rows,) are the true classes if they are known."""
    inputs = spec.as_inputs(X, net.dtype)
    return group_metrics_of(spec, protected_values(spec, inputs), net.predict(inputs), y, classes=net.outputs)


def protected_values(spec: Spec, X: npt.NDArray[np.floating[Any]]) -> dict[str, Values]:
    """Return the user's values (rows,) of each protected feature of encoded inputs X (rows, width)."""
    return {f.name: decode_columns(f, X[:, spec.columns(f.name)]) for f in spec.protected}


@dataclass(frozen=True, eq=False)
class CodedValues:
    """Values of many rows in little memory.

    Attributes
    ----------
    distinct : the different values (k,)
    codes : which of them each row has (rows,)
    """

    distinct: Values
    codes: Codes

    def chosen(self, rows: Bools) -> CodedValues:
        """Return the values of some rows (rows,)."""
        return CodedValues(self.distinct, select_rows(self.codes, rows))


def values_of_rows(spec: Spec, rows: AuditedRows) -> dict[str, CodedValues]:
    """Return the user's values of each protected feature of all audited inputs."""
    return {f.name: _decode(f, rows.protected[f.name]) for f in spec.protected}


def _decode(feature: Feature, column: Values) -> CodedValues:
    if feature.one_hot:
        return CodedValues(np.array(feature.categories, dtype=object), column)
    distinct = np.unique(np.concatenate([_different(column[part]) for part in chunks(len(column))]))
    codes = in_chunks(column, lambda part: np.searchsorted(distinct, part), np.min_scalar_type(len(distinct)))
    return CodedValues(np.asarray(decode_columns(feature, distinct[:, None])), codes)


def _different(values: Values) -> Values:
    import pandas as pd

    return np.asarray(pd.unique(values))


def group_metrics_of(
    spec: Spec,
    values: Mapping[str, Values | CodedValues],
    predicted: Classes,
    y: npt.ArrayLike | None = None,
    *,
    classes: int = 2,
    features: Sequence[Feature] | None = None,
) -> tuple[GroupMetrics, ...]:
    """Return the metrics from the values (rows,) of each protected feature and the predictions (rows,).

    `features` are those to compare, if they are not the protected ones.
    """
    true = None if y is None else np.asarray(y)
    if true is not None and true.shape != predicted.shape:
        raise FairmendError(f"y has {len(true)} true classes for {len(predicted)} predictions; give one per row")
    if true is not None and classes <= 2 and not all(np.isin(true[part], (0, 1)).all() for part in chunks(len(true))):
        raise FairmendError(f"y holds {np.unique(true)[:5].tolist()}; give the true classes as 0 and 1")
    names = [spec.name_class(number, classes) for number in range(classes)] if classes > 2 else []
    return tuple(_of_feature(f, values[f.name], predicted, true, names) for f in features or spec.protected)


def class_shares(codes: Codes, predicted: Classes, groups: int, classes: int) -> Floats:
    """Return the share of each group that gets each class (groups, classes); codes (rows,) name the groups from 0."""
    counts = count_together((codes, groups), (predicted, classes))
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _of_feature(
    feature: Feature, values: Values | CodedValues, predicted: Classes, true: Values | None, classes: Sequence[str]
) -> GroupMetrics:
    """Return the metrics of one feature; `classes` names the classes if there are more than two."""
    names, codes, binned = grouped(feature, values)
    sizes = {name: int(size) for name, size in zip(names, count_codes(codes, len(names)), strict=True)}
    if classes:
        shares = class_shares(codes, predicted, len(names), len(classes))
        rates = {
            name: dict(zip(names, column.tolist(), strict=True)) for name, column in zip(classes, shares.T, strict=True)
        }
        return GroupMetrics(feature.name, sizes, binned, None, None, "only defined for two classes", rates)
    if len(names) < 2:
        return GroupMetrics(feature.name, sizes, binned, None, None, f"every row is {names[0]}")
    parity = _spread(_selection_rates(count_together((codes, len(names)), (predicted, 2))))
    if true is None:
        return GroupMetrics(feature.name, sizes, binned, parity, None, "the true classes are not known")
    counts = count_together((codes, len(names)), (predicted, 2), (true, 2))
    for name, (negative, positive) in zip(names, counts.sum(axis=1).tolist(), strict=True):
        if not (negative and positive):  # one of the two rates would be a rate of no rows
            label = true.dtype.type(0 if negative else 1)
            reason = f"every row with {feature.name} {name} has the label {label}"
            return GroupMetrics(feature.name, sizes, binned, parity, None, reason)
    odds = max(_spread(_selection_rates(counts[:, :, label])) for label in (0, 1))
    return GroupMetrics(feature.name, sizes, binned, parity, odds)


def _selection_rates(counts: Ints) -> Floats:
    """Return the share of each group that is predicted 1, from the counts of both predictions (groups, 2)."""
    return np.asarray(counts[:, 1] / counts.sum(axis=1))


def _spread(rates: Floats) -> float:
    return float(rates.max() - rates.min())


def grouped(feature: Feature, values: Values | CodedValues) -> tuple[list[str], Codes, bool]:
    """Return the names of the groups, the group of each row (rows,) from 0, and whether numbers were binned."""
    distinct, codes = _factorize(values)
    most = _MOST_VALUES if feature.kind == "integer" else _MOST_NUMERIC_GROUPS
    if feature.categories or len(distinct) <= most:
        return [str(feature.show(value)) for value in distinct], codes, False
    # The quartiles of the rows. A row on one belongs to the group below; a value that fills a quarter gives equal ones.
    seen = np.cumsum(count_codes(codes, len(distinct)))
    places = (np.arange(1, _MOST_NUMERIC_GROUPS) * (len(codes) - 1)) // _MOST_NUMERIC_GROUPS
    ends = np.unique(np.searchsorted(seen, places, side="right"))
    if ends[0] == len(distinct) - 1:  # the highest value fills three quarters
        ends = ends - 1
    found, group = np.unique(np.searchsorted(ends, np.arange(len(distinct)), side="left"), return_inverse=True)
    members = [distinct[group == number] for number in range(len(found))]
    return [_interval(each[0], each[-1]) for each in members], _renumbered(codes, group), True


def _factorize(values: Values | CodedValues) -> tuple[Values, Codes]:
    """Return the different values in order, and which of them each is (rows,): NumPy takes longer and more memory."""
    import pandas as pd

    if not isinstance(values, CodedValues):
        codes, distinct = pd.factorize(values, sort=True)
        return np.asarray(distinct), codes.astype(np.int64, copy=False)
    present = np.flatnonzero(count_codes(values.codes, len(values.distinct)))
    places, distinct = pd.factorize(values.distinct[present], sort=True)  # different inputs may have equal values
    numbers = np.zeros(len(values.distinct), np.int64)
    numbers[present] = places
    return np.asarray(distinct), _renumbered(values.codes, numbers)


def _renumbered(codes: Codes, numbers: Ints) -> Codes:
    """Return the number of each code (rows,), in the smallest type; the codes themselves if these are the numbers."""
    if np.array_equal(numbers, np.arange(len(numbers))):
        return codes
    return in_chunks(codes, lambda part: numbers[part], np.min_scalar_type(int(numbers.max(initial=0))))


def _interval(low: float, high: float) -> str:
    """Return "17 to 24", or "17" for a single number."""
    first, last = f"{low:.6g}", f"{high:.6g}"
    return first if first == last else f"{first} to {last}"
