"""The affine layer W x + b, batch normalisation and scaling, and how one is folded into the other.

A program computes these steps one after the other, each with its own roundings. Bounds are those of the one affine
layer that all of them fold into, in numbers that are defined operation by operation. What the program computes is off
from that layer by the roundings of its steps (`inference_error`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.operations.base import (
    PER_UNIT,
    Bools,
    Derivatives,
    Form,
    Interval,
    Operation,
    Read,
    Terms,
    lost_in_products,
    magnitude,
    once,
    one_source,
    total,
)
from fairmend_check.kernel.rounding import (
    TINY,
    Array,
    Precision,
    affine,
    ball,
    down,
    gamma,
    power_below,
    spectral_norm,
    up,
)

ROUNDINGS = 24  # of one norm: of its factor, computed in any order, of the product with it, and of the sum
_LEAST_VARIANCE = 1e-30
_MOST = 2.0**60  # of means, shifts and reaches
_ADDED = 2.0**-50  # of 2^14 terms of a shift of this size, scaled by _MOST, one is a normal number in float32
_SINGLE = 2.0**-22  # four roundings in float32: of a number, its inverse, and its product with others


@dataclass(frozen=True, eq=False)
class Norm:
    """x -> factor x + shift for each unit, (width,) or () for all; ``size`` bounds the terms of the shift.

    ``reach`` bounds how much larger or smaller a number becomes on the way, in any order of the steps: a product of
    factors may be 1, although float32 computes 0 or infinity after the first of them. ``singles`` counts scalings by
    one number for all units, which ONNX Runtime rounds to float32 even in a float64 model.
    """

    factor: Array
    shift: Array
    size: Array
    reach: Array
    roundings: int = ROUNDINGS
    singles: int = 0

    def grown(self, size: Array) -> Array:
        """Bound the numbers on the way, from those that enter it."""
        return np.asarray(2 * (size * self.reach + self.size)) if self.roundings else size

    def units(self, u: float) -> float:
        """Return how far the steps are off, relative to the sizes of their terms, where one rounding is off by u."""
        return self.roundings * u + (self.singles * _SINGLE if u < _SINGLE / 4 else 0.0)


@dataclass(frozen=True, eq=False)
class Fold:
    """An affine layer as it is stored, weight (out, in) and bias (out,), and what is before and after it."""

    weight: Array
    bias: Array
    before: Norm
    after: Norm


def batch_norm(mean: Any, variance: Any, gain: Any, shift: Any, epsilon: float) -> Norm:
    """Return (x - mean) / sqrt(variance + epsilon) gain + shift; without gain and shift, 1 and 0."""
    variance = _floats(variance)
    spread = variance + epsilon
    # A sum of two signs could be a difference that is lost in float32.
    if not ((spread >= _LEAST_VARIANCE) & np.isfinite(spread) & (variance >= 0) & (epsilon >= 0)).all():
        raise CheckError("batch normalisation has a variance that is not positive, or a negative epsilon")
    return replace(scaling(mean, 1 / np.sqrt(spread), shift, *(() if gain is None else (_floats(gain),))), singles=0)


def scaling(mean: Any, gain: Any, shift: Any, *more: Any) -> Norm:
    """Return (x - mean) gain + shift; without shift, 0. There may be ``more`` factors of the gain.

    One that only multiplies, or only adds, has half the roundings: two of these, as a file may have them, are one norm.
    """
    factor, own, middle = _floats(gain), np.zeros(()) if shift is None else _floats(shift), _floats(mean)
    reach = _reach(factor)
    with np.errstate(all="ignore"):
        for part in map(_floats, more):
            factor, reach = factor * part, reach * _reach(part)
        offset = middle * factor
        reach = np.where(np.abs(middle) <= _MOST, reach, np.inf)
        single = factor.size == 1 and bool((np.abs(np.frexp(factor)[0]) != 0.5).any())  # a power of 2 is exact
        steps = int(middle.any()) + int((factor != 1).any()) + int(own.any())
        roundings = ROUNDINGS // 2 if steps < 2 and not more else ROUNDINGS
        return Norm(factor, own - offset, np.abs(own) + np.abs(offset), reach, roundings, int(single))


def _reach(factor: Array) -> Array:
    """Return the factors or their inverses, whichever are above 1; what is multiplied by 0 is 0 in any case."""
    size = np.abs(factor)
    with np.errstate(all="ignore"):
        return np.where(size == 0, 1.0, np.maximum(size, 1 / size))


def _floats(values: Any) -> Array:
    return np.asarray(values, np.float64)


def fold_layer(
    weight: NDArray[np.floating],
    bias: NDArray[np.floating] | None,
    before: Sequence[Norm],
    after: Sequence[Norm],
) -> tuple[tuple[NDArray[np.floating], NDArray[np.floating] | None], Fold | None]:
    """Return weight and bias of the one layer that computes all of it, in the type of its weights, and its parts."""
    if not before and not after:
        return (weight, bias), None
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise CheckError(f"a layer has weights of shape {weight.shape} and a bias that does not fit")
    inner, outer = joined_norm(before, weight.shape[1]), joined_norm(after, len(weight))
    raw, own = _floats(weight), np.zeros(len(weight)) if bias is None else _floats(bias)
    if not (np.isfinite(raw).all() and np.isfinite(own).all()):
        raise CheckError("a layer contains a weight that is not finite")
    with np.errstate(all="ignore"):
        folded = (raw * inner.factor * outer.factor[:, None]).astype(weight.dtype)
        shifted = (
            own if not before else np.array([_exact_sum(row, b) for row, b in zip(raw * inner.shift, own, strict=True)])
        )
        moved = (outer.factor * shifted + outer.shift).astype(weight.dtype)
    if ((folded == 0) & (raw != 0) & (inner.factor != 0) & (outer.factor != 0)[:, None]).any():
        raise CheckError(f"batch normalisation or scaling makes weights too small for {weight.dtype.name}")
    return (folded, moved), Fold(raw, own, inner, outer)


def _exact_sum(terms: Array, start: float) -> float:
    """Return the sum, rounded once."""
    return math.fsum([*terms, start])


def joined_norm(norms: Sequence[Norm], width: int) -> Norm:
    """Return what these norms compute one after the other, for each unit."""
    found = Norm(np.ones(width), np.zeros(width), np.zeros(width), np.ones(width), 0)
    for norm in norms:
        if norm.shift.shape not in ((), (width,)) or norm.factor.shape not in ((), (width,)):
            raise CheckError(f"batch normalisation or scaling of {norm.shift.size} numbers is beside {width} units")
        with np.errstate(all="ignore"):  # of what is not finite, which is refused below
            found = Norm(
                norm.factor * found.factor,
                norm.factor * found.shift + norm.shift,
                np.abs(norm.factor) * found.size + norm.size,
                norm.reach * found.reach,
                found.roundings + norm.roundings,
                found.singles + norm.singles,
            )
        if not (np.maximum(found.reach, found.size) <= _MOST).all():
            raise CheckError("batch normalisation or scaling has a number that is too large, too small or not finite")
    return found


def _is_added(numbers: Array) -> Bools:
    """Return which numbers take the sign away from a zero that they are added to, also where they are scaled first."""
    return np.asarray(np.abs(numbers) >= _ADDED)


def _relative(units: Any) -> Array:
    """Return how far a number is off, relative to itself, after roundings that add up to this; inf above 1/2."""
    return np.where(units < 0.5, units / (1 - units), np.inf)


_FEW = 0.6  # of the weights
_FOLDING = 8  # roundings of a folded layer beside its products and its norms
_PLACES = 16  # where a number or a factor may be taken as 0, beside one for each rounding of a norm


@dataclass(eq=False)
class Products:
    """What the products of an affine layer need: the sums of the sizes of its terms, and what underflow can lose.

    ``used`` are the units that the last forms used, with their weights; others mostly use the same.
    """

    size: Array
    underflow: Array
    used: Bools
    weight: Array


@dataclass(frozen=True, eq=False)
class Dense(Operation):
    """W x + b: weight (out, in), bias (out,). ``fold`` has its parts if norms are folded into it."""

    weight: Array
    bias: Array
    fold: Fold | None = None
    arithmetic = mirrors = True

    @cached_property
    def _sparse(self) -> Array | None:
        """Which weights are not 0, if few are: layers over tokens are matrices of mostly 0."""
        used = self.weight != 0
        return used.astype(np.float64) if used.mean() < _FEW else None

    @cached_property
    def _block(self) -> Array:
        """The smallest matrix that the weights have along their diagonal again and again, and 0 elsewhere.

        A layer that is applied to every token has such weights; mostly, these are the weights themselves.
        """
        rows, columns = self.weight.shape
        for count in range(math.gcd(rows, columns), 1, -1):
            height, width = rows // count, columns // count
            if height * count == rows and width * count == columns and not self.weight[0, width:].any():
                block = np.ascontiguousarray(self.weight[:height, :width])
                if np.array_equal(np.kron(np.eye(count), block), self.weight):
                    return block
        return self.weight

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of units."""
        one_source(widths, self.weight.shape[1], "layer")
        return len(self.weight)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose W x + b."""
        return affine(self.weight, self.bias, *reads[0])

    def at_points(self, reads: Sequence[Array], sizes: Sequence[Array]) -> tuple[Array, Array]:
        """Return W x + b; twice the sum of the sizes is finite only if no partial sum overflows."""
        twice = 2 * ((sizes[0] + TINY) @ np.abs(self.weight).T + np.abs(self.bias))
        return reads[0] @ self.weight.T + self.bias, gamma(self.weight.shape[1] + 8) * twice + TINY

    def relaxed(self, reads: Sequence[Interval]) -> Products:
        """Return how large its terms can be."""
        entering = magnitude(*reads[0])
        size = entering @ np.abs(self.weight).T + np.abs(self.bias)
        return Products(size, TINY * (1 + total(entering)), np.ones(len(self.weight), dtype=np.bool_), self.weight)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Multiply by the weights."""
        rows, coefficients = len(coefficients), once(coefficients)
        weight, bias, size = self.weight, self.bias, relaxed.size
        # Mostly, the first form uses what others use, or the first form of each box does.
        some = coefficients[:1, :1].all() or coefficients[:, :1].any(axis=(0, 1)).all()
        if not some and not (used := coefficients.any(axis=(0, 1))).all():
            if (used != relaxed.used).any():  # units that are surely off need no product
                relaxed.used, relaxed.weight = used, self.weight[used]
            coefficients, weight = coefficients[:, :, used], relaxed.weight
            bias, size = bias[used], size[:, used]
        form.add_constant(coefficients @ bias, lost_in_products(coefficients, size) + relaxed.underflow)
        boxes, forms, width = coefficients.shape
        block = self._block if weight is self.weight else weight
        times = weight.shape[1] // block.shape[1]
        product = coefficients.reshape(boxes * forms * times, width // times) @ block
        product = product.reshape(boxes, forms, weight.shape[1])
        return [product if boxes == rows else np.broadcast_to(product, (rows, *product.shape[1:]))]

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Multiply by the sizes of the weights."""
        return np.asarray(errors[0] @ np.abs(self.weight).T)

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms:
        """Return the terms of the layer; those that are surely 0 are added exactly.

        Of the others, every partial sum lies between the sum of all negative and the sum of all positive terms, and
        each addition is off by at most half a unit in the last place of the larger one. The terms of what an average
        reads, or a row of weights of one size, are terms of its own: a program may add them all up in one go.
        """
        fold, weight, read = self.fold, np.abs(self.weight), reads[0]
        n = weight.shape[1]
        above, below, inner = np.maximum(read.high, 0.0), np.maximum(-read.low, 0.0), np.zeros((1, 1))
        summed = self._summed(read)
        if summed is not None:
            above, below, inner = summed.above, summed.below, summed.additions @ (weight > 0).astype(np.float64).T
        size = np.maximum(above, below)
        if fold is not None:
            wide = size if summed is None else above + below
            leaving = (wide * np.abs(fold.before.factor) + fold.before.size) @ np.abs(fold.weight).T + np.abs(fold.bias)
            leaving = (leaving * np.abs(fold.after.factor) + fold.after.size) * (1 + 4 * gamma(n + 16))
            return Terms(n + 1.0 + inner, leaving, leaving, kind.u * leaving)
        outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
        additions = (size > 0).sum(axis=1, keepdims=True)  # the bias is a term as well
        if self._sparse is not None:  # what is multiplied by 0 is added exactly
            additions = (size > 0).astype(np.float64) @ self._sparse.T
        additions = additions + inner
        g = _relative((additions + 1) * kind.u)
        whole = ((above + below) @ weight.T + np.abs(self.bias)) * outward  # P + N
        apart, slip = (above - below) @ self.weight.T + self.bias, (outward - 1) * whole  # P - N
        most, least = (np.minimum(whole, (whole + sign * apart + slip) / 2) for sign in (1, -1))
        # 1 + 2 g covers the errors in the partial sums themselves.
        return Terms(additions, most, least, kind.u * power_below((1 + 2 * g) * np.maximum(most, least)))

    def _summed(self, read: Read) -> Terms | None:
        """Return the terms of what it reads, if it only adds them up."""
        return read.parts if read.terms is not None and self._averages else None

    @cached_property
    def _averages(self) -> bool:
        """Whether the weights of each unit are of one size, or 0: as those of sums, averages and choices are."""
        size = np.abs((self.fold or self).weight)
        return bool(((size == 0) | (size == size.max(axis=1, keepdims=True))).all())

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of the products and of the sum, and the largest partial sum.

        Scalings right before the layer may be computed after it: then its sums are larger or smaller by as much as
        these scale, and what underflows there is multiplied by it.
        """
        assert terms is not None
        summed, size = self._summed(reads[0]), magnitude(reads[0].low, reads[0].high)
        size = size if summed is None else summed.above + summed.below
        if self.fold is not None:
            return _folded_rounding(self.fold, terms, size, kind, scaled)
        n = size.shape[1]
        outward = 1 + 4 * gamma(n + 8)
        whole = (terms.above + terms.below) * outward
        count = np.maximum(terms.additions, n) + 1
        flushed = kind.tiny * scaled * (size.sum(axis=1, keepdims=True) + 4 * count)
        g = _relative(count * kind.u)
        return (terms.additions * terms.unit + kind.u * whole + flushed) * outward, scaled * whole * (1 + g) + flushed

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Multiply by the weights; the sizes of paths are added up anew from here (`inference_error._traced`)."""
        low, high, _ = derivatives
        used = low.any(axis=(0, 1)) | high.any(axis=(0, 1))  # units that are surely off need no product
        low, high, weight = low[:, :, used], high[:, :, used], self.weight[used]
        n = len(weight)
        mid, radius = ball(low, high)
        # The spread of the radius, what products with the middle lose, and the roundings of the two differences.
        slack = radius + gamma(n + 8) * np.abs(mid)
        spread = (slack @ np.abs(weight)) * (1 + 2 * gamma(n + 8)) + TINY
        centre = mid @ weight
        less, more = centre - spread, centre + spread
        return [(less, more, np.maximum(more, -less))]

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return the spectral norm of the weights."""
        return self._norm

    @cached_property
    def _norm(self) -> float:
        return spectral_norm(self.weight)

    def scaled(self, before: float) -> tuple[float, float]:
        """Return what the norms beside it scale by."""
        if self.fold is None:
            return before, 1.0
        after = float(self.fold.after.reach.max())
        return before * float(self.fold.before.reach.max()) * after, after

    def entering(self, size: Array) -> Array:
        """Bound what the weights multiply, after a norm before the layer."""
        return size if self.fold is None else self.fold.before.grown(size)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow weights that are not 0; those that are stored count, as a norm may multiply by 0 what was infinite."""
        fold = self.fold
        used = self.weight != 0 if fold is None else (fold.weight != 0) & (fold.before.factor != 0)
        return np.asarray(used.astype(np.float64) @ reached[0].astype(np.float64) > 0)

    def signed(self, reached: Sequence[Bools]) -> Bools:
        """Follow all weights, those that are 0 as well, unless all are 0 and a number that is not 0 is added.

        It must be there both where a program computes the norms, and where it has folded them into the layer. With
        another weight, the sum may cancel to a zero of either sign before a product with 0 is added.
        """
        constant = _is_added(self.bias) & ~self.weight.any(axis=1)
        if self.fold is not None:
            stored = _is_added(self.fold.bias) & ~self.fold.weight.any(axis=1)
            constant &= stored | _is_added(self.fold.after.shift)
        return np.asarray(~constant[:, None] & reached[0].any(axis=0))

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the sum of all terms."""
        entering, fold = self.entering(sizes[0]), self.fold
        if fold is None:
            return np.asarray(2 * (np.abs(self.weight) @ entering + np.abs(self.bias)))
        inner = 2 * (np.abs(fold.weight) @ entering + np.abs(fold.bias))
        return np.asarray(2 * (inner * fold.after.reach + fold.after.size))

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Return the sizes of the weights of each number, whatever they weigh behind it: that is measure enough."""
        return [np.abs(self.weight).sum(axis=0)]

    def work(self, width: int) -> int:
        """Return the products, and what inputs and outputs cost."""
        return self.weight.size + PER_UNIT * sum(self.weight.shape)

    @property
    def stored(self) -> list[Array]:
        """Weights and biases as they are in the file."""
        kept = self.fold or self
        return [kept.weight, kept.bias]


def _folded_rounding(fold: Fold, terms: Terms, size: Array, kind: Precision, scaled: float) -> tuple[Array, Array]:
    """Return the roundings of a layer and the norms beside it, computed step by step or folded.

    Each step is off by as many units as it has roundings, in all terms that it adds up, and the numbers of the folded
    layer are rounded once more. No number on the way is above ``reach``, and a subnormal number that is taken as 0 is
    multiplied by no more than that.
    """
    n = fold.weight.shape[1]
    count = (terms.additions - 1 + _FOLDING) * kind.u + fold.before.units(kind.u) + fold.after.units(kind.u)
    weights = 1 + np.abs(fold.weight).sum(axis=1) + np.abs(fold.bias)
    beside = (1 + fold.before.reach.max()) * (1 + fold.after.reach.max()) * weights
    wide = size * fold.before.reach + fold.before.size
    reach = scaled * beside * (terms.additions + wide.sum(axis=1, keepdims=True)) + fold.after.size
    flushed = (_PLACES + fold.before.roundings + fold.after.roundings) * kind.tiny * reach
    return (_relative(count) * terms.above + flushed) * (1 + 4 * gamma(n + 16)), 2 * reach


_SCALING = 2  # roundings beside those of the norms: its numbers are rounded to the type of the model


@dataclass(frozen=True, eq=False)
class Scale(Operation):
    """factor x + shift for each unit, both (width,); ``norm`` says how a program computes it."""

    factor: Array
    shift: Array
    norm: Norm
    arithmetic = mirrors = True

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of units."""
        return one_source(widths, len(self.factor))

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose factor x + shift."""
        ends = reads[0][0] * self.factor, reads[0][1] * self.factor
        least, most = down(np.minimum(*ends) - TINY), up(np.maximum(*ends) + TINY)
        return down(least + self.shift), up(most + self.shift)

    def relaxed(self, reads: Sequence[Interval]) -> tuple[Array, Array]:
        """Return how large its terms can be, and what is lost by underflow."""
        entering = magnitude(*reads[0])
        return entering * np.abs(self.factor) + np.abs(self.shift), TINY * (1 + total(entering))

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Multiply by the factors."""
        size, underflow = relaxed
        lost = lost_in_products(coefficients, size) + underflow
        form.add_constant(coefficients @ self.shift, lost)
        return [coefficients * self.factor]

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Multiply by the sizes of the factors."""
        return errors[0] * np.abs(self.factor)

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms | None:
        """Return the terms of the sums that it reads, scaled, and the shifts: a program may scale before it adds up."""
        if reads[0].terms is None:
            return None
        part, norm = reads[0].parts, self.norm
        room = 1 + 2 * _relative(norm.units(kind.u) + _SCALING * kind.u)  # for what the scaled terms are off
        factor = np.maximum(np.abs(self.factor), np.abs(norm.factor))
        ends = [(end * factor + norm.size) * room for end in (part.above, part.below)]
        above, below = (np.where(self.factor < 0, *pair) for pair in (ends[::-1], ends))
        return Terms(part.additions + 2 * norm.roundings // ROUNDINGS, above, below, part.unit * factor)

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of the norms, step by step or as one, for each unit, or for each term, by itself."""
        norm, size, count = self.norm, np.maximum(reads[0].high, -reads[0].low), np.zeros((1, 1))
        if terms is not None:
            part = reads[0].parts
            size, count = part.above + part.below, part.additions
        units = norm.units(kind.u) + _SCALING * kind.u
        reach = scaled * (1 + norm.reach) * (2 + size * norm.reach + norm.size)
        flushed = (_PLACES + norm.roundings) * kind.tiny * (1 + count) * reach
        own = _relative(units) * (size * np.abs(norm.factor) + norm.size) + flushed
        return own * (1 + 4 * gamma(16)), 2 * reach

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Multiply by the factors."""
        low, high, size = derivatives
        ends = low * self.factor, high * self.factor
        return [(down(np.minimum(*ends)), up(np.maximum(*ends)), up(size * np.abs(self.factor)))]

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return the largest factor."""
        return float(np.abs(self.factor).max())

    def scaled(self, before: float) -> tuple[float, float]:
        """Return what it scales by.

        ONNX Runtime makes one factor in float32 of all scalings beside a product with a matrix, also of those that
        other nodes read as well. If the factor is too small for that, it is 0.
        """
        scaled = before * float(self.norm.reach.max())
        return scaled, scaled

    def entering(self, size: Array) -> Array:
        """Bound what the factors multiply."""
        return self.norm.grown(size)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Follow factors that are not 0."""
        return np.asarray(reached[0] & (self.norm.factor != 0)[:, None])

    def signed(self, reached: Sequence[Bools]) -> Bools:
        """Follow factors that are 0 as well, unless a number that is not 0 is added."""
        return np.asarray(reached[0] & ~_is_added(self.shift)[:, None])

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the numbers on the way."""
        return self.entering(sizes[0])

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Multiply by the sizes of the factors."""
        return [weights * np.abs(self.factor)]
