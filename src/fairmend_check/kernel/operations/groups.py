"""Softmax and layer normalisation: each value depends on all numbers of its group, those that are side by side.

Both are bounded jointly, not step by step: probabilities are positive and add up to 1, and a normalised group has a
known norm. What programs round in them is bounded without saying in which order they compute: with or without the
maximum subtracted, the variance in one pass or two, one kernel or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.operations.base import (
    PER_UNIT,
    Bools,
    Derivatives,
    Form,
    Interval,
    Nonlinear,
    finite,
    length,
    magnitude,
    once,
    one_source,
)
from fairmend_check.kernel.rounding import LIBRARY, TINY, Array, Precision, U, ball, down, gamma, up


@dataclass(frozen=True, eq=False)
class GroupPlanes:
    """Planes below and above each value of each group, as functions of the group's numbers: their halves.

    ``middle`` is half the sum of their slopes, and ``apart`` half the difference (boxes, groups, values, numbers), and
    ``ends`` are the same of their constants, and how much these weigh (boxes, groups, values, 3). ``size`` (boxes,
    groups, numbers) is how large the numbers can be.
    """

    middle: Array
    apart: Array
    ends: Array
    size: Array

    @staticmethod
    def between(below: Array, above: Array, low: Array, high: Array, size: Array) -> GroupPlanes:
        """Return the planes with these slopes (..., values, numbers), and with constants from low to high."""
        weighs = magnitude(low, high) + (magnitude(below, above) @ size[..., None])[..., 0]
        ends = np.stack([0.5 * low + 0.5 * high, 0.5 * low - 0.5 * high, weighs], axis=3)
        return GroupPlanes(0.5 * below + 0.5 * above, 0.5 * below - 0.5 * above, ends, size)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Intervals of the derivatives of each value by each number of its group (boxes, groups, values, numbers).

    ``stretch`` (boxes,) bounds the norms of these matrices: averages of symmetric ones, whose eigenvalues are bounded.
    """

    least: Array
    most: Array
    stretch: Array


