"""Columns of the data that the model does not read, such as race in lending: their groups, collected in pieces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmend.auditing.rows import RowStore
from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, suggest
from fairmend.evaluate.groups import CodedValues
from fairmend.spec import Spec
from fairmend.spec.features import Feature

_MISSING = "(missing)"
_MOST_GROUPS = 50
_MOST_VALUES = 100_000  # different values of a column that are kept

GroupColumn = tuple[Feature, CodedValues]
"""A column as a feature, though the model does not read it, and its values in all rows."""


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
            if len(places) > _MOST_VALUES:
                raise FairmendError(_too_many(name, len(places)))
            self._codes[name].add(np.array(number, np.int64)[values.codes[name]])

    def values(self) -> GroupValues:
        """Return the values so far."""
        rows = {name: store.array() if len(store) else np.zeros(0, np.int64) for name, store in self._codes.items()}
        return GroupValues({name: tuple(places) for name, places in self._places.items()}, rows)

    def columns(self) -> list[GroupColumn]:
        """Return each column as a feature with its values: categories, or numbers if there are many."""
        values = self.values()
        return [_as_feature(name, values.distinct[name], values.codes[name]) for name in self._places]


def _as_feature(name: str, distinct: Sequence[str], codes: Ints) -> GroupColumn:
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
