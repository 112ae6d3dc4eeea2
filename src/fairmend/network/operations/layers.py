"""Operations with numbers of their own: the affine layer, scaling, and the look-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import Numbers, Operation, Values, as_like, require_sources

if TYPE_CHECKING:
    from torch import Tensor

    from fairmend.network.description import Description
    from fairmend.network.folding import DerivedBias, Fold, Line, Norm, Slot
    from fairmend.network.operations.ties import Tie

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """Weight and bias (None: there is none) as a file stores them, and the norms beside the layer.

    The weight is empty where a layer has none. `block` is set where they are those of one block of a layer whose blocks
    are stored together, `slot` where a file computes several layers at once.
    """

    name: str
    weight: FloatArray
    bias: FloatArray | None
    norms: tuple[Norm, ...]
    block: int | None = None
    slot: Slot | None = None


class _ByBits(Operation):
    """An operation with arrays, which are compared bit by bit: −0.0 differs from 0.0."""

    def _bits(self) -> tuple[object, ...]:
        return tuple((array.shape, array.dtype.str, array.tobytes()) for array in self.arrays)

    def __eq__(self, other: object) -> bool:
        """Compare the bits of all arrays."""
        return isinstance(other, _ByBits) and type(other) is type(self) and other._bits() == self._bits()

    def __hash__(self) -> int:
        """Hash the bits that `__eq__` compares."""
        return hash(self._bits())


@dataclass(frozen=True, eq=False)
class Affine(_ByBits):
    """x ↦ weight·x + bias: weight (out, in), bias (out,), both read-only copies of one dtype.

    It is the only operation whose numbers a repair changes, besides the tables of look-ups.
    `fold` is how the layer is stored where batch normalisation or scaling is folded into it (`Affine.from_fold`).
    `stores_bias` is False for a plain layer whose file or module has no bias: it is 0, and stays 0 in a repair.
    `tie` is how the matrix repeats the numbers that are stored, where it does (`Affine.from_tie`).
    """

    weight: FloatArray
    bias: FloatArray
    fold: Fold | None = field(default=None, repr=False)
    stores_bias: bool = field(default=True, repr=False)
    tie: Tie | None = field(default=None, repr=False)
    kind = "affine"

    @staticmethod
    def without_bias(weight: FloatArray) -> Affine:
        """Return a layer that has no bias."""
        return Affine(weight, np.zeros(np.shape(weight)[:1], np.asarray(weight).dtype), stores_bias=False)

    @staticmethod
    def from_fold(fold: Fold) -> Affine:
        """Return the layer with its norms folded into it."""
        return Affine(*fold.folded(), fold)

    @staticmethod
    def from_tie(tie: Tie, weight: FloatArray, bias: FloatArray | None) -> Affine:
        """Return the layer of stored numbers; of the weights, any array with them in order, or none."""
        matrix = tie.matrix(weight)
        whole = np.zeros(len(matrix), matrix.dtype) if bias is None else tie.spread(bias.reshape(-1), tie.bias_places)
        return Affine(matrix, whole, None, bias is not None, tie)

    def __post_init__(self) -> None:
        """Copy the arrays, so that no view of them can change the layer, and check their shapes and dtypes."""
        for part in ("weight", "bias"):
            array = np.array(getattr(self, part), order="C")
            if array.dtype.newbyteorder("=") not in DTYPES:
                raise FairmendError(
                    f"the {part} is {array.dtype.name}; fairmend computes in float32 or float64: "
                    "convert the model first (float32 holds every float16 and bfloat16 number exactly)"
                )
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
            array.setflags(write=False)
            object.__setattr__(self, part, array)
        if self.weight.ndim != 2 or 0 in self.weight.shape:
            raise FairmendError(f"the weight has shape {self.weight.shape}; it must be (out, in), with neither 0")
        if self.bias.shape != self.weight.shape[:1]:
            raise FairmendError(
                f"the bias has shape {self.bias.shape}; with a weight of shape {self.weight.shape} "
                f"it must be ({self.weight.shape[0]},)"
            )
        if self.bias.dtype != self.weight.dtype:
            raise FairmendError(f"the weight is {self.weight.dtype}, the bias {self.bias.dtype}; use one dtype")
        if not self.stores_bias and self.bias.any():
            raise FairmendError("the layer stores no bias, but the bias given is not 0")

    @property
    def is_fixed(self) -> bool:
        """Whether it gives what it reads, in the place of a head, and no file has a place for another matrix."""
        return self.tie is not None and self.tie.fixed

    @property
    def derived_bias(self) -> DerivedBias | None:
        """How the bias follows from the weight; None if the layer can store any bias."""
        if self.fold is not None:
            return self.fold.derived_bias
        if self.stores_bias:
            return None
        from fairmend.network.folding import DerivedBias

        return DerivedBias.zero(self.weight)

    @property
    def weights(self) -> FloatArray:
        """The weights, row by row, and then the biases, unless none are stored; each stored number once."""
        weight, bias = self.weight, self.bias
        if self.tie is not None:
            weight, bias = self.tie.stored_weight(weight), self.tie.stored_bias(bias)
        return np.concatenate([weight.ravel(), bias if self.derived_bias is None else bias[:0]])

    def with_weights(self, weights: FloatArray) -> Affine:
        """Return a tied layer with other stored numbers."""
        assert self.tie is not None
        count = self.tie.blocks * self.tie.outputs * self.tie.inputs if self.tie.weighted else 0
        return Affine.from_tie(self.tie, weights[:count], weights[count:] if self.stores_bias else None)

    @property
    def shared_as(self) -> str:
        return "" if self.tie is None else self.tie.key

    def astype(self, dtype: npt.DTypeLike) -> Affine:
        """Return the layer in another dtype; numbers that overflow become infinite, which Network refuses."""
        if self.weight.dtype == dtype:
            return self
        with np.errstate(over="ignore"):
            weight, bias = self.weight.astype(dtype), self.bias.astype(dtype)
            return Affine(weight, bias, stores_bias=self.stores_bias, tie=self.tie)

    def stored(self, name: str) -> tuple[StoredLayer, ...]:
        """Return the layer as a file stores it, under its name: a joined layer in several, a fixed one not at all."""
        fold, tie = self.fold, self.tie
        if self.is_fixed:
            return ()
        if tie is not None:
            bias = tie.stored_bias(self.bias) if self.stores_bias else None
            return (StoredLayer(tie.key or name, tie.stored_weight(self.weight), bias, ()),)
        if fold is None:
            return (StoredLayer(name, self.weight, self.bias if self.stores_bias else None, ()),)
        if fold.parts:
            return tuple(
                StoredLayer(part.name, part.weight, part.bias, (), part.block, part.slot) for part in fold.parts
            )
        return (StoredLayer(name, fold.weight, fold.bias, (*fold.before, *fold.after)),)

    def stored_as(self, other: Affine) -> Affine:
        """Return the closest layer that can be stored as `other` is.

        It has the dtype of `other` and the norms beside it. Where `other` stores no bias, neither does the layer, and
        where its numbers repeat, so do those of the layer.
        """
        if self.fold is None and other.fold is not None:
            return Affine.from_fold(other.fold.refit(self.weight, self.bias))
        cast = self.astype(other.weight.dtype)
        if cast.tie is not None and cast.tie == other.tie:
            return cast
        if other.tie is not None:
            weight = other.tie.stored_weight(cast.weight)
            bias = other.tie.stored_bias(cast.bias) if other.stores_bias else None
            return Affine.from_tie(other.tie, weight, bias)
        return cast if other.stores_bias or self.fold is not None else Affine.without_bias(cast.weight)

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != self.weight.shape[1]:
            raise FairmendError(f"takes {self.weight.shape[1]} values, but the layer before it gives {widths[0]}")
        return int(self.weight.shape[0])

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute weight·x + bias for each row; the product for so many rows at a time, or for all."""
        x, step = values[0], max(1, len(out)) if part is None else part
        for start in range(0, len(out), step):
            np.matmul(x[start : start + step], self.weight.T, out=out[start : start + step])
        out += self.bias

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        return self.weight, self.bias

    @property
    def weight_sizes(self) -> Floats:
        """The sizes of the weights of each number that it reads, added up."""
        return np.asarray(np.abs(self.weight.astype(np.float64)).sum(axis=0))

    def numbers(self, like: Values) -> Numbers:
        return as_like(like, self.weight), as_like(like, self.bias)

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        weight = (numbers or self.numbers(parts[0]))[0]
        return parts[0] @ weight.T

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        return [coefficients @ (numbers or self.numbers(coefficients))[0]]

    def forms(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], first: Tensor, numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return the forms from one product of the middle and one of half the distance.

        W+ a + W- b = W (a + b)/2 + |W| (a - b)/2.
        """
        weight, bias = numbers or self.numbers(first)
        middle = ((lower[0] + upper[0]) @ (weight / 2).T).addcmul(first, bias)
        spread = (upper[0] - lower[0]) @ (weight / 2).abs().T
        return middle - spread, middle + spread

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return the interval, Eq. (ibp-linear)."""
        weight, bias = numbers or self.numbers(lower[0])
        middle = bias.addmm(lower[0] + upper[0], weight.T, alpha=0.5)
        spread = (upper[0] - lower[0]) @ weight.abs().T / 2
        return middle - spread, middle + spread

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.asarray((self.weight != 0).astype(np.float32) @ reached[0].astype(np.float32) > 0)

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        """Add the layer: as it is stored, with the norms beside it, or with these folded into it."""
        if self.is_fixed:
            return sources[0]
        if self.tie is not None and into.stored:
            (stored,) = self.stored(name)
            return into.tied(self.tie, stored, sources)
        if self.fold is None or not into.stored:
            return into.layer(name, self.weight, self.bias if self.stores_bias or not into.stored else None, sources)
        if self.fold.parts:
            reads = into.sources_of(sources[0], len(self.fold.parts))
            return into.joined(self.fold, reads)
        before = into.norms(self.fold.before, sources[0])
        return into.norms(self.fold.after, into.layer(name, self.fold.weight, self.fold.bias, [before]))


