"""What an audit keeps of every row in a few bytes, a random sample of whole rows, and the store that holds either.

So a report's figures come from all rows of a file, however long it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from fairmend.auditing.comparisons import ScanResult
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints, in_chunks, writing_temporary
from fairmend.network import Model
from fairmend.spec import Spec

# Numbers of every row, in memory as long as they are few, and in a temporary file beyond that.


_MEMORY = 1 << 22  # bytes that a store keeps in memory


class RowStore:
    """Collects the parts of one long array: (rows,) or (rows, columns)."""

    def __init__(self) -> None:
        """Start without rows."""
        self._parts: list[npt.NDArray[Any]] = []
        self._waiting = self._rows = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    def add(self, part: npt.NDArray[Any]) -> None:
        """Add the next rows, which the caller no longer changes; all parts have one type."""
        if self._parts and part.dtype != self._parts[0].dtype:
            raise TypeError(f"rows of {part.dtype} follow rows of {self._parts[0].dtype}")
        self._parts.append(part)
        self._waiting += part.nbytes
        self._rows += len(part)
        if self._waiting > _MEMORY:
            self._write()

    def merge(self, other: RowStore) -> None:
        """Add the rows of another store."""
        if len(other):
            self.add(other.array())

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows as one array: a store that is sent to another process leaves its file behind."""
        parts = [self.array()] if len(self) else []
        return {"_parts": parts, "_waiting": sum(part.nbytes for part in parts), "_rows": self._rows, "_file": None}

    def array(self) -> npt.NDArray[Any]:
        """Return all rows; an array that was written to a file is read from there, and is not to be changed."""
        if self._file is None:
            return np.concatenate(self._parts)
        self._write()
        last = self._parts[0]
        shape = (self._rows, *last.shape[1:])
        return np.asarray(np.memmap(self._file, last.dtype, mode="r", shape=shape))

    def _write(self) -> None:
        """Move the parts to the file, but for an empty one that keeps their type."""
        with writing_temporary():
            if self._file is None:
                self._file = TemporaryFile(prefix="fairmend-")  # noqa: SIM115 - closed with the store
                finalize(self, self._file.close)  # the system deletes it with the last array that reads it
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._file.flush()
        self._parts, self._waiting = [self._parts[0][:0].copy()], 0


Columns = Mapping[str, npt.NDArray[Any]]

_ROWS = "row"


class RowSample:
    """A seeded random sample of the rows of a stream: all rows if they fit, else each with the same probability.

    Each row draws a number, and the rows with the lowest numbers are kept. So the sample depends neither on the order
    of the rows nor on how the stream is cut into pieces. The numbers are those of one sequence, which a part of the
    stream enters at its first row: samples of parts, merged, are the sample of the whole. The sample collects columns;
    the column "row" is the number of a row in the stream.
    """

    def __init__(self, most: int, seed: int, first: int = 0, limit: float = float("inf")) -> None:
        """Start without rows; at most `most` are kept, and `first` rows come before in the sequence of numbers.

        Rows with numbers from `limit` on are left out: those of a sample that this one will be merged into.
        """
        self._most = most
        # Not the stream that draws neighbours or inputs. Each row takes one step of the generator.
        self._rng = np.random.Generator(np.random.PCG64([seed, 1]).advance(first))
        self._numbers: list[Floats] = []
        self._columns: dict[str, list[npt.NDArray[Any]]] = {}
        self._kept, self.limit = 0, limit
        self.seen = 0

    def add(self, columns: Columns) -> None:
        """Add the next rows, by their columns (k, ...), which are copied."""
        count = len(next(iter(columns.values())))
        rows = np.arange(count, dtype=np.int64)
        self._take({_ROWS: rows, **columns}, self._rng.random(count))
        self.seen += count

    def merge(self, other: RowSample) -> None:
        """Add the sample of the rows that follow; it is emptied."""
        if other.seen:
            other.shrink()
            self._take({name: parts[0] for name, parts in other._columns.items()}, other._numbers[0])
            self.seen += other.seen

    def _take(self, columns: Columns, numbers: Floats) -> None:
        """Take in rows whose column "row" counts from the rows seen so far."""
        chosen = np.flatnonzero(numbers < self.limit)
        self._numbers.append(numbers[chosen])
        for name, values in columns.items():
            part = values[chosen]
            self._columns.setdefault(name, []).append(part + self.seen if name == _ROWS else part)
        self._kept += len(chosen)
        if self._kept > 2 * self._most:
            self.shrink()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the sample, in the order of the stream; read it after the last `add`."""
        self.shrink()
        return {name: parts[0] for name, parts in self._columns.items()}

    def shrink(self) -> None:
        """Join the parts, and keep the rows with the lowest numbers."""
        if not self._numbers:
            return
        numbers = np.concatenate(self._numbers)
        kept: slice | Ints = slice(None)
        if len(numbers) > self._most:
            kept = np.sort(np.argpartition(numbers, self._most)[: self._most])
            self.limit = float(numbers[kept].max())
        self._numbers = [numbers[kept]]
        self._kept = len(self._numbers[0])
        self._columns = {name: [np.concatenate(parts)[kept]] for name, parts in self._columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the generator and the rows that are not in the sample: it is finished when it is sent elsewhere."""
        self.shrink()
        return {name: value for name, value in self.__dict__.items() if name != "_rng"}


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

    def decide(self, net: Model) -> npt.NDArray[np.int16]:
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
