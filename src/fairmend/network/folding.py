"""Batch normalisation and scaling beside an affine layer: folded into it for proofs, and unfolded again for files.

A framework computes a norm as a step of its own, with its own roundings. The folded layer is what fairmend computes and
bounds. Its `Fold` keeps the layer and the norms as they are stored, for two purposes: the error of inference is that of
the steps which the framework computes, and a repaired layer is written back into the same steps.

The folded numbers are defined operation by operation (docs/certificate.md, "Folded layers"), because the checker folds
independently and must get the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError

_LEAST_VARIANCE = 1e-30  # below, float32 programs may take it for 0
_MOST = 2.0**60  # of means, shifts and reaches: products of them stay far from overflow in float64


@dataclass(frozen=True, eq=False)
class Norm:
    """(x − mean) / √(variance + epsilon) · gain + shift, for each unit, or for all with one number.

    A scale (x − mean)·gain + shift has no variance. `gain` and `shift` are None for 1 and 0. A BatchNorm layer has a
    name, its key prefix in a state dict.
    """

    where: str
    mean: npt.NDArray[Any]
    variance: npt.NDArray[Any] | None
    gain: npt.NDArray[Any] | None
    shift: npt.NDArray[Any] | None
    epsilon: float = 0.0
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Line:
    """x ↦ factor·x + shift for each unit, float64 (width,); `size` bounds the terms that make up the shift.

    `reach` bounds how much larger or smaller a number becomes on the way, in any order of the steps.
    """

    factor: Floats
    shift: Floats
    size: Floats
    reach: Floats


def line_of(norms: Sequence[Norm], width: int, source: str) -> Line:
    """Return what norms compute one after the other, in float64."""
    line = Line(np.ones(width), np.zeros(width), np.zeros(width), np.ones(width))
    for norm in norms:
        factor, shift, size, reach = _parts(norm, width, source)
        with np.errstate(all="ignore"):  # of what is not finite, which is refused below
            line = Line(
                factor * line.factor,
                factor * line.shift + shift,
                np.abs(factor) * line.size + size,
                reach * line.reach,
            )
        if not (np.maximum(line.reach, line.size) <= _MOST).all():
            raise FairmendError(
                f"{source}: {norm.where} multiplies or shifts by more than {_MOST:.0e}, or by less than {1 / _MOST:.0e}"
            )
    return line


def _parts(norm: Norm, width: int, source: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return factor, shift, size and reach of one norm: each (width,), float64."""
    mean = _wide(norm.mean, norm, width, source)
    factor = np.ones(width)
    if norm.variance is not None:
        variance = _wide(norm.variance, norm, width, source)
        spread = variance + norm.epsilon
        if not ((spread >= _LEAST_VARIANCE) & np.isfinite(spread) & (variance >= 0) & (norm.epsilon >= 0)).all():
            raise FairmendError(f"{source}: {norm.where} has a variance that is not positive, or a negative epsilon")
        factor = 1 / np.sqrt(spread)
    reach = np.where(np.abs(mean) <= _MOST, _reach(factor), np.inf)
    if norm.gain is not None:
        gain = _wide(norm.gain, norm, width, source)
        factor, reach = factor * gain, reach * _reach(gain)
    own = np.zeros(width) if norm.shift is None else _wide(norm.shift, norm, width, source)
    with np.errstate(over="ignore", invalid="ignore"):
        return factor, own - mean * factor, np.abs(own) + np.abs(mean * factor), reach


def _reach(factor: Floats) -> Floats:
    """Return the factors or their inverses, whichever are above 1."""
    size = np.abs(factor)
    with np.errstate(all="ignore"):
        return np.where(size == 0, 1.0, np.maximum(size, 1 / size))


def _wide(part: npt.NDArray[Any], norm: Norm, width: int, source: str) -> Floats:
    """Return a part in float64 with the shape (width,); a single number is repeated."""
    values = np.asarray(part, np.float64)
    if values.ndim == 0:
        values = np.full(width, values)
    if values.shape != (width,):
        raise FairmendError(f"{source}: {norm.where} is {values.size} wide, and the affine layer beside it {width}")
    return values