class Grouped(Nonlinear):
    """An operation on groups of numbers that are side by side, all of one size."""

    size: int
    mirrors = bends = True

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of what it reads, a number of whole groups."""
        width = one_source(widths)
        if self.size < 1 or width % self.size:
            raise CheckError(f"a node of the model has groups of {self.size} numbers, and reads {width}")
        return width

    def relaxed(self, reads: Sequence[Interval]) -> Any:
        return self.planes(reads, self.interval(reads))

    def planes(self, reads: Sequence[Interval], values: Interval) -> Any:
        """Return planes around its values, which are in this interval."""
        raise NotImplementedError

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Replace every value of the groups that forms use by its planes."""
        each = self._split(coefficients)
        if each[:, :, :1].any(axis=(0, 2, 3)).all():
            return [self._bent(each, relaxed, form)]
        used = np.flatnonzero(each.any(axis=(0, 2, 3)))
        first, last = (used[0], used[-1] + 1) if len(used) else (0, 1)
        some = slice(first, last)
        found = self._bent(each[:, some], _of_groups(relaxed, some), form)
        if found.shape[2] == coefficients.shape[2]:
            return [found]
        whole = np.zeros((*found.shape[:2], coefficients.shape[2]))
        whole[:, :, first * self.size : last * self.size] = found
        return [whole]

    def _bent(self, each: Array, relaxed: Any, form: Form) -> Array:
        """Return the coefficients (boxes, forms, width), from those of the values (boxes, groups, forms, size)."""
        planes: GroupPlanes = relaxed
        size = np.abs(each)  # as in `Activation.substitute`
        constant, (added, whole) = _over(each, planes.ends[..., :1])[0], _over(size, planes.ends[..., 1:])
        room = TINY * (1 + planes.size.sum(axis=(1, 2))[:, None])
        lost = gamma(4 * each.shape[1] * self.size + 32) * whole + room
        odd, even = _joined(each @ planes.middle), _joined(size @ planes.apart)
        return form.bend((odd, constant), (even, added), lost)

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Multiply by the derivatives of each value by each number of its group."""
        least, most = slopes.least[:, :, None], slopes.most[:, :, None]  # (boxes, groups, 1, values, numbers)
        boxes, groups, _, n, _ = least.shape
        low, high, size = (
            part.reshape(boxes, part.shape[1], groups, n).transpose(0, 2, 1, 3)[..., None] for part in derivatives
        )
        corners = [factor * end for factor in (low, high) for end in (least, most)]
        below, above = np.minimum.reduce(corners), np.maximum.reduce(corners)
        slip = 2 * gamma(n + 4) * magnitude(below, above).sum(axis=3) + TINY
        whole = (size * magnitude(least, most)).sum(axis=3) * (1 + 4 * gamma(n + 4)) + TINY
        parts = below.sum(axis=3) - slip, above.sum(axis=3) + slip, whole
        less, more, sizes = (part.transpose(0, 2, 1, 3).reshape(boxes, part.shape[2], groups * n) for part in parts)
        return [(less, more, sizes)]

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Multiply by the sizes of the derivatives."""
        off = self._grouped(errors[0])
        found = np.where(off[:, :, None] == 0, 0.0, magnitude(slopes.least, slopes.most) * off[:, :, None]).sum(axis=3)
        longest = slopes.stretch[:, None] * length(off) * (1 + 4 * U)  # of one value, and so of all of them
        found = np.fmin(found, longest[..., None])
        return np.asarray(found * (1 + 4 * gamma(self.size + 8))).reshape(errors[0].shape)

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Return the largest norm of the derivatives of a group."""
        return np.asarray(slopes.stretch)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Return what reaches any number of the group."""
        columns = reached[0].shape[1]
        groups = np.asarray(reached[0].reshape(-1, self.size, columns).any(axis=1))
        return np.repeat(groups, self.size, axis=0)

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Give every number of a group the mean of their weights."""
        means = weights.reshape(-1, self.size).mean(axis=1)
        return [np.repeat(means, self.size)]

    def work(self, width: int) -> int:
        """Return what derivatives and planes cost."""
        return (PER_UNIT + 16 * self.size) * width

    def _grouped(self, values: Array) -> Array:
        """Return the values (boxes, groups, size)."""
        return values.reshape(len(values), values.shape[1] // self.size, self.size)

    def _split(self, coefficients: Array) -> Array:
        """Return the coefficients of each group (boxes, groups, forms, size)."""
        boxes, forms, width = once(coefficients).shape
        return once(coefficients).reshape(boxes, forms, width // self.size, self.size).swapaxes(1, 2)


def _of_groups(planes: Any, some: slice) -> Any:
    """Return the planes of some groups."""
    return type(planes)(*(getattr(planes, part.name)[:, some] for part in fields(planes)))


def _mean(values: Array, *, keepdims: bool = False) -> Array:
    """Return the means along the last axis, faster than `np.mean`."""
    return np.asarray(values.sum(axis=-1, keepdims=keepdims) / values.shape[-1])


def _joined(parts: Array) -> Array:
    """Return the coefficients of all groups (boxes, forms, width)."""
    boxes, groups, forms, size = parts.shape
    return parts.swapaxes(1, 2).reshape(boxes, forms, groups * size)


def _over(parts: Array, values: Array) -> Array:
    """Return the sums of coefficients (boxes, groups, forms, size) times each of some values, all groups together.

    The values are (boxes, groups, size, so many), the sums (so many, boxes, forms).
    """
    return np.asarray(np.moveaxis((parts @ values).sum(axis=1), 2, 0))


_EXP_UNITS = 40  # PyTorch's fused attention computes exp to 20 units in the last place


@dataclass(frozen=True)
class Softmax(Grouped):
    """exp(x_i) / Σ_j exp(x_j) within each group, which is 1 / S_i with S_i = Σ_j exp(x_j - x_i).

    Planes follow from S_i: exp is convex, so it is below its chords and above its tangents, and so is 1 / S.
    """

    size: int

    def words(self, read: Sequence[str]) -> str:
        """Return what it computes."""
        return f"the softmax of every {self.size} columns of {read[0]}"

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose 1 / S_i."""
        least, most = _sums(*self._apart(reads[0]))
        low, high = np.maximum(down(1 / most), 0.0), np.minimum(up(1 / least), 1.0)
        return low.reshape(reads[0][0].shape), high.reshape(reads[0][0].shape)

    def planes(self, reads: Sequence[Interval], values: Interval) -> GroupPlanes:
        """Return planes through chords and tangents of exp and of 1 / S."""
        less, more = self._apart(reads[0])
        sizes, n = self._grouped(magnitude(*reads[0])), self.size
        least, most = _sums(less, more)
        low, high = (self._grouped(end) for end in values)
        other = ~np.eye(n, dtype=np.bool_)
        planes = []
        for rising in (False, True):  # the plane below has S from above, the plane above has it from below
            slope, constant = _below_exp(less, more) if rising else _above_exp(less, more)
            slope, constant = np.where(other, slope, 0.0), np.where(other, constant, 0.0)
            at = 1 + (slope * (0.5 * less + 0.5 * more) + constant).sum(axis=3)  # S in the middle
            factor = 1 / (least * most) if rising else 1 / np.maximum(at, 1.0) ** 2
            if rising:  # 1 / S + factor S is convex in S
                top = np.maximum(up(1 / least) + factor * least, up(1 / most) + factor * most)
                top = top * (1 + 4 * U)
            else:  # it is at least 2 sqrt(factor)
                top = 2 * np.sqrt(factor) * (1 - 8 * U)
            by = factor[..., None] * slope
            offset = factor * (1 + constant.sum(axis=3))
            size = factor * (1 + np.abs(constant).sum(axis=3)) + top
            size = size + (by * (sizes[:, :, None, :] + sizes[:, :, :, None])).sum(axis=3)
            slip = gamma(4 * n + 16) * size + TINY
            slopes = -by + np.where(other, 0.0, by.sum(axis=3, keepdims=True))
            planes.append((slopes, up(top - offset + slip) if rising else down(top - offset - slip)))
        (below, bottom), (above, top) = planes
        usable = np.isfinite(below).all(axis=3) & np.isfinite(bottom), np.isfinite(above).all(axis=3) & np.isfinite(top)
        return GroupPlanes.between(
            np.where(usable[0][..., None], below, 0.0),
            np.where(usable[1][..., None], above, 0.0),
            np.where(usable[0], bottom, low),
            np.where(usable[1], top, high),
            sizes,
        )

    def slopes(self, reads: Sequence[Interval]) -> Slopes:
        """Enclose p_i (δ_ij - p_j); eigenvalues are at most 2 p_i (1 - p_i), the sums of the sizes in a row."""
        low, high = (self._grouped(end) for end in self.interval(reads))
        each = np.eye(self.size, dtype=np.bool_)
        # p (1 - p) rises up to p = 1/2, and falls from there.
        ends = [np.maximum(end * (1 - end), 0.0) for end in (low, high)]
        own_low = np.minimum(*ends)
        own_high = np.where((low <= 0.5) & (high >= 0.5), 0.25, np.maximum(*ends))
        others = low[:, :, :, None] * low[:, :, None], high[:, :, :, None] * high[:, :, None]
        least = np.where(each, own_low[..., None], -others[1])
        most = np.where(each, own_high[..., None], -others[0])
        stretch = np.minimum(2 * own_high.max(axis=(1, 2)), 0.5) * (1 + 8 * U)
        return Slopes(down(least - 8 * U), up(most + 8 * U), stretch)

    def rounding(self, reads: Sequence[Interval], kind: Precision, scaled: float) -> Array:
        """Return the roundings of a softmax.

        Each exp is off by d: 20 units in the last place, and the roundings of its argument, of which each is off by u M
        or 2 u M: the number and the maximum are scaled and subtracted in whatever order. With exp(x_j) (1 + d_j) for
        exp(x_j), p_i changes by p_i (d_i - D) / (1 + D) with D = Σ p_j d_j, so by at most 2 p_i (1 - p_i) d / (1 - d):
        what all have in common cancels out, such as a factor by which parts of a sum are rescaled. The sum, products
        with such factors and a division, before or after other sums, are off by some units for each term.

        Numbers that are surely far below the largest one, such as those with a mask of -1e9, take no part in M: their
        exp is below t in any case, so that they change a sum by n t. See the page for parts of a sum that hold nothing
        else, where an argument may become as large as u M, but no number may overflow.
        """
        low, high = (self._grouped(end) for end in reads[0])
        size, n = self._grouped(magnitude(*reads[0])), self.size
        far = high < low.max(axis=2, keepdims=True) - (4 - np.log(kind.tiny))
        near, largest = (np.repeat(part.max(axis=2), n, axis=1) for part in (np.where(far, 0.0, size), size))
        low, high = self.interval(reads)
        each, sums = (_EXP_UNITS + 8 * near) * kind.u, (2 * n + 8) * kind.u
        apart = np.where(low > 0.5, high * (1 - low), np.where(high < 0.5, high * (1 - high), 0.25))  # p (1 - p)
        off = each / (1 - each)  # and so much is exp off if its argument is
        bound = 2 * apart * off / (1 - off) * (1 + 2 * sums) + high * sums / (1 - sums) + 8 * (n + 4) * kind.tiny
        fits = (each < 0.125) & (sums < 0.125) & (16 * scaled * largest < kind.largest)
        fits &= 1.25 * kind.u * largest + np.log(n) + 4 < np.log(kind.largest)
        return np.where(fits, bound * (1 + 4 * gamma(16)), np.inf)

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Return 2; of infinity programs make NaN."""
        groups = sizes[0].reshape(-1, self.size).max(axis=1)
        return np.repeat(np.where(groups <= largest / 64, 2.0, np.inf), self.size)

    def _apart(self, read: Interval) -> Interval:
        """Enclose x_j - x_i (boxes, groups, i, j)."""
        low, high = (self._grouped(end) for end in read)
        less, more = down(low[:, :, None] - high[..., None]), up(high[:, :, None] - low[..., None])
        same = np.eye(self.size, dtype=np.bool_)
        return np.where(same, 0.0, less), np.where(same, 0.0, more)


def _sums(less: Array, more: Array) -> Interval:
    """Enclose S_i = Σ_j exp(x_j - x_i), from intervals of the differences."""
    n = less.shape[3]
    slip = LIBRARY + gamma(n + 4)
    others = ~np.eye(n, dtype=np.bool_)
    least = np.where(others, np.exp(less), 0.0).sum(axis=3) * (1 - slip)
    most = np.where(others, np.exp(more), 0.0).sum(axis=3) * (1 + slip) + TINY
    return np.maximum(down(1 + least), 1.0), up(1 + most)


def _above_exp(low: Array, high: Array) -> Interval:
    """Return slopes and constants of lines above exp on low..high: chords, or any slope with what the ends need."""
    left, right = np.exp(low), np.exp(high)
    width = high - low
    slope = np.where(width > 1e-6, (right - left) / np.where(width > 1e-6, width, 1.0), right)
    ends = [value * (1 + LIBRARY) - slope * at for value, at in ((left, low), (right, high))]
    slip = 4 * U * (right + np.abs(slope) * np.maximum(np.abs(low), np.abs(high))) + TINY
    return slope, up(np.maximum(*ends) + slip)


def _below_exp(low: Array, high: Array) -> Interval:
    """Return slopes and constants of lines below exp: tangents at points where they are positive over low..high."""
    at = np.minimum(0.5 * low + 0.5 * high, low + 0.99)
    slope = np.exp(at)
    # The least of exp(d) - s d is s (1 - log s), and log s is ``at`` but for the rounding of exp.
    return slope, down(slope * (1 - at) - slope * (1 + np.abs(at)) * (2 * LIBRARY) - TINY)


@dataclass(frozen=True, eq=False)
class RootPlanes:
    """Planes of values c_i r: q c_i + p_i r - p_i q, less or more ``off``, with planes below and above r.

    ``slope`` (boxes, groups, 1, values) is q, one number for each group, where this is used; elsewhere ``slope`` and p
    are 0, and a value is within ``off`` of its ``middle``. ``size`` (boxes, groups, numbers) is how large the numbers
    can be. A form of values is multiplied by ``share``, which is p, ``mean``, which is what the mean of q c_i takes,
    ``middle``, and its size by ``off``, with what rounding can change (boxes, groups, values, 1).

    ``by`` are slopes by the numbers for share, mean and the size of the share (boxes, groups, 3, numbers): half the sum
    of the slopes of both planes of r, -1, and half the difference. ``constants`` (boxes, groups, 1, 3) are half the sum
    less q, half the difference, and the size of both planes' constants.
    """

    slope: Array
    size: Array
    share: Array
    mean: Array
    middle: Array
    off: Array
    by: Array
    constants: Array


@dataclass(frozen=True, eq=False)
class Spread:
    """Intervals of the c_i and of their squares (boxes, groups, size), and of the mean v of these (boxes, groups)."""

    c: Interval
    squares: Interval
    v: Interval


_ROUNDINGS = 16  # of a normalisation, beside some for each number of a group
_MOST_EPSILON, _LEAST_EPSILON = 1.0, 2.0**-60
_OVERFLOWS = 2.0**450  # of larger numbers, squares and their sums may be infinite
_UNDERFLOWS = 2.0**200  # of larger numbers, the slopes of 1 / sqrt(v) by v may be 0


@dataclass(frozen=True)
class Normalise(Grouped):
    """(x_i - m) / sqrt(v + ε) within each group: m is the mean, and v the mean of the (x_j - m)².

    ``centred`` is False for the root mean square, where m is 0. With c = x - m and r = 1 / sqrt(v + ε), the values are
    y = c r, and their derivatives by x_j are r (δ_ij - 1/n - y_i y_j / n), without 1/n if they are not centred.
    """

    size: int
    epsilon: float
    centred: bool = True

    def words(self, read: Sequence[str]) -> str:
        """Return what it computes."""
        if not self.centred:
            centre = "divided by the root of its mean square, with epsilon"
            return f"every {self.size} columns of {read[0]} {centre} {self.epsilon!r}"
        return f"every {self.size} columns of {read[0]} less its mean, divided by sqrt(variance + {self.epsilon!r})"

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of what it reads; refuse an ε for which nothing is known."""
        if not _LEAST_EPSILON <= self.epsilon <= _MOST_EPSILON:
            raise CheckError(f"a normalisation has epsilon {self.epsilon}; it must be 2^-60 to 1")
        return super().width(widths)

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose c_i / sqrt(c_i² / n + w + ε), which grows with c_i; w is the mean of the other squares."""
        low, high = self._values(self._spread(reads))
        return low.reshape(reads[0][0].shape), high.reshape(reads[0][0].shape)

    def _values(self, spread: Spread) -> Interval:
        """Enclose the values (boxes, groups, size)."""
        (low, high), (least, most) = spread.c, spread.squares
        n, slip = self.size, 1 + gamma(4 * self.size + 32)
        largest = np.sqrt(float(n)) * slip  # the norm of all values is less than sqrt(n)
        mean = [end[..., None] + self.epsilon for end in spread.v]
        total = least.sum(axis=2, keepdims=True) / slip, most.sum(axis=2, keepdims=True) * slip
        others = np.maximum(total[0] - least, 0.0) / n, np.maximum(total[1] - most, 0.0) / n
        found = []
        for c, sign in ((low, -1), (high, 1)):
            # Of a value that has this sign, the least of the other squares gives the largest size.
            outward, square = c * sign > 0, c * c / n
            other = np.where(outward, others[0] / slip, others[1] * slip)
            if self.centred and n > 1:  # the others add up to -c
                other = np.maximum(other, np.where(outward, square / (n - 1), 0.0) / slip)
            whole = square + other + self.epsilon
            value = c / np.sqrt(np.where(outward, np.fmax(whole, mean[0]), np.fmin(whole, mean[1])))
            value = value + sign * (np.abs(value) * (slip - 1 + 16 * U) + TINY)
            value = np.where(outward & (np.abs(c) > _OVERFLOWS), np.nan, value)  # nothing is known but the norm
            found.append(np.fmin(value, largest) if sign > 0 else np.fmax(value, -largest))
        if self.centred and n == 1:
            found = [np.zeros_like(low)] * 2
        return down(found[0]), up(found[1])

    def planes(self, reads: Sequence[Interval], values: Interval) -> RootPlanes:
        """Return planes of the product c_i r, and of r.

        With p and q in the middle of c_i and r, it is q c_i + p r - p q, but for (c_i - p)(r - q). As a function of v,
        r is convex: above its tangents and below its chord. So are the squares c_j², of which v is the mean.
        """
        spread = self._spread(reads)
        (low, high), ends = spread.c, spread.v
        size, n, slip = self._grouped(magnitude(*reads[0])), self.size, gamma(8 * self.size + 64)
        (p, p_off), both = ball(low, high), low + high
        roots = [np.sqrt(end + self.epsilon) for end in ends]
        r_low, r_high = (1 - slip) / roots[1], (1 + slip) / roots[0]
        q, q_off = ball(r_low, r_high)
        chord = np.maximum(low * low - both * low, high * high - both * high)  # c_j² is at most both c_j + chord
        touch = np.minimum(np.maximum(_mean(both * p + chord), ends[0]), ends[1])  # of the tangent of r
        at = touch + self.epsilon
        falls = 0.5 / (at * np.sqrt(at)), 1 / (roots[0] * roots[1] * (roots[0] + roots[1]))
        tops = 1.5 / np.sqrt(at), np.maximum(r_high + falls[1] * ends[0], r_low + falls[1] * ends[1])
        by = np.stack([-falls[0][..., None] * both / n, -falls[1][..., None] * p * (2 / n)], axis=2)
        above = _mean(chord) + self.epsilon, -_mean(p * p)
        constant = np.stack([tops[0] - falls[0] * above[0], tops[1] - falls[1] * above[1]], axis=2)
        far = size + _mean(size, keepdims=True)  # how large c_j is at most, and what it is made of
        squares = 4 * _mean(magnitude(low, high) ** 2) + self.epsilon
        whole = q + sum(top + fall * squares for top, fall in zip(tops, falls, strict=True))
        whole = whole + (np.abs(by) @ far[..., None])[..., 0].sum(axis=2)
        off = p_off * q_off[..., None] * (1 + 4 * U) + 2 * slip * (q[..., None] * far + np.abs(p) * whole[..., None])
        flat = [self._grouped(end) for end in values]
        usable = (np.isfinite(whole) & (size.max(axis=2) < _UNDERFLOWS))[..., None]
        usable = usable & (off + np.abs(p) * q_off[..., None] < flat[1] - flat[0])
        middle, radius = ball(*flat)
        chosen = [np.where(usable, *pair) for pair in ((p, 0.0), (q[..., None], 0.0), (0.0, middle), (off, radius))]
        p, slope, middle, off = chosen
        by, q, (bottom, top) = finite(by), finite(q), (finite(constant[..., side]) for side in (0, 1))
        if self.centred:
            by = by - _mean(by, keepdims=True)
        halves = [0.5 * by[:, :, :1] + 0.5 * by[:, :, 1:], 0.5 * by[:, :, :1] - 0.5 * by[:, :, 1:]]
        constants = 0.5 * bottom + 0.5 * top - q, 0.5 * bottom - 0.5 * top, np.abs(bottom) + np.abs(top) + q
        return RootPlanes(
            slope[:, :, None],
            size,
            p[..., None],
            (slope / n if self.centred else 0 * slope)[..., None],
            middle[..., None],
            ((off + 2 * gamma(n + low.shape[1] + 32) * np.abs(middle)) * (1 + gamma(n + 16)))[..., None],
            np.concatenate([halves[0], np.full_like(halves[0], -1.0), halves[1]], axis=2),
            np.stack(constants, axis=2)[:, :, None],
        )

    def _bent(self, each: Array, relaxed: Any, form: Form) -> Array:
        """Replace every value by its plane, and then r, of which all values of a group have a share, by its own.

        A share s of r is at least s times the plane below it, or above it if s is negative: with half the sum of both
        for s, and half their difference for the size of s.
        """
        planes: RootPlanes = relaxed
        groups, n = planes.size.shape[1:]
        share, mean, fixed = (each @ part for part in (planes.share, planes.mean, planes.middle))
        size, forms = np.abs(share), each.shape[2]
        constant, added, largest = (planes.constants[..., i : i + 1] for i in range(3))
        lost = np.abs(each) @ planes.off + gamma(n + groups + 32) * (size * largest)
        room = TINY * (1 + planes.size.sum(axis=(1, 2))[:, None])
        lost = lost.sum(axis=(1, 3)) * (1 + gamma(groups + 16)) + room
        ends = (share * constant + fixed).sum(axis=(1, 3)), (size * added).sum(axis=(1, 3))
        signs = (1, -1) if form.bend_constants(*ends, lost) else (1,)
        rows = np.concatenate([np.concatenate([sign * share, sign * mean, size], axis=3) for sign in signs], axis=2)
        found = np.empty((len(rows), rows.shape[2], groups, n))
        split, straight = found.swapaxes(1, 2), each * planes.slope
        np.matmul(rows, planes.by, out=split)
        split[:, :, :forms] += straight
        if len(signs) == 2:
            split[:, :, forms:] -= straight
        return found.reshape(len(found), -1, groups * n)

    def slopes(self, reads: Sequence[Interval]) -> Slopes:
        """Enclose r (δ_ij - 1/n - y_i y_j / n), i of values and j of numbers; eigenvalues are from 0 to r."""
        n, slip = self.size, 1 + gamma(16)
        spread = self._spread(reads)
        r_high, r_low = (1 / np.sqrt(end + self.epsilon) for end in spread.v)
        r_low, r_high = r_low / slip, r_high * slip
        low, high = self._values(spread)
        corners = [first[..., None] * second[:, :, None] for first in (low, high) for second in (low, high)]
        products = np.minimum.reduce(corners), np.maximum.reduce(corners)
        each = np.eye(n, dtype=np.bool_)  # y_i² is not negative
        straddles = ((low < 0) & (high > 0))[..., None] & each
        squares = np.where(straddles, 0.0, np.where(each, np.minimum(corners[0], corners[3]), products[0]))
        fixed = np.eye(n) - (1 / n if self.centred else 0.0)
        inner = fixed - products[1] / n - 16 * U * (1 + n), fixed - squares / n + 16 * U * (1 + n)
        ends = [end * r[..., None, None] for end in inner for r in (r_low, r_high)]
        return Slopes(down(np.minimum.reduce(ends[:2])), up(np.maximum.reduce(ends[2:])), r_high.max(axis=1))

    def rounding(self, reads: Sequence[Interval], kind: Precision, scaled: float) -> Array:
        """Return the roundings of a normalisation, in whatever order and in however many passes.

        With A the larger of the sums of all positive and all negative numbers, divided by n, no partial sum is above
        n A, and the mean is off by N u A with N = 17/16 (n + 16). So is a mean that is updated by each number. The
        variance is off by N u times

        - v in two passes;
        - v + m² + 2 |m| A in one pass, mean of squares less square of the mean;
        - v + 3 A sqrt(v) if it is updated by each number, D_k² (1 - 1/k), where the mean before it was off: the sum of
          |D_k| times how far that is off is at most sqrt(2 n v) sqrt(n) n u A, as D_k² adds up to no more than 2 n v.

        All are at most v + m² + 3 A max(sqrt(v), |m|), and at most 3 (v + m²). Relative to v + ε that is largest, R,
        where v is least. It changes r by R (1 + R) / 2 if R is at most a quarter.
        """
        low, high = (self._grouped(end) for end in reads[0])
        n, size = self.size, magnitude(low, high)
        units, zero = (n + _ROUNDINGS) * (17 / 16) * kind.u, np.zeros((*size.shape[:2], 1))
        spread = self._spread(reads)
        r = 1 / np.sqrt(spread.v[0] + self.epsilon)[..., None]
        sums = [part.sum(axis=2, keepdims=True) / n for part in (low, high, np.maximum(high, 0), np.maximum(-low, 0))]
        mean, most = (magnitude(*sums[:2]), np.maximum(*sums[2:])) if self.centred else (zero, zero)
        far, side = mean * r, most * r
        off = units * (1 + np.minimum(2 + 3 * far * far, far * far + 3 * side * np.maximum(far, 1)))
        y = magnitude(*self._values(spread))
        bound = y * (off * (0.5 + off) + _ROUNDINGS * kind.u) + (1 + off) * (
            units * side + 4 * kind.u * r * (size + mean)
        )
        bound = (bound + kind.tiny * (n + 8) * (1 + r) * scaled) * (1 + 4 * units + 4 * gamma(n + 16))
        fits = (off < 0.25) & (4 * n * scaled * size.max(axis=2)[..., None] ** 2 < kind.largest)
        return np.where(fits, bound, np.inf).reshape(reads[0][0].shape)

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the norm of a group; squares must not overflow."""
        groups = sizes[0].reshape(-1, self.size).max(axis=1)
        fits = 64 * self.size * groups * groups <= largest
        return np.repeat(np.where(fits, 4 * np.sqrt(float(self.size)), np.inf), self.size)

    def asked(self, reads: Sequence[Interval]) -> Array | None:
        """Ask for the c_i, if they are not the numbers, and for sums of them as steep as v in the middle of a group."""
        n, groups = self.size, reads[0][0].shape[1] // self.size
        if self.centred and len(reads) == 1:
            group = np.arange(groups * n) // n
            centring: Array = np.eye(groups * n) - (group[:, None] == group) / n
            return centring[None]
        if len(reads) < 2 + self.centred:
            low, high = self._spread(reads).c
            steep = finite(low + high) / n
            if self.centred:
                steep = steep - _mean(steep, keepdims=True)
            return (steep[:, :, None] * np.eye(groups)[None, :, :, None]).reshape(len(steep), groups, -1)
        return None

    def _spread(self, reads: Sequence[Interval]) -> Spread:
        """Enclose the c_i, their squares and v: by these, or by the sums that were asked for and how far v is off."""
        low, high = (self._grouped(end) for end in reads[0])
        n = self.size
        if self.centred:
            slip = gamma(n + 16) * (magnitude(low, high).sum(axis=2, keepdims=True) * (2 / n) + magnitude(low, high))
            sums = low.sum(axis=2, keepdims=True), high.sum(axis=2, keepdims=True)
            low, high = (
                down(low - (sums[1] - high + low) / n - 2 * slip - TINY),
                up(high - (sums[0] - low + high) / n + 2 * slip + TINY),
            )
            if len(reads) > 1:
                least, most = (self._grouped(end) for end in reads[1])
                low, high = np.maximum(low, down(least - slip)), np.minimum(high, up(most + slip))
        ends = low * low, high * high
        straddles = (low <= 0) & (high >= 0)
        least = np.where(straddles, 0.0, down(np.minimum(*ends)))
        least, most = np.minimum(np.maximum(least, 0.0), _OVERFLOWS**2), up(np.maximum(*ends))
        slip = gamma(4 * n + 32)
        v = least.sum(axis=2) / n * (1 - slip), most.sum(axis=2) / n * (1 + slip)
        if len(reads) == 2 + self.centred:
            both, sizes = finite(low + high), self._grouped(magnitude(*reads[0]))
            chord = _mean(np.maximum(low * low - both * low, high * high - both * high))
            room = np.abs(both) * (sizes + _mean(sizes, keepdims=True)) + magnitude(low, high) ** 2
            room = 4 * slip * _mean(room) + TINY * (1 + sizes.sum(axis=2))
            tangent = -0.25 * _mean(both * both)
            v = np.fmax(v[0], down(reads[-1][0] + tangent - room)), np.fmin(v[1], up(reads[-1][1] + chord + room))
        return Spread((low, high), (least, most), v)
