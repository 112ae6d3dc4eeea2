"""The neighbourhood S(x) of an input: all people who are similar to x, in the network's encoding.

There are two views of the same set: `Regions` covers it with boxes, for bounds; `stream_points` lists it exactly, if it
is finite. A one-hot group is a set of points, so it multiplies the boxes and is never a box itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.spec.features import Feature

__all__ = ["Placed", "Regions", "build_regions", "count_points", "stream_points"]

Placed = Sequence[tuple[Feature, slice]]  # the features, each with its encoded columns

_INT64_MAX = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Regions:
    """Neighbourhoods as unions of boxes: piece k is the box lower[k]..upper[k] and belongs to input owner[k].

    Attributes
    ----------
    lower, upper : (pieces, width)
    owner : int64 (pieces,), sorted, each input at least once
    count : number of inputs
    """

    lower: FloatArray
    upper: FloatArray
    owner: NDArray[np.int64]
    count: int

    def __post_init__(self) -> None:
        """Raise an error for arrays that do not fit together: all bounds and proofs rely on them."""
        if self.lower.ndim != 2 or self.lower.shape != self.upper.shape:
            shapes = f"{self.lower.shape} and {self.upper.shape}"
            raise FairmendError(f"regions need lower and upper of the same shape (pieces, width), got {shapes}")
        if self.owner.shape != self.lower.shape[:1]:
            raise FairmendError(
                f"regions need one owner per piece, got {self.owner.shape} for {len(self.lower)} pieces"
            )
        if not np.all(self.lower <= self.upper):
            raise FairmendError("regions need lower <= upper in every column of every piece")
        steps = np.diff(self.owner, prepend=-1, append=self.count)
        # Above 1 skips an input, below 0 is out of order; the outer steps pin the first and the last input.
        if np.any(steps < 0) or np.any(steps > 1) or steps[0] != 1 or steps[-1] != 1:
            raise FairmendError(
                f"regions need a sorted owner array that contains every input from 0 to {self.count - 1}"
            )

    def __repr__(self) -> str:
        """Show sizes instead of arrays."""
        pieces, width = self.lower.shape
        varying = int(self.varying.sum())
        return f"Regions({self.count} inputs in {pieces} pieces, {varying} of {width} columns varying)"

    @property
    def single(self) -> bool:
        """Whether each input has exactly one piece."""
        return len(self.owner) == self.count

    @property
    def varying(self) -> NDArray[np.bool_]:
        """The columns that vary within any piece (width,); one-hot columns only differ between pieces."""
        return np.asarray((self.lower < self.upper).any(axis=0))

    def subset(self, inputs: ArrayLike) -> Regions:
        """Return the regions of the chosen inputs (indices in any order, or a mask), renumbered from 0."""
        chosen = np.asarray(inputs)
        if chosen.dtype == np.bool_ and chosen.shape == (self.count,):
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64) if chosen.size == 0 else chosen
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise FairmendError(f"choose inputs by a list of indices or a mask of {self.count} entries")
        if np.any((chosen < 0) | (chosen >= self.count)):
            raise FairmendError(f"there are {self.count} inputs. Choose indices from 0 to {self.count - 1}.")
        bounds = np.searchsorted(self.owner, np.arange(self.count + 1))
        start, size = bounds[:-1][chosen], np.diff(bounds)[chosen]
        owner = np.repeat(np.arange(len(chosen), dtype=np.int64), size)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
        pieces = np.repeat(start, size) + within
        return Regions(self.lower[pieces], self.upper[pieces], owner, len(chosen))

    def hull(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest box around each input's pieces: lower, upper (count, width)."""
        if self.count == 0:
            return self.lower, self.upper
        start = np.searchsorted(self.owner, np.arange(self.count))
        lower: FloatArray = np.minimum.reduceat(self.lower, start, axis=0)
        upper: FloatArray = np.maximum.reduceat(self.upper, start, axis=0)
        return lower, upper


