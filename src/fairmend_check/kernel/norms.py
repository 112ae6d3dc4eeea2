"""Batch normalisation and scaling beside an affine layer: docs/certificate.md, "Folded layers".

A program computes these steps one after the other, each with its own roundings. Bounds are those of the one affine
layer that all of them fold into, in numbers that are defined operation by operation. What the program computes is off
from that layer by the roundings of its steps (`inference_error`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

Array = NDArray[np.float64]

ROUNDINGS = 24  # of one norm: of its factor, computed in any order, of the product with it, and of the sum
_LEAST_VARIANCE = 1e-30
_MOST = 2.0**60  # of means, shifts and reaches
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
    """Return (x - mean) gain + shift; without shift, 0. There may be ``more`` factors of the gain."""
    factor, own, middle = _floats(gain), np.zeros(()) if shift is None else _floats(shift), _floats(mean)
    reach = _reach(factor)
    with np.errstate(all="ignore"):
        for part in map(_floats, more):
            factor, reach = factor * part, reach * _reach(part)
        offset = middle * factor
        reach = np.where(np.abs(middle) <= _MOST, reach, np.inf)
        single = factor.size == 1 and bool((np.abs(np.frexp(factor)[0]) != 0.5).any())  # a power of 2 is exact
        return Norm(factor, own - offset, np.abs(own) + np.abs(offset), reach, ROUNDINGS, int(single))


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
        shifted = own if not before else np.array([_sum(row, b) for row, b in zip(raw * inner.shift, own, strict=True)])
        moved = (outer.factor * shifted + outer.shift).astype(weight.dtype)
    if ((folded == 0) & (raw != 0) & (inner.factor != 0) & (outer.factor != 0)[:, None]).any():
        raise CheckError(f"batch normalisation or scaling makes weights too small for {weight.dtype.name}")
    return (folded, moved), Fold(raw, own, inner, outer)


def _sum(terms: Array, start: float) -> float:
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
