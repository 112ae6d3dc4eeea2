"""Functions by their curvature: between break points, each is convex, concave or straight.

On a convex part the tangent at any point is below the function, and on a concave part the ends decide what is least.
Above it is the other way round. A break point that is no double lies in a narrow interval between two doubles, on which
the function is bounded by its slopes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.operations.base import finite, stacked
from fairmend_check.kernel.rounding import TINY, Array, U, down, up

_SAMPLES = 17  # values that slopes are chosen by; an odd number, so that one is in the middle
_STEPS = 24  # of the search for the point where a line touches


@dataclass(frozen=True)
class Break:
    """A point in at..at + width where the curvature changes; ``slopes`` enclose those there, on both sides."""

    at: float
    width: float
    slopes: tuple[float, float]


def break_near(at: float, slope: float) -> Break:
    """Return the break point at a number of which the last digits are rounded, and the slope there as well.

    It is within 4 units of the number, and there the second derivative changes its sign. The slope of all functions
    here changes by less than 1e-15 over the interval, and 1e-14 also pays for its own rounded digits.
    """
    return Break(at - 4 * U * abs(at), 8 * U * abs(at), (slope - 1e-14, slope + 1e-14))


class Curve:
    """A function between break points; those who derive from it say what it is."""

    breaks: tuple[Break, ...] = ()
    bends: tuple[int, ...]  # from left to right: 1 for convex, -1 for concave, 0 for straight
    lowest: tuple[float, float] | None = None  # where it turns from falling to rising, and a number below it
    turning = 1e-6  # how exactly that is where it turns
    falls = False  # whether it falls everywhere
    reach: float = 64.0  # how far out a touching point is searched: a choice that costs tightness only
    ending = 1.0
    cost = 10_000
    pole = False
    parallel = False

    def __init__(self, activation: Activation) -> None:
        """Take the parameters of an activation, if it has some."""

    def values(self, z: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Enclose f'(z); at a break point where it jumps, the slope on the side of the part that bends."""
        raise NotImplementedError

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) and f'(z), not exactly: what is chosen by them is sound in any case."""
        return self.values(z)[0], self.slopes(z)[0]

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        low, high = self.values(stacked(lower, upper))
        if self.lowest is None:
            return (low[1], high[0]) if self.falls else (low[0], high[1])
        at, floor = self.lowest
        turns = ~((lower > at + self.turning) | (upper < at - self.turning))
        return np.where(turns, floor, np.minimum(*low)), np.maximum(*high)

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the slopes: between break points they rise or fall."""
        ends = self.slopes(lower), self.slopes(upper)
        low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
        for point in self.breaks:
            inside = (lower <= point.at + point.width) & (upper >= point.at)
            low = np.where(inside, np.minimum(low, point.slopes[0]), low)
            high = np.where(inside, np.maximum(high, point.slopes[1]), high)
        return low, high

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the least of f(z) - slope z for the first slope, and the largest for the other, piece by piece."""
        sides = [(sign, slope, np.full(lower.shape, np.inf)) for sign, slope in zip((1, -1), slopes, strict=True)]
        for piece, bend in enumerate(self.bends):
            before, after = self.breaks[piece - 1] if piece else None, (*self.breaks, None)[piece]
            start = lower if before is None else np.maximum(lower, before.at + before.width)
            end = upper if after is None else np.minimum(upper, after.at)
            inside = ~(start > end)
            start, end = start[inside], end[inside]
            for sign, slope, least in sides:  # of sign (f(z) - slope z)
                if bend * sign > 0:
                    found = self._least_by_tangent(sign, slope[inside], start, end)
                else:
                    found = self._at(sign, slope[inside], np.array([start, end])).min(axis=0)
                least[inside] = np.minimum(least[inside], found)
        for point in self.breaks:
            inside = (lower <= point.at + point.width) & (upper >= point.at)
            there = np.full(np.count_nonzero(inside), point.at)
            for sign, slope, least in sides:
                steepest = np.abs(slope[inside]) + max(map(abs, point.slopes))
                found = down(self._at(sign, slope[inside], there) - 2 * steepest * point.width)
                least[inside] = np.minimum(least[inside], found)
        low, high = (down(least) for *_, least in sides)  # nan, from intervals without ends, becomes -inf
        return low, -high

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return slopes of lines that are as near as possible in the middle: tangents there, or lines from an end."""
        middle = 0.5 * lower + 0.5 * upper
        z = lower + np.linspace(0, 1, _SAMPLES).reshape(-1, *[1] * lower.ndim) * (upper - lower)
        values, tangent = self.rough(z)[0], self.rough(middle)[1]
        half, narrow = _SAMPLES // 2, ~(upper - lower > 1e-6)
        with np.errstate(all="ignore"):
            from_left = (values[half:] - values[0]) / (z[half:] - z[0])
            from_right = (values[-1] - values[: half + 1]) / (z[-1] - z[: half + 1])
            found = []
            for sign, candidates in (
                (1, (tangent, from_left.min(axis=0), from_right.max(axis=0))),
                (-1, (tangent, from_left.max(axis=0), from_right.min(axis=0))),
            ):
                # How near a line comes that touches the function from this side, in the middle.
                near = np.stack([(sign * (values - slope * (z - middle))).min(axis=0) for slope in candidates])
                best = np.take_along_axis(np.stack(candidates), near.argmax(axis=0)[None], axis=0)[0]
                found.append(finite(np.where(narrow, tangent, best)))
        return found[0], found[1]

    def chords(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        width = upper - lower
        with np.errstate(all="ignore"):
            values, slopes = self.rough(stacked(lower, upper, 0.5 * lower + 0.5 * upper))
            chord = finite(np.where(width > 1e-4, (values[1] - values[0]) / width, slopes[2]))
        return chord, chord

    def _at(self, sign: int, slope: Array, z: Array) -> Array:
        """Return a lower bound of sign (f(z) - slope z)."""
        value, line = _times(sign, *self.values(z))[0], sign * slope * z
        return down(value - line - (4 * U * (np.abs(value) + np.abs(line)) + TINY))

    def _least_by_tangent(self, sign: int, slope: Array, start: Array, end: Array) -> Array:
        """Return a lower bound of sign (f(z) - slope z) where sign f is convex.

        That is the tangent near the point where f' equals the slope.
        """
        touch = np.clip(self._touching_point(sign, slope, start, end), start, end)
        (low, high), (flat, steep) = self.values(touch), self.slopes(touch)
        value, line = _times(sign, low, high)[0], sign * slope * touch
        excess = _times(sign, flat - slope, steep - slope)
        unsure = 4 * U * (np.abs(slope) + np.abs(flat) + np.abs(steep))
        sides = (excess[1] + unsure) * (start - touch), (excess[0] - unsure) * (end - touch)
        slip = 8 * U * (np.abs(value) + np.abs(line) + np.abs(sides[0]) + np.abs(sides[1])) + TINY
        return down(value - line + np.minimum(*sides) - slip)

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        """Return roughly the point in start..end at which f' equals the slope, or the end that is nearest to it."""
        left, right = np.clip(start, -self.reach, self.reach), np.clip(end, -self.reach, self.reach)
        for _ in range(_STEPS):
            middle = 0.5 * left + 0.5 * right
            further = bend * (self.rough(middle)[1] - slope) < 0
            left, right = np.where(further, middle, left), np.where(further, right, middle)
        return 0.5 * left + 0.5 * right


def _times(sign: Any, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of intervals times a sign, one number or an array."""
    if isinstance(sign, int):
        return (low, high) if sign > 0 else (-high, -low)
    return np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)


def logistic(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)) within a relative error of LIBRARY."""
    decay = np.exp(-np.abs(z))
    return np.where(z < 0, decay, 1.0) / (1.0 + decay)


def enclosed(value: Array, slip: Array) -> tuple[Array, Array]:
    """Return the ends of an interval around computed values that are off by no more than ``slip``."""
    room = slip + TINY
    return down(value - room), up(value + room)


def unless_large(bound: Array, size: Array, largest: float) -> Array:
    """Return a bound of rounding errors, and infinity where numbers are so large that a step may overflow."""
    return np.where(16 * size < largest, bound, np.inf)
