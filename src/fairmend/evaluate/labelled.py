"""The labels of a streamed file, and how good the network is on all rows that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.auditing.rows import AuditedRows, RowStore
from fairmend.base.arrays import Bools, FloatArray, in_chunks, select_rows
from fairmend.base.text import as_text, listed, shown
from fairmend.evaluate.document import UtilityFigures
from fairmend.evaluate.groups import CodedValues, GroupColumn, GroupMetrics, columns_of_rows, group_metrics_of
from fairmend.evaluate.utility import auc_by_chance, regression_utility, utility_of
from fairmend.network import Model
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.out_of_range import label_warnings
from fairmend.spec.read_values import find_classes

_MOST_VALUES = 1_000  # distinct labels that are kept


@dataclass(frozen=True)
class LabelledFigures:
    """How good a network is on rows with a label; empty without such rows.

    Attributes
    ----------
    rows : how many rows have a label
    utility : accuracy and similar figures, or the errors of a regression network with one output; None without either
    groups : differences between groups, by compared column; empty without classes
    auc_by_chance : how large the AUC may be by chance; None without classes
    """

    rows: int = 0
    utility: UtilityFigures | None = None
    groups: tuple[GroupMetrics, ...] = ()
    auc_by_chance: float | None = None


def labelled_figures(
    spec: Spec, net: Model, logits: FloatArray, y: npt.ArrayLike, compared: Sequence[GroupColumn] = ()
) -> LabelledFigures:
    """Return how good a network is by its logits (rows,) or (rows, outputs) for true classes, or numbers, y (rows,).

    `compared` are the columns whose groups are compared.
    """
    true = np.asarray(y)
    if spec.regression:
        return LabelledFigures(len(true), regression_utility(logits, true))
    groups = group_metrics_of(spec, compared, in_chunks(logits, net.decide, np.int16), true, classes=net.outputs)
    figures = utility_of(logits, true, threshold=net.threshold)
    return LabelledFigures(len(true), figures, groups, auc_by_chance(true, net.outputs))


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of some rows: the class or number of each and whether it has one (rows,), and the different labels."""

    y: npt.NDArray[Any]
    known: Bools
    distinct: tuple[object, ...]


class LabelledRows:
    """Collects the labels of a file that is read in pieces."""

    def __init__(self, spec: Spec, net: Model) -> None:
        """Start without rows; without a label in the spec no row has one."""
        self._spec, self._net = spec, net
        self._labels, self._known = RowStore(), RowStore()
        self._any_known = self._any_positive = False
        self._distinct: dict[object, None] = {}  # a set that keeps the order

    def add(self, frame: pd.DataFrame) -> None:
        """Add the next rows of the file."""
        label = self._spec.label
        if label is None or label.column not in frame.columns:
            return
        y, known = self._read_labels(frame)
        self.merge(Labels(y, known, self._find_new(frame[label.column])))

    def _find_new(self, column: pd.Series[Any]) -> tuple[object, ...]:
        """Return the different labels in a column, in order; none if a dictionary shows that all were there before."""
        if isinstance(column.dtype, pd.CategoricalDtype) and self._distinct.keys() >= set(column.cat.categories):
            return ()
        distinct = column.dropna().unique().tolist()
        return tuple(value if isinstance(value, str | int | float) else as_text(value) for value in distinct)

    def merge(self, labels: Labels | None) -> None:
        """Add the labels of the rows that follow."""
        if labels is None:
            return
        y, known = labels.y, labels.known
        self._labels.add(y)
        self._known.add(known)
        self._any_known, self._any_positive = self._any_known or bool(known.any()), self._any_positive or bool(y.any())
        for value in labels.distinct:
            if len(self._distinct) < _MOST_VALUES:
                self._distinct.setdefault(value)

    def labels(self) -> Labels | None:
        """Return the labels so far; None without a label in the spec or in the file."""
        if not len(self._labels):
            return None
        return Labels(self._labels.array(), self._known.array(), tuple(self._distinct))

    @property
    def distinct_values(self) -> tuple[object, ...]:
        """The different labels so far, at most 1,000."""
        return tuple(self._distinct)

    def warnings(self, source: object) -> list[str]:
        """Return a warning if no label is the positive one, or some are no class; `source` names the file."""
        classes = self._spec.classes
        strange = [value for value in self._distinct if classes and as_text(value) not in classes]
        if strange:
            named = listed([f'"{shown(value)}"' for value in strange])
            return [
                f"rows of {source} with the label {named} count as rows without a label; check `classes` in the spec"
            ]
        if self._spec.regression or self._net.outputs > 2 or not self._any_known:
            return []
        return label_warnings(self._spec, self._any_positive, list(self._distinct), source)

    def figures(self, rows: AuditedRows, columns: Sequence[tuple[Feature, CodedValues]] = ()) -> LabelledFigures:
        """Return the figures of the rows with a label; `rows` are all rows of the file, as the audit knows them.

        `columns` have groups as well as protected features.
        """
        if not len(self._labels):
            return LabelledFigures()
        known = self._known.array()
        count = int(known.sum())
        if count == 0 or (self._spec.regression and self._net.outputs > 1):
            return LabelledFigures(count)
        y, logits = self._labels.array(), rows.logits
        if count < len(known):
            y, logits = select_rows(y, known), select_rows(logits, known)
        compared = [] if self._spec.regression else [*columns_of_rows(self._spec, rows), *columns]
        if count < len(known):
            compared = [(feature, values.chosen(known)) for feature, values in compared]
        return labelled_figures(self._spec, self._net, logits, y, compared)

    def _read_labels(self, frame: pd.DataFrame) -> tuple[npt.NDArray[Any], Bools]:
        """Return the class of each row, or the number to predict, and whether it has one."""
        assert self._spec.label is not None
        column = frame[self._spec.label.column]
        if self._net.outputs > 2 and not self._spec.regression and not self._spec.label.classes:
            numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
            known = np.isin(numbers, np.arange(self._net.outputs))
            return np.where(known, numbers, 0).astype(np.int16), known
        if self._spec.label.classes:
            codes = find_classes(self._spec.label, column)
            return np.maximum(codes, 0).astype(np.int16), codes >= 0
        known = column.notna().to_numpy(bool)
        kind = np.float64 if self._spec.regression else np.int8
        if known.all():
            return self._spec.labels(frame).astype(kind, copy=False), known
        y = np.zeros(len(frame), dtype=kind)
        if known.any():
            y[known] = self._spec.labels(frame[[self._spec.label.column]][known])
        return y, known
