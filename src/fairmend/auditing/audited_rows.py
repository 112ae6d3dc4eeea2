"""What an audit knows of every row, in a few bytes each: so that a report's figures come from all rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.auditing.neighbours import ScanResult
from fairmend.auditing.row_store import RowStore
from fairmend.base.arrays import Bools, FloatArray, in_chunks
from fairmend.network import Network
from fairmend.spec import Spec


@dataclass(frozen=True, eq=False)
class AuditedRows:
    """All audited inputs.

    Attributes
    ----------
    logits : (rows,) or (rows, outputs)
    unequal : bool (rows,), which of them are treated unequally
    protected : by protected feature (rows,): the code of the category of a one-hot feature, otherwise its column
    """

    logits: FloatArray = field(repr=False)
    unequal: Bools = field(repr=False)
    protected: Mapping[str, npt.NDArray[Any]] = field(repr=False)

    def decide(self, net: Network) -> npt.NDArray[np.int16]:
        """Return the predictions (rows,)."""
        return in_chunks(self.logits, net.decide, np.int16)


class RowCollector:
    """Collects what is known of a stream of inputs."""

    def __init__(self) -> None:
        """Start without inputs."""
        self._logits, self._unequal = RowStore(), RowStore()
        self._protected: dict[str, RowStore] = {}

    def add(self, spec: Spec, X: FloatArray, found: ScanResult) -> None:
        """Add the next inputs X (k, width), and what the scan found about them."""
        self._logits.add(found.logits)
        self._unequal.add(found.unequal)
        for feature in spec.protected:
            where = spec.columns(feature.name)
            if feature.one_hot:
                column = feature.category_of(X[:, where]).astype(np.min_scalar_type(len(feature.categories or ())))
            else:
                column = X[:, where.start].copy()
            self._protected.setdefault(feature.name, RowStore()).add(column)

    def merge(self, other: RowCollector) -> None:
        """Add the inputs that follow."""
        self._logits.merge(other._logits)
        self._unequal.merge(other._unequal)
        for name, store in other._protected.items():
            self._protected.setdefault(name, RowStore()).merge(store)

    def rows(self) -> AuditedRows:
        """Return all inputs; read it once, after the last `add`."""
        protected = {name: store.array() for name, store in self._protected.items()}
        return AuditedRows(self._logits.array(), self._unequal.array(), protected)
