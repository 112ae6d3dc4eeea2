"""Several nodes in one: their sum, or their columns side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.operations.base import Bools, Derivatives, Form, Interval, Operation, Read, Terms
from fairmend_check.kernel.rounding import Array, Precision, down, gamma, power_below, up


@dataclass(frozen=True)
class Sum(Operation):
    """The sum of two or more nodes of one width."""

    arithmetic = True

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of each part."""
        if _several(widths) != {widths[0]}:
            other = next(width for width in widths if width != widths[0])
            raise CheckError(f"a node of the model reads {widths[0]} of {other} values")
        return widths[0]

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Add up the ends."""
        low, high = reads[0]
        for less, more in reads[1:]:
            low, high = down(low + less), up(high + more)
        return low, high

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Give every part the same coefficients."""
        return [coefficients] * int(relaxed)

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Add up the errors."""
        return np.asarray(sum(errors))

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms:
        """Return the terms of the sum: those of its parts.

        A program may add up the terms of an affine layer, or of a sum, and the other parts of the sum in one go, so
        that an addition in the layer is off by as much as one in the sum.
        """
        parts = [_part(read) for read in reads]
        additions = np.asarray(len(parts) - 1 + sum(part.additions for part in parts))
        count, outward = (additions + 1) * kind.u, 1 + 4 * gamma(len(parts) + 8)
        ends = zip(*((part.above, part.below) for part in parts), strict=True)
        above, below = (np.asarray(sum(each)) * outward for each in ends)
        g = np.where(count < 0.5, count / (1 - count), np.inf)
        return Terms(additions, above, below, kind.u * power_below((1 + 2 * g) * np.maximum(above, below)))

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return the roundings of a sum in any order: each addition is off by half a unit of a partial sum."""
        assert terms is not None
        parts = [_part(read) for read in reads]
        merged = sum(part.additions * np.maximum(terms.unit - part.unit, 0.0) for part in parts)
        size = terms.above + terms.below
        own = ((len(reads) - 1) * terms.unit + merged + 2 * len(reads) * kind.tiny) * (1 + 4 * gamma(len(reads) + 8))
        enough = (terms.additions + 1) * kind.u < 0.5
        return np.where(size == 0, 0.0, own), np.where(enough, 2 * size, np.inf)

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Give every part the same derivatives."""
        return [derivatives] * len(widths)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Return what reaches any part."""
        return np.asarray(np.logical_or.reduce(reached))

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Add up the sizes."""
        return np.asarray(2 * sum(sizes))


def _part(read: Read) -> Terms:
    """Return the terms that a sum reads, at least as large as what is computed of them."""
    none, above, below = np.zeros((1, 1)), np.maximum(read.high, 0.0), np.maximum(-read.low, 0.0)
    if read.terms is None:
        return Terms(none, above, below, none)
    return replace(read.terms, above=np.maximum(read.terms.above, above), below=np.maximum(read.terms.below, below))


@dataclass(frozen=True)
class Concatenate(Operation):
    """The columns of two or more nodes, one node after the other."""

    rearranges = True

    def width(self, widths: Sequence[int]) -> int:
        """Return how many columns there are."""
        _several(widths)
        return sum(widths)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Put the ends side by side."""
        low, high = (np.concatenate(ends, axis=1) for ends in zip(*reads, strict=True))
        return low, high

    def relaxed(self, reads: Sequence[Interval]) -> list[int]:
        """Return how wide the parts are."""
        return [low.shape[1] for low, _ in reads]

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Give every part its coefficients."""
        return _split(coefficients, relaxed, axis=2)

    def passed_on(self, errors: Sequence[Array]) -> Array:
        """Put the errors side by side."""
        return np.concatenate(errors, axis=1)

    def derivatives(
        self, derivatives: Derivatives, widths: Sequence[int], slopes: Interval | None
    ) -> list[Derivatives]:
        """Give every part its derivatives."""
        return list(zip(*(_split(part, widths, axis=2) for part in derivatives), strict=True))

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Put the parts side by side."""
        return np.concatenate(reached)

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Put the sizes side by side."""
        return np.concatenate(sizes)

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Give every part its weights."""
        return _split(weights, widths, axis=0)


def _several(widths: Sequence[int]) -> set[int]:
    if len(widths) < 2:
        raise CheckError(f"a node of the model reads {len(widths)} others, which is not what it can do")
    return set(widths)


def _split(array: Array, widths: Sequence[int], axis: int) -> list[Array]:
    return np.split(array, np.cumsum(widths)[:-1], axis=axis)