def build_regions(placed: Placed, X: FloatArray) -> Regions:
    """Return the regions of the inputs X (inputs, width), which must be valid; the dtype is that of X."""
    count = len(X)
    groups = [(feature, where) for feature, where in placed if feature.varies and feature.one_hot]
    sizes = [len(feature.corners) for feature, _ in groups]
    per_input = math.prod(sizes)
    combinations = np.indices(sizes).reshape(len(sizes), per_input)
    owner = np.repeat(np.arange(count, dtype=np.int64), per_input)
    lower, upper = X[owner], X[owner]
    for (feature, where), category in zip(groups, combinations, strict=True):
        points = np.tile(feature.corners.astype(X.dtype)[category], (count, 1))
        lower[:, where] = points
        upper[:, where] = points
    for feature, where in placed:
        if feature.varies and not feature.one_hot:
            x = X[:, where.start]
            lowest, highest = _reachable_range(feature, x)
            # Rounding is monotone, so the rounded ends contain every rounded value between them. x itself may have
            # been scaled elsewhere, one ulp away from our encoding, so it is included explicitly.
            lower[:, where.start] = np.minimum(feature.scaled(lowest).astype(X.dtype), x)[owner]
            upper[:, where.start] = np.maximum(feature.scaled(highest).astype(X.dtype), x)[owner]
    return Regions(lower, upper, owner, count)


def count_points(placed: Placed, X: FloatArray) -> NDArray[Any]:
    """Return the size of each neighbourhood (inputs,): int64, or Python ints where one would overflow."""
    _require_finite(placed)
    radices = [_reachable_values(feature, X[:, where.start])[1] for feature, where in placed if feature.varies]
    largest = math.prod(int(radix.max(initial=1)) for radix in radices)
    sizes = np.ones(len(X), dtype=np.int64 if largest <= _INT64_MAX else object)
    for radix in radices:
        sizes = sizes * radix.astype(sizes.dtype)
    return sizes


def stream_points(placed: Placed, X: FloatArray, batch: int) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
    """Return an iterator over all points of all neighbourhoods, at most `batch` at a time.

    Each step yields rows (k,), the input that each point belongs to, and points (k, width). Inputs come in
    order; within one, the last varying feature changes fastest. The input itself is one of its points.
    """
    if batch < 1:
        raise FairmendError(f"a batch must hold at least one point, got batch={batch}")
    sizes = count_points(placed, X)
    varying = [
        (feature, where, *_reachable_values(feature, X[:, where.start])) for feature, where in placed if feature.varies
    ]

    def fill(rows: NDArray[np.int64], index: NDArray[np.int64]) -> FloatArray:
        """Return the points (k, width) with the given numbers within their neighbourhoods."""
        points = X[rows]
        for feature, where, first, radix in reversed(varying):
            index, digit = np.divmod(index, radix[rows])
            if feature.one_hot:
                points[:, where] = feature.corners.astype(X.dtype)[digit]
                continue
            own = points[:, where.start]
            value = (first[rows] + digit).astype(np.float64)
            encoded = feature.scaled(value).astype(X.dtype)
            # At its own value the input keeps its own bits, which may be one ulp away from our encoding.
            points[:, where.start] = np.where(value == feature.nearest(own), own, encoded)
        return points

    def stream() -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        row, done = 0, 0  # the next point is number `done` of input `row`
        while row < len(X):
            # A chunk touches at most `batch` inputs, with at most `batch` points of each: no overflow here.
            left = sizes[row : row + batch].copy()
            left[0] -= done
            left = np.minimum(left, batch).astype(np.int64)
            ends = np.cumsum(left)
            flat = np.arange(min(batch, int(ends[-1])), dtype=np.int64)
            offset = np.searchsorted(ends, flat, side="right")
            index = flat - (ends - left)[offset]
            index[offset == 0] += done
            rows = (row + offset).astype(np.int64)
            yield rows, fill(rows, index)
            row, done = int(rows[-1]), int(index[-1]) + 1
            if done == sizes[row]:
                row, done = row + 1, 0

    return stream()


def _reachable_range(feature: Feature, x: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and highest value (inputs,), in its own units, of the neighbours of x (inputs,)."""
    lo, hi = feature.bounds
    if feature.protected:
        return np.full(len(x), lo), np.full(len(x), hi)
    own = feature.nearest(x)
    return np.maximum(own - feature.reach, lo), np.minimum(own + feature.reach, hi)


def _reachable_values(feature: Feature, x: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first value and the number of values (inputs,) of a finite feature around x (inputs,)."""
    lowest, highest = _reachable_range(feature, x)
    return lowest.astype(np.int64), (highest - lowest).astype(np.int64) + 1


def _require_finite(placed: Placed) -> None:
    """Raise an error for a continuous feature that varies."""
    for feature, _ in placed:
        if feature.varies and feature.kind == "continuous":
            raise FairmendError(
                f'feature "{feature.name}" is continuous and varies, so neighbourhoods are not finite. '
                'Use regions instead, or set kind = "integer" if it takes only whole numbers.'
            )
