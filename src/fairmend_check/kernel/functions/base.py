"""What every elementwise function knows about itself on intervals, and the operation that applies one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fairmend_check.kernel.operations.base import (
    Bools,
    Derivatives,
    Form,
    Interval,
    Lines,
    Nonlinear,
    Read,
    Terms,
    dot,
    magnitude,
    once,
    one_source,
    total,
)
from fairmend_check.kernel.rounding import TINY, Array, Precision, U, gamma, up


@dataclass(frozen=True)
class Activation(Nonlinear):
    """An elementwise function by name; ``slope`` is that of leaky_relu below zero, and 0 for all others.

    ``parameters`` are those of functions that have some: the slopes of prelu, the ends of clip.
    """

    name: str
    slope: float = 0.0
    parameters: tuple[float, ...] = ()
    mirrors = True

    def __str__(self) -> str:
        """Return how messages write it: relu, leaky_relu with slope 0.01, clip with 0.0, 6.0."""
        if self.name == "leaky_relu":
            return f"leaky_relu with slope {self.slope!r}"
        if not self.parameters:
            return self.name
        listed = ", ".join(map(repr, self.parameters[:8]))
        return f"{self.name} with {listed}{', ...' if len(self.parameters) > 8 else ''}"

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of what it reads; a PReLU has a slope for each unit."""
        return one_source(widths, len(self.parameters) if self.name == "prelu" else None)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        return function_of(self).value_range(*reads[0])

    def at_points(self, reads: Sequence[Array], sizes: Sequence[Array]) -> tuple[Array, Array]:
        low, high = function_of(self).values(reads[0])
        if low is high:
            return low, np.zeros((1, low.shape[1]))
        return low, up((high - low).max(axis=0, keepdims=True))

    def relaxed(self, reads: Sequence[Interval]) -> Lines:
        return self.lines(reads[0], function_of(self).choose_slopes)

    def lines(self, read: Interval, choose: Callable[[Array, Array], Interval]) -> Lines:
        """Return lines below and above the function, with slopes that ``choose`` returns for intervals."""
        (low, high), function = read, function_of(self)
        below, above = choose(low, high)
        return Lines(below, above, *function.intercepts((below, above), low, high), magnitude(low, high))

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        lines: Lines = relaxed
        coefficients = once(coefficients)
        # A form c f is at least |c| times the line below, where c is positive, or the line above: with half the sum of
        # both lines for c, and half their difference for |c|, which is 0 where a function is straight.
        size, (slope, slope_apart, middle, apart, ends, slip) = np.abs(coefficients), lines.halves
        slip, underflow = gamma(2 * coefficients.shape[2] + 16) * ends + slip, TINY * (1 + total(lines.magnitude))
        odd = coefficients * slope[:, None], dot(coefficients, middle)
        if form.mirrored and lines.parallel:  # the same for c and -c, but for the constant
            form.add_constant(odd[1], dot(size, slip - apart) + underflow)
            return [odd[0]]
        even = size * slope_apart[:, None], dot(size, apart)
        return [form.bend(odd, even, dot(size, slip) + underflow)]

    @property
    def bends(self) -> bool:  # type: ignore[override]
        """Whether lines below and above it are not parallel."""
        return not function_of(self).parallel

    @property
    def ending(self) -> float:  # type: ignore[override]
        """By how much it divides at its end."""
        return function_of(self).ending

    def slopes(self, reads: Sequence[Interval]) -> Interval:
        return function_of(self).slope_range(*reads[0])

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        return np.where(errors[0] == 0, 0.0, magnitude(*slopes) * errors[0])

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms | None:
        """Return those of what an identity reads; all others need the sum itself."""
        return reads[0].terms if self.name == "identity" else None

    def rounding(self, reads: Sequence[Interval], kind: Precision, scaled: float) -> Array:
        """Return what programs round in the function."""
        return function_of(self).rounding(*reads[0], kind)

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        low, high, size = derivatives
        least, most = (slope[:, None, :] for slope in slopes)
        below, above = np.minimum(low * least, low * most), np.maximum(high * least, high * most)
        if (least < 0).any():
            below = np.minimum(below, np.minimum(high * least, high * most))
            above = np.maximum(above, np.maximum(low * least, low * most))
        underflow = np.where((least == 0) & (most == 0), 0.0, TINY)  # units that are surely off stay so
        size = size * np.maximum(most, -least)
        return [
            (
                below - (4 * U * np.abs(below) + underflow),
                above + (4 * U * np.abs(above) + underflow),
                size * (1 + 4 * U) + underflow,
            )
        ]

    def stretch(self, side: int, slopes: Any) -> Array | float:
        return np.asarray(magnitude(*slopes).max(axis=1))

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return reached[0]

    def signed(self, reached: Sequence[Bools]) -> Bools:
        """Follow functions that may be 0 where they read 0; the square of either zero is 0, and not -0."""
        if self.name == "square":
            return np.zeros_like(reached[0])
        zero = np.zeros((1, len(reached[0])))
        with np.errstate(all="ignore"):
            low, high = function_of(self).value_range(zero, zero)
        return np.asarray(reached[0] & ((low <= 0) & (high >= 0))[0][:, None])

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the values; of infinity some functions make NaN, and of large numbers some make larger ones."""
        low, high = self.interval([(-sizes[0][None], sizes[0][None])])
        return np.where(sizes[0] <= largest / 64, 2 * np.maximum(high, -low)[0], np.inf)

    def work(self, width: int) -> int:
        return width * function_of(self).cost


class Function(Protocol):
    """An elementwise function f on intervals lower..upper, arrays of one shape (boxes, width).

    For a slope s, the highest line below f has the intercept min f(z) - s z, the lowest line above it the maximum. Any
    slope gives a sound line.
    """

    ending: float  # by how much it divides in the last of several steps, where programs write it so
    cost: int  # multiplications for a value, beside those of the layers
    pole: bool  # whether programs compute infinity with another sign of -0 than of 0
    parallel: bool  # whether lines that are parallel to its chords are as close as others, where activations multiply

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z): twice the same array where it is exact."""

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose f over the intervals."""

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the derivatives of f over the intervals, and so its difference quotients."""

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return intercepts of a line below and of a line above, with these slopes."""

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return slopes of a line below and of a line above that are tight."""

    def chords(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the slopes of chords; where f has a kink, on the side that they are on."""

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return how far a computed f is from the exact one with the same input low..high."""


FUNCTIONS: dict[str, Callable[[Activation], Function]] = {}  # by name; the package fills it


@lru_cache(maxsize=1000)
def function_of(activation: Activation) -> Function:
    """Return the function of a name that is known."""
    return FUNCTIONS[activation.name](activation)
