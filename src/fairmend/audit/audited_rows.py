"""What an audit knows of every row, in a few bytes each: so that a report's figures come from all rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Bools, FloatArray
from fairmend.audit.neighbours import ScanResult
from fairmend.spec import Spec

__all__ = ["AuditedRows", "RowCollector"]


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


class RowCollector:
    """Collects what is known of a stream of inputs."""

    def __init__(self) -> None:
        """Start without inputs."""
        self._logits: list[FloatArray] = []
        self._unequal: list[Bools] = []
        self._protected: dict[str, list[npt.NDArray[Any]]] = {}

    def add(self, spec: Spec, X: FloatArray, found: ScanResult) -> None:
        """Add the next inputs X (k, width), and what the scan found about them."""
        self._logits.append(found.logits)
        self._unequal.append(found.unequal)
        for feature in spec.protected:
            where = spec.columns(feature.name)
            column = feature.category_of(X[:, where]).astype(np.int32) if feature.one_hot else X[:, where.start].copy()
            self._protected.setdefault(feature.name, []).append(column)

    def merge(self, other: RowCollector) -> None:
        """Add the inputs that follow."""
        self._logits += other._logits
        self._unequal += other._unequal
        for name, parts in other._protected.items():
            self._protected.setdefault(name, []).extend(parts)

    def join(self) -> None:
        """Join the parts, so that they travel as few arrays."""
        self._logits, self._unequal = [np.concatenate(self._logits)], [np.concatenate(self._unequal)]
        for name, parts in self._protected.items():
            self._protected[name] = [np.concatenate(parts)]

    def rows(self) -> AuditedRows:
        """Return all inputs; read it once, after the last `add`."""
        self.join()
        return AuditedRows(self._logits[0], self._unequal[0], {name: part for name, (part,) in self._protected.items()})