@dataclass(frozen=True, eq=False)
class Scale(_ByBits):
    """factor·x + shift for each unit, both ``(width,)``: what ``norms`` compute one after the other.

    That is batch normalisation and scaling where no affine layer beside it can take it in.
    `factor` and `shift` are the float64 numbers of `line`, rounded once to the dtype of the network.
    """

    norms: tuple[Norm, ...]
    units: int
    dtype: np.dtype[np.floating]
    source: str = ""
    kind = "scale"
    line: Line = field(init=False, repr=False)
    factor: FloatArray = field(init=False, repr=False)
    shift: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute factor and shift."""
        from fairmend.network.folding import line_of

        dtype = np.dtype(self.dtype)
        line = line_of(self.norms, self.units, self.source)
        with np.errstate(over="ignore"):
            factor, shift = line.factor.astype(dtype), line.shift.astype(dtype)
        if not (np.isfinite(factor).all() and np.isfinite(shift).all()) or ((factor == 0) & (line.factor != 0)).any():
            raise FairmendError(f"{self.source}: {self.norms[0].where} has a factor or shift that is not a {dtype}")
        for name, value in (("dtype", dtype), ("line", line), ("factor", factor), ("shift", shift)):
            object.__setattr__(self, name, value)

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != self.units:
            raise FairmendError(f"a scaling of {self.units} units reads {widths[0]} numbers")
        return self.units

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        np.multiply(values[0], self.factor, out=out)
        out += self.shift

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        return self.factor, self.shift

    def numbers(self, like: Values) -> Numbers:
        return as_like(like, self.factor), as_like(like, self.shift)

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        return parts[0] * (numbers or self.numbers(parts[0]))[0]

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        return [self.combine([coefficients], numbers)]

    def forms(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], first: Tensor, numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        factor, shift = numbers or self.numbers(first)
        rising = factor.clamp(min=0)
        ends = (lower[0], upper[0]), (upper[0], lower[0])
        below, above = (rising * one + (factor - rising) * other for one, other in ends)
        return below.addcmul(first, shift), above.addcmul(first, shift)

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        factor, shift = numbers or self.numbers(lower[0])
        ends = lower[0] * factor, upper[0] * factor
        return ends[0].minimum(ends[1]) + shift, ends[0].maximum(ends[1]) + shift

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.asarray(reached[0] & (self.factor != 0)[:, None])

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return columns[0]

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        if into.stored:
            return into.norms(self.norms, sources[0])
        return into.add("scale", sources, gain=self.factor.tolist(), shift=self.shift.tolist())

    def astype(self, dtype: npt.DTypeLike) -> Scale:
        """Return the scaling with the same factor and shift, cast to another dtype; its norms become one."""
        from fairmend.network.folding import Norm

        kind: np.dtype[Any] = np.dtype(dtype)
        if self.dtype == kind:
            return self
        zero = np.zeros(self.units)
        norm = Norm(self.norms[0].where if self.norms else "a scaling", zero, None, self.factor, self.shift)
        return Scale((norm,), self.units, kind, self.source)


@dataclass(frozen=True, eq=False)
class Lookup(_ByBits):
    """Row k of ``table (rows, width)`` where the source, a single column, holds the whole number k: an embedding.

    A table that is not ``stored``, that of a one-hot code, cannot change: no file has a place for it.
    """

    table: FloatArray
    stored: bool = True
    kind = "lookup"
    linear = False

    def __post_init__(self) -> None:
        """Copy the table, so that no view of it can change the operation."""
        table = np.array(self.table, order="C")
        if table.ndim != 2 or 0 in table.shape:
            raise FairmendError(f"the table of a look-up has shape {table.shape}; it must be (rows, width)")
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != 1:
            raise FairmendError(f"a look-up reads 1 column, not {widths[0]}")
        return int(self.table.shape[1])

    def indices(self, values: FloatArray) -> npt.NDArray[np.int64]:
        """Return the row numbers in values ``(rows, 1)``; refuse what is not a row of the table."""
        column = values[:, 0]
        index = column.astype(np.int64)
        wrong = np.flatnonzero((index != column) | (index < 0) | (index >= len(self.table)))
        if len(wrong):
            row = wrong[0]
            raise FairmendError(
                f"row {row} holds {column[row]:g} where the network looks up a table of {len(self.table)} rows; "
                f"it must be a whole number from 0 to {len(self.table) - 1}"
            )
        return index

    def hull(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and largest numbers of the rows from lower to upper, ``(pieces,)``: each (pieces, width).

        Where every piece has one row, both are the same array.
        """
        last = len(self.table) - 1
        first = np.clip(np.floor(lower), 0, last).astype(np.int64)
        until = np.clip(np.ceil(upper), 0, last).astype(np.int64)
        if (first == until).all():
            rows = self.table[first]
            return rows, rows
        ranges, inverse = np.unique(np.stack([first, until]), axis=1, return_inverse=True)
        parts = [self.table[start : stop + 1] for start, stop in ranges.T.tolist()]
        low, high = (np.stack([end(part, axis=0) for part in parts]) for end in (np.min, np.max))
        return low[inverse.reshape(-1)], high[inverse.reshape(-1)]

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        np.take(self.table, self.indices(values[0]), axis=0, out=out, mode="clip")

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        table: Tensor = as_like(values[0], self.table)
        return table[values[0][..., 0].long()]

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        """Return 0: the row does not change with a small change of its number."""
        return [np.zeros_like(values[0])]

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        return (self.table,)

    @property
    def weights(self) -> FloatArray:
        return self.table.ravel() if self.stored else self.table[:0].ravel()

    @property
    def weight_sizes(self) -> Floats:
        """By how much the numbers of the rows differ, added up."""
        return np.array([np.ptp(self.table.astype(np.float64), axis=0).sum()])

    def reached(self, reached: Sequence[Bools]) -> Bools:
        varies = (self.table != self.table[0]).any(axis=0)
        return np.asarray(reached[0] & varies[:, None])

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return np.broadcast_to(columns[0], (width,))

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        """Add the look-up: of a table, or of a one-hot code."""
        if not self.stored:
            return into.add("lookup", sources, classes=len(self.table))
        own = name if name and into.stored else f"tables.{into.number}"
        return into.add("lookup", sources, table=into.keep(f"{own}.weight", self.table))

    def astype(self, dtype: npt.DTypeLike) -> Lookup:
        with np.errstate(over="ignore"):
            return self if self.table.dtype == dtype else Lookup(self.table.astype(dtype), self.stored)
