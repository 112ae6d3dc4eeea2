"""Collect the labelled rows of a streamed file, for the figures that need all of them at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import Bools, FloatArray
from fairmend.evaluate.groups import GroupMetrics, Values, group_metrics_of, protected_values
from fairmend.evaluate.utility import RegressionUtility, Utility, regression_utility_of, utility_of
from fairmend.network import Network, predicted_classes
from fairmend.spec import Spec

__all__ = ["LabelledRows"]

# A ranking needs every score at once. This many rows settle its second digit and take little memory.
_MOST_ROWS = 100_000


class LabelledRows:
    """Outputs, labels and protected values of the first 100,000 rows that have a label.

    Attributes
    ----------
    rows : how many rows were collected
    cut_off : whether there were more
    """

    def __init__(self, spec: Spec, net: Network) -> None:
        """Start without rows; without a label in the spec there never are any."""
        self._spec, self._net = spec, net
        self._logits: list[FloatArray] = []
        self._labels: list[npt.NDArray[Any]] = []
        self._values: list[dict[str, Values]] = []
        self.rows = 0
        self.cut_off = False

    def add(self, frame: pd.DataFrame, X: FloatArray) -> None:
        """Add the rows of `frame` that have a label; X (rows, width) are the same rows, encoded."""
        label = self._spec.label
        if label is None or label.column not in frame.columns:
            return
        y, known = self._read_labels(frame)
        chosen = np.flatnonzero(known)
        self.cut_off |= len(chosen) > _MOST_ROWS - self.rows
        chosen = chosen[: _MOST_ROWS - self.rows]
        if len(chosen) == 0:
            return
        self.rows += len(chosen)
        self._logits.append(self._net.logits(X[chosen]))
        self._labels.append(y[chosen])
        self._values.append(protected_values(self._spec, X[chosen]))

    @cached_property
    def utility(self) -> Utility | None:
        """Accuracy and similar figures on these rows; None without rows or classes. Read it after the last `add`."""
        if self.rows == 0 or self._spec.regression:
            return None
        return utility_of(np.concatenate(self._logits), np.concatenate(self._labels))

    @cached_property
    def regression(self) -> RegressionUtility | None:
        """The errors of a regression network on these rows; None without rows. Read it after the last `add`."""
        if self.rows == 0 or not self._spec.regression or self._net.outputs > 1:
            return None
        return regression_utility_of(np.concatenate(self._logits), np.concatenate(self._labels))

    @cached_property
    def groups(self) -> tuple[GroupMetrics, ...]:
        """Differences between groups, by protected feature; empty without rows or classes. Read it after `add`."""
        if self.rows == 0 or self._spec.regression:
            return ()
        values = {name: np.concatenate([part[name] for part in self._values]) for name in self._values[0]}
        logits = np.concatenate(self._logits)
        y = np.concatenate(self._labels)
        return group_metrics_of(self._spec, values, predicted_classes(logits), y, classes=self._net.outputs)

    def _read_labels(self, frame: pd.DataFrame) -> tuple[npt.NDArray[Any], Bools]:
        """Return the class of each row, or the number to predict, and whether it has one."""
        assert self._spec.label is not None
        column = frame[self._spec.label.column]
        if self._net.outputs > 2 and not self._spec.regression and not self._spec.label.classes:
            numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
            known = np.isin(numbers, np.arange(self._net.outputs))
            return np.where(known, numbers, 0).astype(np.int64), known
        known = column.notna().to_numpy(bool)
        y = np.zeros(len(frame), dtype=np.float64 if self._spec.regression else np.int64)
        if known.any():
            y[known] = self._spec.labels(frame[known])
        return y, known
