"""Inputs of any origin in slices, which an audit or a worker reads in blocks of one size, however they arrive.

A table in files has many slices, which are audited wherever there is room. Inputs in memory and samples are one slice,
whose blocks are scanned wherever there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.spec import Spec
from fairmend.spec.read_values import RowsError, is_frame
from fairmend.tables import TableSlice, TableStream
from fairmend.tables.stream import describe_files, read_from_elsewhere, require_visible

if TYPE_CHECKING:
    import pandas as pd


Inputs: TypeAlias = Union["pd.DataFrame", npt.ArrayLike, "Iterable[pd.DataFrame | npt.ArrayLike]"]

Check: TypeAlias = "Callable[[pd.DataFrame], None]"
"""Refuses people in the user's own values that a model would read as others."""

_ROWS, _NUMBERS = 65_536, 2_000_000


def known_length(X: Inputs) -> int:
    """Return the number of inputs, or 0 for a stream, whose length only its end tells."""
    return 0 if _is_stream(X) else len(X)  # type: ignore[arg-type]


def encode_chunks(spec: Spec, X: Inputs, dtype: npt.DTypeLike, check: Check | None = None) -> Iterator[FloatArray]:
    """Yield X in pieces of any size, checked and encoded."""
    done = 0
    for chunk in _chunks(X, block_rows(spec)):
        if check is not None and is_frame(chunk):
            check(chunk)
        try:
            encoded = spec.as_inputs(chunk, dtype, first_row=done)
        except RowsError:
            if not _is_stream(X):
                spec.as_inputs(X, dtype)  # type: ignore[arg-type]  # raises the same error, counted over all rows
            raise
        done += len(encoded)
        yield _kept(encoded, chunk) if _is_stream(X) else encoded


def cut_blocks(pieces: Iterable[FloatArray], size: int) -> Iterator[FloatArray]:
    """Yield inputs that come in pieces of any size in blocks of one size; the last block may be smaller."""
    waiting: list[FloatArray] = []  # the start of a block, in pieces
    rows = 0
    for piece in pieces:
        start = 0
        while len(piece) - start >= size - rows:
            end = start + size - rows
            block = piece[start:end]
            yield np.concatenate([*waiting, block]) if waiting else block
            start, waiting, rows = end, [], 0
        if start < len(piece):
            waiting.append(piece[start:].copy() if start else piece)
            rows += len(piece) - start
    if rows:
        yield np.concatenate(waiting)


def sample_blocks(spec: Spec, samples: int, seed: int, dtype: npt.DTypeLike) -> Iterator[FloatArray]:
    """Yield `samples` uniform samples of the input space, in blocks."""
    rng, size = np.random.default_rng(seed), block_rows(spec)
    for start in range(0, samples, size):
        yield spec.sample_inputs(min(size, samples - start), rng, dtype)