@dataclass(frozen=True, eq=False)
class DerivedBias:
    """The bias of a layer that stores none: weight·shift + constant, float64, with shift (in,) and constant (out,).

    The norms before and after the layer give both; without norms, both are 0.
    """

    shift: Floats
    constant: Floats

    @staticmethod
    def zero(weight: FloatArray) -> DerivedBias:
        """Return that of a layer with this weight and without norms."""
        out, width = weight.shape
        return DerivedBias(np.zeros(width), np.zeros(out))


@dataclass(frozen=True)
class Slot:
    """Where one of several layers is in the matrix that computes all of them at once: its rows and columns.

    ``inputs`` is how many columns that matrix has. Its other numbers in these rows are 0.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    inputs: int


@dataclass(frozen=True, eq=False)
class Part:
    """One of several affine layers whose outputs, each times its factor, are added up to a network's output.

    `block` is its number where it is one block of a layer whose blocks are stored together, `slot` its place where a
    file computes several at once.
    """

    name: str
    weight: FloatArray
    bias: FloatArray | None
    factor: float
    block: int | None = None
    slot: Slot | None = None


Summed = int | tuple[tuple[Norm, ...], tuple["Summed", ...]]
"""How a file adds up parts: one of them, by its number, or norms of the sum of several, or of one."""


@dataclass(frozen=True, eq=False)
class Fold:
    """An affine layer as it is stored, weight (out, in) and bias (out,), between the norms before and after it.

    `bias` is None where the layer has none. A joined layer has `parts`: their weights stand side by side in `weight`,
    their biases, times the factors, are added up in `bias`, and the factors of their weights are a norm before it.
    `summed` says how the file adds them up.
    """

    weight: FloatArray
    bias: FloatArray | None
    before: tuple[Norm, ...]
    after: tuple[Norm, ...]
    source: str
    parts: tuple[Part, ...] = ()
    summed: Summed = 0

    @staticmethod
    def join(parts: tuple[Part, ...], source: str, summed: Summed | None = None) -> Fold:
        """Return the one layer that adds up these, of what they read side by side; by default each times its factor."""
        if summed is None:
            summed = ((), tuple(_times(number, part.factor) for number, part in enumerate(parts)))
        weight = np.concatenate([part.weight for part in parts], axis=1)
        biases = [part.factor * part.bias.astype(np.float64) for part in parts if part.bias is not None]
        bias = _cast(np.asarray(sum(biases)), weight.dtype) if biases else None
        factors = np.concatenate([np.full(part.weight.shape[1], part.factor) for part in parts])
        scale = Norm("the sum at the output", np.zeros(()), None, factors, None)
        return Fold(weight, bias, (scale,) if (factors != 1).any() else (), (), source, parts, summed)

    @property
    def derived_bias(self) -> DerivedBias | None:
        """How the folded bias follows from the folded weight; None if the layer, or a norm after it, can hold any."""
        if self.bias is not None or self._shifts_last:
            return None
        inner, outer = self.lines()
        used = inner.factor != 0
        shift = np.divide(inner.shift, inner.factor, out=np.zeros(len(used)), where=used)
        unused = self.weight[:, ~used].astype(np.float64) @ inner.shift[~used]
        return DerivedBias(shift, outer.factor * unused + outer.shift)

    @property
    def _shifts_last(self) -> bool:
        """Whether the last norm after the layer is batch normalisation with a shift, which can hold a bias."""
        last = self.after[-1] if self.after else None
        return last is not None and last.shift is not None and last.variance is not None

    def lines(self) -> tuple[Line, Line]:
        """Return what the norms before and after the layer compute."""
        out, width = self.weight.shape
        return line_of(self.before, width, self.source), line_of(self.after, out, self.source)

    def folded(self) -> tuple[FloatArray, FloatArray]:
        """Return weight and bias of the one affine layer that computes all of it, rounded to the layer's dtype."""
        inner, outer = self.lines()
        dtype, raw = self.weight.dtype, self.weight.astype(np.float64)
        bias = np.zeros(len(raw)) if self.bias is None else self.bias.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # Network refuses what is not finite, by name
            weight = (raw * inner.factor * outer.factor[:, None]).astype(dtype)
            shifted = _add_products(raw, inner.shift, bias) if self.before else bias
            shift = (outer.factor * shifted + outer.shift).astype(dtype)
        vanished = (weight == 0) & (raw != 0) & (inner.factor != 0) & (outer.factor != 0)[:, None]
        if vanished.any():
            norm = (*self.before, *self.after)[0]
            raise FairmendError(f"{self.source}: {norm.where} makes weights beside it too small for {dtype}")
        return weight, shift

    def refit(self, weight: FloatArray, bias: FloatArray) -> Fold:
        """Return the stored layer that comes closest to this folded one, with the same norms.

        Stored numbers stay as they are where the folded ones did not change. A layer without a bias takes it from the
        last norm after it, if that has a shift to change; else its bias follows from the weight (`derived_bias`).
        """
        if self.parts:
            return self._refit_parts(weight, bias)
        inner, outer = self.lines()
        factor = inner.factor * outer.factor[:, None]
        raw = np.divide(weight.astype(np.float64), factor, out=np.zeros(weight.shape), where=factor != 0)
        was, was_bias = self.folded()
        raw = np.where(weight == was, self.weight, _cast(raw, self.weight.dtype))
        same = (raw == self.weight).all(axis=1) & (bias == was_bias)
        wide = raw.astype(np.float64)
        own = _add_products(wide, inner.shift, np.zeros(len(raw)))
        missing = bias - outer.shift
        if self.bias is None:
            if not self._shifts_last:
                return replace(self, weight=raw)
            last = self.after[-1]
            assert last.shift is not None
            shift = np.where(same, last.shift, _cast(last.shift + (missing - outer.factor * own), last.shift.dtype))
            return replace(self, weight=raw, after=(*self.after[:-1], replace(last, shift=shift)))
        own_bias = np.divide(missing, outer.factor, out=np.zeros(len(raw)), where=outer.factor != 0) - own
        return replace(self, weight=raw, bias=np.where(same, self.bias, _cast(own_bias, self.weight.dtype)))

    def _refit_parts(self, weight: FloatArray, bias: FloatArray) -> Fold:
        """Return the parts that come closest to this layer; the bias changes in the first part that has one, if any."""
        inner, _ = self.lines()
        raw = _cast(
            np.divide(weight, inner.factor, out=np.zeros(weight.shape), where=inner.factor != 0), self.weight.dtype
        )
        ends = np.cumsum([part.weight.shape[1] for part in self.parts])[:-1]
        parts = [replace(part, weight=own) for part, own in zip(self.parts, np.split(raw, ends, axis=1), strict=True)]
        biased = [k for k, part in enumerate(parts) if part.bias is not None]
        if biased:
            first, *rest = biased
            others = [parts[k].factor * np.asarray(parts[k].bias, np.float64) for k in rest]
            own = (bias - sum(others, np.zeros(len(weight)))) / parts[first].factor
            parts[first] = replace(parts[first], bias=_cast(own, self.weight.dtype))
        return Fold.join(tuple(parts), self.source, self.summed)


def _times(part: int, factor: float) -> Summed:
    """Return a part times its factor."""
    return (
        part if factor == 1 else ((Norm("the sum at the output", np.zeros(()), None, np.array(factor), None),), (part,))
    )


def _add_products(weight: Floats, values: Floats, bias: Floats) -> Floats:
    """Return weight @ values + bias (rows,), each row summed exactly and rounded once, whatever the machine."""
    products = weight * values
    if not (np.isfinite(products).all() and np.isfinite(bias).all()):  # which Network refuses
        return np.full(len(bias), np.nan)
    return np.array([math.fsum([*row, start]) for row, start in zip(products, bias, strict=True)])


def _cast(values: Floats, dtype: np.dtype[Any]) -> FloatArray:
    with np.errstate(over="ignore"):  # Network refuses what became infinite
        return values.astype(dtype)
