"""The entry of a model: the canonical map as data, which sends every row to the representative of its class.

A model reads one or several *ports*. The entry replaces some of their columns by constants (*cuts*) and others by rows
of a table (*lookups*); all other columns pass bit for bit. Whatever follows reads what the entry gives, and nothing
else: so its output is the same for all members of a class. `canonical` chooses cuts and tables for a spec, `onnx_entry`
writes an entry as the first nodes of a graph, and docs/classes.md describes the form that the checker reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Ints
from fairmend.models.ports import Port

Matrix = NDArray[Any]  # what a port reads (rows, width): numbers, or texts as objects

ELEMENT_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "bool": np.dtype(np.bool_),
    "string": np.dtype(object),
}


@dataclass(frozen=True)
class Code:
    """A whole number that is read off a row: the sum of the weights whose comparison holds, at most ``most``.

    ``columns`` is one column, which is compared with every constant, or one for each constant.
    """

    port: int
    columns: tuple[int, ...]
    compare: str
    constants: tuple[Any, ...]
    weights: tuple[int, ...]

    @property
    def most(self) -> int:
        """The largest code."""
        return len(self.weights) if set(self.weights) <= {1} else max(self.weights)

    def compared(self, matrices: Sequence[Matrix]) -> NDArray[np.bool_]:
        """Return which comparisons hold (rows, constants)."""
        columns = matrices[self.port][:, list(self.columns)]
        constants = np.array(self.constants, dtype=columns.dtype)[None]
        return np.asarray(columns >= constants if self.compare == ">=" else columns == constants, dtype=np.bool_)

    def read(self, matrices: Sequence[Matrix]) -> Ints:
        """Return the code of each row (rows,)."""
        total = self.compared(matrices).astype(np.int64) @ np.array(self.weights, dtype=np.int64)
        return np.minimum(total, self.most)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "port": self.port,
            "columns": list(self.columns),
            "compare": self.compare,
            "with": list(self.constants),
            "weights": list(self.weights),
        }


@dataclass(frozen=True, eq=False)
class TableLookup:
    """Columns that are replaced by the row of ``table (rows, columns)`` that the codes give, the first the slowest."""

    port: int
    columns: tuple[int, ...]
    codes: tuple[Code, ...]
    table: Matrix

    @property
    def strides(self) -> list[int]:
        """How far apart in the table rows are that differ by 1 in each code."""
        sizes = [code.most + 1 for code in self.codes]
        return [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]

    def find(self, matrices: Sequence[Matrix]) -> Matrix:
        """Return the columns (rows, columns) that replace those of the port."""
        index = sum(code.read(matrices) * stride for code, stride in zip(self.codes, self.strides, strict=True))
        return self.table[index]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "port": self.port,
            "columns": list(self.columns),
            "codes": [code.to_dict() for code in self.codes],
            "table": self.table.tolist(),
        }


@dataclass(frozen=True)
class Cut:
    """A column that is replaced by a constant, whatever it holds."""

    port: int
    column: int
    value: Any


@dataclass(frozen=True, eq=False)
class Entry:
    """A canonical map for the ports of a model."""

    ports: tuple[Port, ...]
    widths: tuple[int, ...]
    cuts: tuple[Cut, ...]
    lookups: tuple[TableLookup, ...]

    def apply(self, matrices: Sequence[Matrix]) -> list[Matrix]:
        """Return what the model reads behind the entry, given what its ports hold, each (rows, width)."""
        found = [matrix.copy() for matrix in matrices]
        for cut in self.cuts:
            found[cut.port][:, cut.column] = cut.value
        for lookup in self.lookups:
            found[lookup.port][:, list(lookup.columns)] = lookup.find(matrices)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the plain data of a certificate."""
        return {
            "ports": [
                {
                    "name": port.name,
                    "type": port.type,
                    "rank": port.rank,
                    "width": width,
                    "features": list(port.features),
                }
                for port, width in zip(self.ports, self.widths, strict=True)
            ],
            "cuts": [{"port": cut.port, "column": cut.column, "value": cut.value} for cut in self.cuts],
            "lookups": [lookup.to_dict() for lookup in self.lookups],
        }