def block_rows(spec: Spec) -> int:
    """Return the number of inputs in a block: fewer if they are wide."""
    return max(64, min(_ROWS, _NUMBERS // spec.width))


def _kept(encoded: FloatArray, chunk: pd.DataFrame | npt.ArrayLike) -> FloatArray:
    """Return inputs that stay as they are, even if a stream fills the array of a chunk again for the next one."""
    return encoded if is_frame(chunk) or not np.may_share_memory(encoded, np.asarray(chunk)) else encoded.copy()


def _is_stream(X: Inputs) -> bool:
    return (
        isinstance(X, Iterable)
        and not isinstance(X, Sequence | str)
        and not is_frame(X)
        and not hasattr(X, "__array__")
    )


def _chunks(X: Inputs, size: int) -> Iterator[pd.DataFrame | npt.ArrayLike]:
    if _is_stream(X):
        yield from (chunk for chunk in X if len(chunk))  # type: ignore[union-attr, arg-type, misc]
        return
    if is_frame(X):
        yield from (X.iloc[start : start + size] for start in range(0, len(X), size))
        return
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        yield matrix  # Spec.as_inputs raises the error
        return
    yield from (matrix[start : start + size] for start in range(0, len(matrix), size))


Witnesses = Callable[[Ints, FloatArray, FloatArray], None]
"""Called with rows (k,) and the worst pair of each: two arrays (k, width), the first of them the inputs themselves if
the claim is about classes."""


class Reading:
    """The inputs of a slice, read once and in order; iterating yields pieces (k, width) of any size.

    Attributes
    ----------
    first : how many rows of the data come before
    rows : how many rows the slice has, 0 if that is not known; some may be left out
    """

    first = rows = 0

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the inputs."""
        raise NotImplementedError

    def add_pairs(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Take the worst pair of unequal inputs: their rows (k,) among the inputs of the slice, and two (k, width)."""

    def finish(self, inputs: int) -> None:
        """Take that the first so many inputs of the slice are done: no pairs of them will follow."""

    def notes(self) -> Any:
        """Return what was noted on the way, after the last input; plain data."""
        return None


class SliceReader(Protocol):
    """What reads a slice, here or on a worker.

    Attributes
    ----------
    total : how many inputs all slices have, 0 if that is not known
    from_files : whether reading takes time, so that it is worth doing ahead
    wants_pairs : whether readings want the worst pair of every unequal input
    """

    @property
    def total(self) -> int: ...  # noqa: D102
    @property
    def from_files(self) -> bool: ...  # noqa: D102
    @property
    def wants_pairs(self) -> bool: ...  # noqa: D102

    def read(self, number: int) -> Reading:
        """Return the inputs of a slice."""


class SlicedInputs:
    """Inputs in slices: a `SliceReader` that knows how many there are.

    Attributes
    ----------
    count : how many slices there are
    note_classes : the classes of what readings note
    """

    count = 1
    total = 0
    from_files = False
    note_classes: tuple[type, ...] = ()
    witnesses: Witnesses | None = None

    @property
    def wants_pairs(self) -> bool:
        """Whether readings want the worst pair of every unequal input."""
        return self.witnesses is not None

    def read(self, number: int) -> Reading:
        """Return the inputs of a slice."""
        raise NotImplementedError

    def take(self, notes: Any, before: int) -> None:
        """Take the notes of the next slice; so many inputs came before it."""

    def for_workers(self) -> SliceReader:
        """Return what a worker needs to read a slice; never needed of a single one, of which workers get blocks."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return a text that changes if the data changes; empty if the tasks themselves hold the data."""
        return ""

    def error_for_none(self) -> FairmendError:
        """Return the error that there are no inputs."""
        return FairmendError("X has no rows; give at least one input")


class GivenInputs(SlicedInputs, Reading):
    """Inputs in memory, an iterator over them, or samples: one slice, read once."""

    def __init__(self, inputs: Iterator[FloatArray], rows: int, witnesses: Witnesses | None = None) -> None:
        self._inputs, self.witnesses = inputs, witnesses
        self.total = self.rows = rows

    @classmethod
    def of(
        cls,
        spec: Spec,
        X: Inputs,
        dtype: npt.DTypeLike,
        rows: int | None,
        witnesses: Witnesses | None,
        check: Check | None = None,
    ) -> GivenInputs:
        """Return inputs that are encoded or not."""
        return cls(encode_chunks(spec, X, dtype, check), rows or known_length(X), witnesses)

    @classmethod
    def valid(cls, X: FloatArray, witnesses: Witnesses | None = None) -> GivenInputs:
        """Return inputs (inputs, width) that were checked before, in the type that the network computes in."""
        return cls(iter((X,)), len(X), witnesses)

    @classmethod
    def samples(
        cls, spec: Spec, samples: int, seed: int, dtype: npt.DTypeLike, witnesses: Witnesses | None
    ) -> GivenInputs:
        """Return uniform samples of the input space."""
        spec.require_ranges("an audit of random samples", "Audit data (--data), or give them a range or categories.")
        return cls(sample_blocks(spec, samples, seed, dtype), samples, witnesses)

    def read(self, number: int) -> GivenInputs:
        """Return the inputs themselves."""
        return self

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the inputs."""
        return self._inputs

    def add_pairs(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Hand the pairs to the caller."""
        if self.witnesses is not None:
            self.witnesses(rows, X, other)


class TableInputs(SlicedInputs):
    """A table in files, in the user's own values."""

    from_files = True

    def __init__(
        self,
        spec: Spec,
        dtype: npt.DTypeLike,
        table: TableStream,
        witnesses: Witnesses | None,
        check: Check | None = None,
    ) -> None:
        self._spec, self._dtype, self._table, self.witnesses, self._check = spec, dtype, table, witnesses, check
        self.count, self.total = len(table.parts), table.total
        self._has_pairs_taken = witnesses is not None  # also on a worker, which has no callback

    @property
    def wants_pairs(self) -> bool:
        """Whether readings want the worst pair of every unequal input."""
        return self._has_pairs_taken

    def read(self, number: int) -> TableReading:
        """Return the inputs of a slice."""
        return TableReading(self._spec, self._dtype, self._table.slices()[number], self._check)

    def take(self, notes: list[tuple[Ints, FloatArray, FloatArray]], before: int) -> None:
        """Hand the pairs to the caller."""
        if self.witnesses is not None:
            for rows, X, other in notes:
                self.witnesses(before + rows, X, other)

    def for_workers(self) -> TableInputs:
        """Return what a worker needs, without the callback."""
        other = copy(self)
        other._table, other.witnesses = read_from_elsewhere(self._table), None
        return other

    def describe(self) -> str:
        """Return a digest of the files' names, sizes and times."""
        return describe_files(self._table)


class TableReading(Reading):
    """A slice of a table, encoded as it is read."""

    def __init__(self, spec: Spec, dtype: npt.DTypeLike, part: TableSlice, check: Check | None) -> None:
        self._spec, self._dtype, self._part, self._check = spec, dtype, part, check
        self.first, self.rows = part.first, part.rows
        self._pairs: list[tuple[Ints, FloatArray, FloatArray]] = []

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the inputs."""
        require_visible(self._part)
        done = self.first
        for frame in self._part:
            if self._check is not None:
                self._check(frame)
            yield self._spec.as_inputs(frame, self._dtype, first_row=done)
            done += len(frame)

    def add_pairs(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Keep the pairs."""
        self._pairs.append((rows, X, other))

    def notes(self) -> list[tuple[Ints, FloatArray, FloatArray]]:
        """Return the pairs."""
        return self._pairs
