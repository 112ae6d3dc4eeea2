"""What every elementwise function knows about itself on intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairmend_check.rounding import Array, Precision


@dataclass(frozen=True)
class Activation:
    """An elementwise function by name; ``slope`` is that of leaky_relu below zero, and 0 for all others.

    ``parameters`` are those of functions that have some: the slopes of prelu, the ends of clip.
    """

    name: str
    slope: float = 0.0
    parameters: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return how messages write it: relu, leaky_relu with slope 0.01, clip with 0.0, 6.0."""
        if self.name == "leaky_relu":
            return f"leaky_relu with slope {self.slope!r}"
        if not self.parameters:
            return self.name
        listed = ", ".join(map(repr, self.parameters[:8]))
        return f"{self.name} with {listed}{', ...' if len(self.parameters) > 8 else ''}"


class Function(Protocol):
    """An elementwise function f on intervals lower..upper, arrays of one shape (boxes, width).

    For a slope s, the highest line below f has the intercept min f(z) - s z, the lowest line above it the maximum. Any
    slope gives a sound line. Intercepts are always computed here and never taken from a certificate.
    """

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose f over the intervals."""

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the derivatives of f over the intervals, and so its difference quotients."""

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return intercepts of a line below and of a line above, with these slopes."""

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return slopes of a line below and of a line above that are tight."""

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return how far a computed f is from the exact one with the same input low..high."""


def finite(slopes: Array) -> Array:
    """Return the slopes, and 0 where intervals without ends have none: any slope is sound, but NaN is no slope."""
    return np.where(np.isfinite(slopes), slopes, 0.0)
