"""Group fairness: how differently a network treats the groups of each protected feature.

Equal treatment of similar people implies nothing about groups, nor the other way round, so both are measured. The
figures are those of Fairlearn's `demographic_parity_difference` and `equalized_odds_difference` on the rows of groups
that are not `SMALL`: the rate of a few people is chance, and the widest gap would be theirs.

Columns of the data that the model does not read, such as race in lending: their groups, collected in pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.auditing.rows import AuditedRows, RowStore
from fairmend.base.arrays import Bools, Floats, Ints, chunks, count_codes, count_together, in_chunks, select_rows
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import Classes
from fairmend.base.text import as_text, percent, suggest
from fairmend.spec import Spec
from fairmend.spec.encoding import decode_columns
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd


Values = npt.NDArray[Any]
Codes = npt.NDArray[np.integer[Any]]

SMALL = 0.02
"""Groups with a smaller share of the rows have no impact ratio, and their rate is not compared with others."""

_MOST_NUMERIC_GROUPS = 4
_MOST_VALUES = 8  # of whole numbers, which may be codes, that are groups of their own


@dataclass(frozen=True)
class GroupMetrics:
    """Differences between the groups of one feature that are not small, each from 0 (none) to 1.

    Attributes
    ----------
    feature : name of the feature
    groups : all groups, and the number of rows in each
    binned : whether numbers were binned into groups of about equal size
    demographic_parity_difference : largest difference in selection rate; None if not defined
    equalized_odds_difference : largest difference in true positive rate or in false positive rate; None if not defined
    reason : why one of the two is None
    class_rates : with more than two classes, the share of each group that gets a class, by class and group
    small : the groups that are left out, because they have less than 2 % of the rows
    """

    feature: str
    groups: Mapping[str, int]
    binned: bool
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    reason: str | None = None
    class_rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    small: tuple[str, ...] = ()

    @property
    def widest_class(self) -> tuple[str, float] | None:
        """The class whose shares differ most between groups, and the difference; None without shares by class."""
        spreads = {name: max(rates.values()) - min(rates.values()) for name, rates in self.class_rates.items()}
        return max(spreads.items(), key=lambda item: item[1]) if spreads else None


def protected_columns(spec: Spec, X: npt.NDArray[np.floating[Any]]) -> list[GroupColumn]:
    """Return the protected features with their values in encoded inputs X (rows, width)."""
    return [(f, decode_columns(f, X[:, spec.columns(f.name)])) for f in spec.protected]


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


GroupColumn = tuple[Feature, Values | CodedValues]
"""A column whose groups are compared: a protected feature, or one that the model does not read, and its values."""


def columns_of_rows(spec: Spec, rows: AuditedRows) -> list[tuple[Feature, CodedValues]]:
    """Return the protected features with their values in all audited inputs."""
    return [(f, _decode(f, rows.protected[f.name])) for f in spec.protected]


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
    columns: Sequence[GroupColumn],
    predicted: Classes,
    y: npt.ArrayLike | None = None,
    *,
    classes: int = 2,
) -> tuple[GroupMetrics, ...]:
    """Return the metrics of columns, given the predictions (rows,)."""
    true = None if y is None else np.asarray(y)
    if true is not None and true.shape != predicted.shape:
        raise FairmendError(f"y has {len(true)} true classes for {len(predicted)} predictions; give one per row")
    if true is not None and classes <= 2 and not all(np.isin(true[part], (0, 1)).all() for part in chunks(len(true))):
        raise FairmendError(f"y holds {np.unique(true)[:5].tolist()}; give the true classes as 0 and 1")
    names = [spec.name_class(number, classes) for number in range(classes)] if classes > 2 else []
    return tuple(_of_feature(feature, values, predicted, true, names) for feature, values in columns)


def class_shares(codes: Codes, predicted: Classes, groups: int, classes: int) -> Floats:
    """Return the share of each group that gets each class (groups, classes); codes (rows,) name the groups from 0."""
    counts = count_together((codes, groups), (predicted, classes))
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _of_feature(
    feature: Feature, values: Values | CodedValues, predicted: Classes, true: Values | None, classes: Sequence[str]
) -> GroupMetrics:
    """Return the metrics of one feature; `classes` names the classes if there are more than two."""
    every, codes, binned = grouped(feature, values)
    sizes = count_codes(codes, len(every))
    large = sizes >= SMALL * len(codes)
    names = [name for name, is_large in zip(every, large.tolist(), strict=True) if is_large]

    def found(
        parity: float | None, odds: float | None, reason: str | None = None, **rates: Mapping[str, Mapping[str, float]]
    ) -> GroupMetrics:
        counted = dict(zip(every, sizes.tolist(), strict=True))
        small = tuple(name for name in every if name not in names)
        return GroupMetrics(feature.name, counted, binned, parity, odds, reason, **rates, small=small)

    if classes:
        shares = class_shares(codes, predicted, len(every), len(classes))[large].T
        rates = {
            each: dict(zip(names, column, strict=True)) for each, column in zip(classes, shares.tolist(), strict=True)
        }
        return found(None, None, "only defined for two classes", class_rates=rates if names else {})
    if len(names) < 2:
        least = f"{'only one' if names else 'no'} group has {percent(SMALL, 0)} of the rows or more"
        return found(None, None, least if len(every) > 1 else f"every row is {every[0]}")
    parity = _spread(_selection_rates(count_together((codes, len(every)), (predicted, 2))[large]))
    if true is None:
        return found(parity, None, "the true classes are not known")
    counts = count_together((codes, len(every)), (predicted, 2), (true, 2))[large]
    for name, (negative, positive) in zip(names, counts.sum(axis=1).tolist(), strict=True):
        if not (negative and positive):  # one of the two rates would be a rate of no rows
            label = true.dtype.type(0 if negative else 1)
            return found(parity, None, f"every row with {feature.name} {name} has the label {label}")
    return found(parity, max(_spread(_selection_rates(counts[:, :, label])) for label in (0, 1)))


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


_MISSING = "(missing)"
_MOST_GROUPS = 50
_MOST_DIFFERENT = 100_000  # different values of a column that are kept


@dataclass(frozen=True, eq=False)
class GroupValues:
    """The values of some rows: by column, the different ones as text, and which of them each row has (rows,)."""

    distinct: dict[str, tuple[str, ...]]
    codes: dict[str, Ints]


def require_group_columns(columns: Sequence[str], spec: Spec, found: Collection[str]) -> None:
    """Raise an error for a column that the model reads, that is the label, or that the data does not have."""
    for name in columns:
        if name in {feature.name for feature in spec.features}:
            raise FairmendError(
                f"--group {name}: the model reads this column. Groups of protected features are shown without it; "
                "--group is for columns that the model does not read"
            )
        if spec.label is not None and name == spec.label.column:
            raise FairmendError(f"--group {name}: this column is the label. Name a column that describes people")
        if name not in found:
            raise FairmendError(f"--group {name}: the data has no such column{suggest(name, sorted(found))}")


def group_columns(columns: Sequence[str], frame: pd.DataFrame) -> tuple[tuple[Feature, CodedValues], ...]:
    """Return the columns of these people."""
    collected = GroupColumns(columns)
    collected.add(frame)
    return tuple(collected.columns())


class GroupColumns:
    """Collects columns of a file that is read in pieces."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Start without rows."""
        self._places: dict[str, dict[str, int]] = {name: {} for name in columns}
        self._codes = {name: RowStore() for name in columns}

    def add(self, frame: pd.DataFrame) -> None:
        """Add the next rows of the file."""
        distinct, codes = {}, {}
        for name in self._places:
            numbers, values = pd.factorize(frame[name].astype(object), use_na_sentinel=True)
            distinct[name] = (*(as_text(value) or _MISSING for value in values), _MISSING)
            codes[name] = np.where(numbers < 0, len(values), numbers).astype(np.int64)
        self.merge(GroupValues(distinct, codes))

    def merge(self, values: GroupValues) -> None:
        """Add the values of the rows that follow."""
        for name, places in self._places.items():
            number = [places.setdefault(text, len(places)) for text in values.distinct[name]]
            if len(places) > _MOST_DIFFERENT:
                raise FairmendError(_too_many(name, len(places)))
            self._codes[name].add(np.array(number, np.int64)[values.codes[name]])

    def values(self) -> GroupValues:
        """Return the values so far."""
        rows = {name: store.array() if len(store) else np.zeros(0, np.int64) for name, store in self._codes.items()}
        return GroupValues({name: tuple(places) for name, places in self._places.items()}, rows)

    def columns(self) -> list[tuple[Feature, CodedValues]]:
        """Return each column as a feature with its values: categories, or numbers if there are many."""
        values = self.values()
        return [_as_feature(name, values.distinct[name], values.codes[name]) for name in self._places]


def _as_feature(name: str, distinct: Sequence[str], codes: Ints) -> tuple[Feature, CodedValues]:
    present, places = np.unique(codes, return_inverse=True)
    texts = [distinct[number] for number in present]
    if len(texts) <= _MOST_GROUPS:
        feature = Feature(name, "categorical", categories=tuple(sorted(texts)))
        return feature, CodedValues(np.array(texts, dtype=object), places)
    try:
        numbers = np.array(texts, np.float64)
    except ValueError as error:
        raise FairmendError(_too_many(name, len(texts))) from error
    if not np.isfinite(numbers).all():
        raise FairmendError(_too_many(name, len(texts)))
    feature = Feature(name, "continuous", range=(float(numbers.min()), float(numbers.max())))
    return feature, CodedValues(numbers, places)


def _too_many(name: str, count: int) -> str:
    return (
        f"--group {name}: the column has {count:,} different values, and not all are numbers. Join some: at most "
        f"{_MOST_GROUPS} groups are compared"
    )
