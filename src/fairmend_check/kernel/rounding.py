"""Outward rounding in double precision: bounds of every error that a computed number can have.

Assumptions: IEEE 754 double precision, rounding to nearest; sums of products in any order, with or without fused
multiply-add, subnormal numbers possibly flushed to zero; `exp`, `expm1`, `log`, `log1p` and `tanh` of the library
within 8 units in the last place, `erfc` within 32, `sin` and `cos` of up to 2^15 within 8 units of 1. With u = 2^-53, a
dot product of n terms is then off by at most gamma(n) times that of the absolute values (Higham, Accuracy and Stability
of Numerical Algorithms, section 3.1), plus underflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

U = 2.0**-53
# 2^102 times what a sum of 2^20 products can lose by underflow, 2^-1022 each. Every operation adds it where it
# multiplies and adds up, times the sizes of what coefficients that underflow are multiplied by.
TINY = 2.0**-900
LIBRARY = 32 * U  # relative error of tanh, log (8 ulp) and the sigmoid made of exp (8 ulp, an addition, a division)
GENEROUS = 1 + 2.0**-20  # covers the rounding in computing an error bound, which is itself small


@dataclass(frozen=True)
class Precision:
    """Unit roundoff, largest number and smallest normal number of a floating-point format."""

    u: float
    largest: float
    tiny: float

    @staticmethod
    def of(dtype: str) -> Precision:
        """Return the figures of "float32" or "float64"."""
        kind = np.finfo(dtype)
        return Precision(float(kind.eps) / 2, float(kind.max), float(kind.tiny))


@cache
def gamma(n: int) -> float:
    """Return a bound of the relative error of n roundings in a row, or of a sum of n products."""
    return n * U / (1 - n * U) * GENEROUS


# As arrays, because operations take longer with numbers of Python.
_HALF: Array = np.array(U * (1 + 2 * U))
_LEAST: Array = np.array(2.0**-1022)
_LARGEST: Array = np.array(np.finfo(np.float64).max)
_INFINITE: Array = np.array(np.inf)
_MINUS_INFINITE: Array = np.array(-np.inf)
_FEW = 500  # numbers, for which more operations take longer than a slow one


def down(values: Array) -> Array:
    """Return the next number below, a lower bound of what a correctly rounded operation computes; nan becomes -inf.

    What is a bit more than half a unit in the last place below a number is rounded to the next one (Rump et al.,
    Computing predecessor and successor in rounding to nearest, 2009). Of many numbers, this takes less time than
    `np.nextafter`. Numbers below 2^-960, where half a unit may be flushed to zero, become up to 2^-1021 less, and
    infinity becomes finite.
    """
    if values.size < _FEW:
        return np.fmax(np.nextafter(values, _MINUS_INFINITE), _MINUS_INFINITE)
    values = np.minimum(values, _LARGEST)
    return np.fmax(values - (np.abs(values) * _HALF + _LEAST), _MINUS_INFINITE)


def up(values: Array) -> Array:
    """Return the next number above, as `down` does; nan becomes inf."""
    if values.size < _FEW:
        return np.fmin(np.nextafter(values, _INFINITE), _INFINITE)
    values = np.maximum(values, -_LARGEST)
    return np.fmin(values + (np.abs(values) * _HALF + _LEAST), _INFINITE)


def power_below(values: Array) -> Array:
    """Return the largest powers of 2 up to these values; 0 for 0.

    Of infinity it makes 1/2: those who use it must treat a sum that overflows as infinite by itself.
    """
    return np.asarray(np.minimum(values, np.ldexp(1.0, np.frexp(values)[1] - 1)))


def ball(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return midpoints and radii that enclose the intervals."""
    mid = 0.5 * lower + 0.5 * upper
    return mid, np.maximum(upper - mid, mid - lower) * (1 + 4 * U) + TINY


def affine(weight: Array, bias: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Enclose weight @ h + bias over the boxes lower..upper (boxes, in); two arrays (boxes, out)."""
    (mid, radius), g = ball(lower, upper), gamma(weight.shape[1] + 8)
    # Exactly, W h + b is within |W| radius of W mid + b. The computed centre is off from that by n + 1 roundings, at
    # most gamma(n + 1) (|W| |mid| + |b|): each term of ``spread`` with gamma(n + 8) pays for that, with room for what
    # these terms are off themselves. The radius times 1 + 2 gamma(n + 8) pays for the roundings of |W| radius: a sum of
    # n products, the sum in ``each`` and two more. The last line but one pays for centre - spread and centre + spread.
    centre = mid @ weight.T + bias
    # The radius decides how tight the bound is, so it is inflated by no more than its own rounding.
    each = radius * (1 + 2 * g) + np.abs(mid) * (g * GENEROUS)
    spread = each @ np.abs(weight).T + np.abs(bias) * (g * GENEROUS)
    spread = spread + (np.abs(centre) + spread) * (8 * U) + TINY  # and for the rounding of this line and the next
    low, high = centre - spread, centre + spread
    return np.fmax(low, -np.inf), np.fmin(high, np.inf)


_SQUARINGS = 6  # of them, the bound is at most n^(1/128) times the norm, which is 6 percent for n = 2000


def spectral_norm(weight: Array) -> float:
    """Bound by how much longer a matrix can make a vector.

    The norm is at most that of Frobenius, and its square is the norm of AᵀA. That is computed again and again: a sum of
    sizes of the 2^k-th powers of singular values hardly differs from the largest of them.
    """
    if not weight.any():
        return 0.0
    A, scales = weight if weight.shape[0] >= weight.shape[1] else weight.T, []
    for _ in range(_SQUARINGS):
        exponent = int(np.frexp(np.abs(A).max(initial=0.0))[1])
        A = np.ldexp(A, -exponent)  # its largest number is from 1/2 to 1
        whole = float((A * A).sum()) * (1 + gamma(A.size + 8)) + TINY
        scales.append((exponent, gamma(len(A) + 8) * whole + len(A) * TINY))  # and what the product can be off by
        A = A.T @ A
    found = float(np.sqrt((A * A).sum() * (1 + gamma(A.size + 8)) + TINY))
    for exponent, slip in reversed(scales):
        found = float(np.ldexp(np.sqrt((found + slip) * (1 + 8 * U)), exponent)) * (1 + 4 * U) + TINY
    return found
