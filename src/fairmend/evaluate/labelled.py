"""The rows of a streamed file that have a label, gathered for the figures that need all of them at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray
from fairmend.evaluate.groups import GroupMetrics, Values, group_metrics_of, protected_values
from fairmend.evaluate.utility import Utility, utility_of
from fairmend.network import Network, predicted_classes
from fairmend.spec import Spec

# A ranking needs every score at once; so many rows settle its second digit, and take little memory.
_MOST = 100_000


class Labelled:
    """Scores, classes and protected values of the labelled rows, the first 100,000 of them."""

    def __init__(self, spec: Spec, net: Network) -> None:
        """Start empty; without a label in the spec it stays so."""
        self._spec, self._net = spec, net
        self._logits: list[FloatArray] = []
        self._classes: list[npt.NDArray[np.integer]] = []
        self._values: list[dict[str, Values]] = []
        self.rows = 0
        self.cut_off = False

    def add(self, frame: pd.DataFrame, X: FloatArray) -> None:
        """Take in the labelled ones of these rows, which are X (rows, width) encoded."""
        label = self._spec.label
        if label is None or label.column not in frame.columns:
            return
        y, known = self._labels(frame)
        chosen = np.flatnonzero(known)
        self.cut_off |= len(chosen) > _MOST - self.rows
        chosen = chosen[: _MOST - self.rows]
        if len(chosen) == 0:
            return
        self.rows += len(chosen)
        self._logits.append(self._net.logits(X[chosen]))
        self._classes.append(y[chosen])
        self._values.append(protected_values(self._spec, X[chosen]))

    @cached_property
    def utility(self) -> Utility | None:
        """What the network is good for on these rows, once all are in; None where there are none."""
        return utility_of(np.concatenate(self._logits), np.concatenate(self._classes)) if self.rows else None

    @cached_property
    def groups(self) -> tuple[GroupMetrics, ...]:
        """How the groups of each protected feature fare, once all rows are in; none without rows."""
        if self.rows == 0:
            return ()
        values = {name: np.concatenate([piece[name] for piece in self._values]) for name in self._values[0]}
        logits = np.concatenate(self._logits)
        y = np.concatenate(self._classes)
        return group_metrics_of(self._spec, values, predicted_classes(logits), y, classes=self._net.outputs)

    def _labels(self, frame: pd.DataFrame) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.bool_]]:
        """The class of each row, and whether it has one."""
        assert self._spec.label is not None
        column = frame[self._spec.label.column]
        if self._net.outputs > 2:
            numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
            known = np.isin(numbers, np.arange(self._net.outputs))
            return np.where(known, numbers, 0).astype(np.int64), known
        known = column.notna().to_numpy(bool)
        y = np.zeros(len(frame), dtype=np.int64)
        if known.any():
            y[known] = self._spec.labels(frame[known])
        return y, known
