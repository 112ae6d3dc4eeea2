"""Elementary functions: powers, exp, log and waves; where each has bounds, and how exactly programs compute it.

Some are defined only above 0, or have a pole there. Over an interval that reaches so far, every bound is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, enclosed, unless_large
from fairmend_check.kernel.operations.base import Bools, magnitude
from fairmend_check.kernel.rounding import LIBRARY, TINY, Array, Precision, U, down, up

_ROOT = 2 * math.sqrt(TINY)  # above the roots of all numbers that count as 0
_QUIETLY = np.errstate(all="ignore")  # infinity, and what is not a number, become infinite bounds


class Elementary(Curve):
    """A function whose value and slope are `computed` within a relative error, ``slip``.

    Programs compute it within so many ``units``. No value is below ``floor``.
    """

    slip: float
    units: float
    floor = -np.inf

    def computed(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) and f'(z), within the relative error."""
        raise NotImplementedError

    def defined(self, lower: Array, upper: Array) -> Bools:
        """Return where the function has bounds over the intervals."""
        return np.ones(lower.shape, dtype=np.bool_)

    @_QUIETLY
    def values(self, z: Array) -> tuple[Array, Array]:
        value = self.rough(z)[0]
        low, high = enclosed(value, self.slip * np.abs(value))
        return self._if_defined((np.maximum(low, self.floor), high), z, z)

    @_QUIETLY
    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self.rough(z)[1]
        return self._if_defined(enclosed(slope, self.slip * np.abs(slope)), z, z)

    @_QUIETLY
    def rough(self, z: Array) -> tuple[Array, Array]:
        return self.computed(z)

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return self._if_defined(super().value_range(lower, upper), lower, upper)

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return self._if_defined(super().slope_range(lower, upper), lower, upper)

    @_QUIETLY
    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the intercepts of lines with these slopes: by tangents, or by the values where those are too steep."""
        found, ends = super().intercepts(slopes, lower, upper), self.value_range(lower, upper)
        rises = [np.maximum(slope * lower, slope * upper) for slope in (slopes[0], -slopes[1])]
        room = [8 * U * (np.abs(end) + np.abs(rise)) + TINY for end, rise in zip(ends, rises, strict=True)]
        flat = down(ends[0] - rises[0] - room[0]), up(ends[1] + rises[1] + room[1])
        return self._if_defined((np.maximum(found[0], flat[0]), np.minimum(found[1], flat[1])), lower, upper)

    @_QUIETLY
    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return super().choose_slopes(lower, upper)

    @_QUIETLY
    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of the largest value; inf where it may overflow, and where a subnormal number is a pole."""
        near = 64 * kind.tiny
        value = magnitude(*self.value_range(low, high))
        bound = unless_large(self.units * kind.u * value + 4 * kind.tiny, value, kind.largest)
        bound = unless_large(bound, magnitude(low, high), kind.largest)
        return np.where(self.defined(low - near, high + near), bound, np.inf)

    def _if_defined(self, ends: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        inside = self.defined(lower, upper)
        return np.where(inside, ends[0], -np.inf), np.where(inside, ends[1], np.inf)


class Square(Elementary):
    """z^2; some programs call `pow`."""

    bends = (1,)
    lowest, turning = (0.0, 0.0), 0.0
    slip, units, floor = 4 * U, 4.0, 0.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        return z * z, 2 * z

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return 0.5 * slope


class Exp(Elementary):
    """exp(z)."""

    bends = (1,)
    slip, units, floor = LIBRARY, 16.0, 0.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        value = np.exp(z)
        return value, value

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return np.log(np.maximum(slope, TINY))


class Positive(Elementary):
    """A function of numbers above 0."""

    def defined(self, lower: Array, upper: Array) -> Bools:
        return lower > 0


class Log(Positive):
    """log(z), for z > 0: concave."""

    bends = (-1,)
    slip, units = LIBRARY, 16.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        return np.log(z), 1 / z

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of the largest value, and of 1: near log(1), programs are off by so much."""
        return super().rounding(low, high, kind) + 8 * kind.u

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return 1 / np.maximum(slope, TINY)


class Reciprocal(Elementary):
    """1 / z: concave below 0, convex above."""

    breaks = (Break(0.0, 0.0, (-np.inf, -np.inf)),)
    bends = (-1, 1)
    falls = pole = True
    slip, units = 8 * U, 8.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        value = 1 / z
        return value, -value * value

    def defined(self, lower: Array, upper: Array) -> Bools:
        return (lower > 0) | (upper < 0)

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return bend / np.sqrt(np.maximum(-slope, TINY))


class Sqrt(Elementary):
    """The square root, for z >= 0: concave, and infinitely steep at 0."""

    bends = (-1,)
    slip, units, floor = 8 * U, 8.0, 0.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        value = np.sqrt(z)
        return value, 0.5 / value

    def defined(self, lower: Array, upper: Array) -> Bools:
        return lower >= 0

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose f(z); of a subnormal number, this machine may take the root of 0."""
        low, high = super().values(z)
        return np.where(np.abs(z) < TINY, 0.0, low), np.where(np.abs(z) < TINY, _ROOT, high)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        low, high = super().slopes(z)
        return np.where(np.abs(z) < TINY, 0.25 / _ROOT, low), np.where(np.abs(z) < TINY, np.inf, high)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of the largest value; a subnormal number may be taken as 0."""
        value = magnitude(*self.value_range(low, high))
        bound = unless_large(self.units * kind.u * value + 4 * kind.tiny, magnitude(low, high), kind.largest)
        bound = np.where(low < 2 * kind.tiny, bound + np.minimum(value, 2 * math.sqrt(kind.tiny)), bound)
        return np.where(self.defined(low, high), bound, np.inf)

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return 0.25 / np.maximum(slope, TINY) ** 2


class Rsqrt(Positive):
    """1 / sqrt(z), for z > 0: convex; GPUs compute it roughly."""

    bends = (1,)
    falls = pole = True  # programs compute 1 / sqrt(-0), and the root of -0 is -0
    slip, units, floor = 16 * U, 16.0, 0.0

    def computed(self, z: Array) -> tuple[Array, Array]:
        value = 1 / np.sqrt(z)
        return value, -0.5 * value / z

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        return np.maximum(-2 * slope, TINY) ** (-2 / 3)


_TURN, _QUARTER = 2 * math.pi, 0.5 * math.pi
_FAR = 2.0**15  # beyond, programs reduce arguments in ways that differ
_SLACK = 1e-10  # of a turn: far above the rounding of _FAR / _TURN, and of arccos


@dataclass(frozen=True)
class _Quarters:
    """sin(z + quarters pi / 2): sine, cosine and their negatives."""

    quarters: int

    def values(self, z: Array) -> tuple[Array, Array]:
        """Enclose the values at points."""
        near = np.abs(z) <= _FAR
        value = self.rough(np.where(near, z, 0.0))
        low, high = enclosed(value, np.full(value.shape, LIBRARY))
        return np.where(near, np.maximum(low, -1.0), -1.0), np.where(near, np.minimum(high, 1.0), 1.0)

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Enclose the values: those at the ends, and 1 or -1 where the interval has such a point, or almost."""
        left, right = self.values(lower), self.values(upper)
        low = np.where(self._has(3, lower, upper), -1.0, np.minimum(left[0], right[0]))
        return low, np.where(self._has(1, lower, upper), 1.0, np.maximum(left[1], right[1]))

    def rough(self, z: Array) -> Array:
        """Return the values at points within LIBRARY."""
        value = np.cos(z) if self.quarters % 2 else np.sin(z)
        return -value if self.quarters % 4 >= 2 else value

    def _has(self, quarter: int, lower: Array, upper: Array) -> Bools:
        """Return whether intervals may have a point so many quarters after a rising zero."""
        near = magnitude(lower, upper) <= _FAR
        first, last = (np.where(near, z, 0.0) / _TURN - (quarter - self.quarters) / 4 for z in (lower, upper))
        return ~near | (np.floor(last + _SLACK) >= np.ceil(first - _SLACK))


class Wave(Curve):
    """sin or cos: f'' = -f, so that f(z) - s z has its minima where f' is s and f negative, one in each turn.

    They lie on a line, so the least of them is the first or the last of the interval.
    """

    shifts: ClassVar[dict[str, int]] = {"sin": 0, "cos": 1}

    def __init__(self, activation: Activation) -> None:
        quarters = self.shifts[activation.name]
        self.wave, self.slope, self.negative = (_Quarters(quarters + more) for more in (0, 1, 2))

    def values(self, z: Array) -> tuple[Array, Array]:
        return self.wave.values(z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return self.slope.values(z)

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) and f'(z), not exactly."""
        near = np.where(np.abs(z) <= _FAR, z, 0.0)
        return self.wave.rough(near), self.slope.rough(near)

    def value_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return self.wave.value_range(lower, upper)

    def slope_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return self.slope.value_range(lower, upper)

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return slopes of lines that are near in the middle; over long intervals, flat ones are."""
        chosen, flat = super().choose_slopes(lower, upper), np.zeros(lower.shape)
        with np.errstate(all="ignore"):
            middle = 0.5 * lower + 0.5 * upper
            low, high = self.intercepts(chosen, lower, upper)
            least, most = self.value_range(lower, upper)
            better = low + chosen[0] * middle > least, high + chosen[1] * middle < most
        return np.where(better[0], chosen[0], flat), np.where(better[1], chosen[1], flat)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of 1 and of the argument; inf beyond arguments that all programs reduce well."""
        size = magnitude(low, high)
        return np.where(size <= _FAR, (8 + 2 * size) * kind.u + 4 * kind.tiny, np.inf)

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        return self._least(1, slopes[0], lower, upper), -self._least(-1, slopes[1], lower, upper)

    def _least(self, sign: int, slope: Array, lower: Array, upper: Array) -> Array:
        """Return a lower bound of sign (f(z) - slope z) on lower..upper."""
        wave, s = (self.wave if sign > 0 else self.negative), sign * slope
        with np.errstate(all="ignore"):
            # The minima of the wave less s z: its slope there is s, on its negative side.
            start = -np.arccos(np.clip(s, -1.0, 1.0)) - wave.quarters * _QUARTER
            last, first = np.floor((upper - start) / _TURN + _SLACK), np.ceil((lower - start) / _TURN - _SLACK)
            z = start + _TURN * np.where(s > 0, last, first)
            slack = _SLACK * 16 * _TURN
            inside = (np.abs(s) < 1) & (z >= lower - slack) & (z <= upper + slack)
            # z is off by less than 1e-8, and the function there by half the square of that.
            turned = np.where(inside, self._at(sign, slope, z) - 1e-15, np.inf)
            least = np.minimum(turned, np.minimum(self._at(sign, slope, lower), self._at(sign, slope, upper)))
            flat = down(np.minimum(-1 - s * lower, -1 - s * upper) - 4 * U * (1 + np.abs(s) * magnitude(lower, upper)))
        return down(np.where(magnitude(lower, upper) <= _FAR, least, flat))
