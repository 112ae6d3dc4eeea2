"""The neighbourhood S(x) of an input: all people who are similar to x, in the network's encoding.

`reachable` says which values each feature can have; this module combines them. There are two views of the same set:
`Regions` covers it with boxes, for bounds; `stream_points` lists it exactly, if it is finite. A one-hot group is a set
of points, so it multiplies the boxes and is never a box itself.
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
from fairmend.spec.reachable import ReachableValues

__all__ = [
    "MOST_NUMBERS",
    "Placed",
    "Regions",
    "are_neighbours",
    "build_hull",
    "build_regions",
    "count_pieces",
    "count_points",
    "describe_count",
    "reachable_values",
    "stream_points",
]

Placed = Sequence[tuple[Feature, slice]]  # the features, each with its encoded columns

MOST_NUMBERS = 500_000_000
"""The most numbers in one end of all boxes of `build_regions`: 2 GB in float32."""

_INT64_MAX = int(np.iinfo(np.int64).max)
_BATCH_NUMBERS = 64_000_000  # in one batch of points, whatever the batch that was asked for


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


def reachable_values(placed: Placed, X: FloatArray) -> list[ReachableValues]:
    """Return the values that each feature that varies can have around the inputs X (inputs, width)."""
    return [ReachableValues.around(feature, where, X) for feature, where in placed if feature.varies]


def count_pieces(placed: Placed) -> int:
    """Return the number of boxes of each neighbourhood: one for each combination of one-hot categories."""
    return math.prod(len(feature.categories or ()) for feature, _ in placed if feature.varies and feature.one_hot)


def build_regions(placed: Placed, X: FloatArray) -> Regions:
    """Return the regions of the inputs X (inputs, width), which must be valid; the dtype is that of X."""
    count, per_input = len(X), count_pieces(placed)
    _require_room(placed, X, per_input)
    values = reachable_values(placed, X)
    groups = [each for each in values if each.feature.one_hot]
    sizes = [len(each.feature.categories or ()) for each in groups]
    combinations = np.indices(sizes).reshape(len(sizes), per_input)
    owner = np.repeat(np.arange(count, dtype=np.int64), per_input)
    lower, upper = X[owner], X[owner]
    for each, category in zip(groups, combinations, strict=True):
        points = np.tile(each.feature.one_hot_columns(category, X.dtype), (count, 1))
        lower[:, each.columns] = upper[:, each.columns] = points
    for each in values:
        if not each.feature.one_hot:
            low, high = each.ends()
            lower[:, each.columns], upper[:, each.columns] = low[owner], high[owner]
    return Regions(lower, upper, owner, count)


def build_hull(placed: Placed, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smallest box around each neighbourhood, one-hot columns from 0 to 1: lower, upper (inputs, width)."""
    lower, upper = X.copy(), X.copy()
    for each in reachable_values(placed, X):
        lower[:, each.columns], upper[:, each.columns] = (0, 1) if each.feature.one_hot else each.ends()
    return lower, upper


def are_neighbours(placed: Placed, X: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Return whether each of others (inputs, width), valid inputs, is in the neighbourhood of its row of X."""
    similar = np.ones(len(X), dtype=np.bool_)
    for feature, where in placed:
        if feature.varies:
            similar &= ReachableValues.around(feature, where, X).contain(others[:, where])
        else:
            similar &= (others[:, where] == X[:, where]).all(axis=1)
    return similar


def count_points(placed: Placed, X: FloatArray) -> NDArray[Any]:
    """Return the size of each neighbourhood (inputs,): int64, or Python ints where their sum could overflow."""
    _require_finite(placed)
    return _sizes(reachable_values(placed, X), len(X))


def describe_count(count: int) -> str:
    """Return a count that may be astronomical as text: "12,500" or "about 10^68"."""
    return f"{count:,}" if count < 10**15 else f"about 10^{round(math.log10(count))}"


def stream_points(placed: Placed, X: FloatArray, batch: int) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
    """Return an iterator over all points of all neighbourhoods, at most `batch` at a time.

    Each step yields rows (k,), the input that each point belongs to, and points (k, width). Inputs come in
    order; within one, the last varying feature changes fastest. The input itself is one of its points. Values that
    round to the same number are listed one by one.
    """
    if batch < 1:
        raise FairmendError(f"a batch must hold at least one point, got batch={batch}")
    _require_finite(placed)
    batch = max(1, min(batch, _BATCH_NUMBERS // X.shape[1]))
    values = reachable_values(placed, X)
    sizes = _sizes(values, len(X))
    counts = [each.counts for each in values]

    def fill(rows: NDArray[np.int64], index: NDArray[np.int64]) -> FloatArray:
        """Return the points (k, width) with the given numbers within their neighbourhoods."""
        points = X[rows]
        for each, count in zip(reversed(values), reversed(counts), strict=True):
            index, number = np.divmod(index, count[rows])
            points[:, each.columns] = each.encoded(rows, number)
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


def _sizes(values: list[ReachableValues], inputs: int) -> NDArray[Any]:
    counts = [each.counts for each in values]
    largest = inputs * math.prod(int(count.max(initial=1)) for count in counts)
    sizes = np.ones(inputs, dtype=np.int64 if largest <= _INT64_MAX else object)
    for count in counts:
        sizes = sizes * count.astype(sizes.dtype)
    return sizes


def _require_finite(placed: Placed) -> None:
    """Raise an error for a continuous feature that varies."""
    for feature, _ in placed:
        if feature.varies and feature.kind == "continuous":
            raise FairmendError(
                f'feature "{feature.name}" is continuous and varies, so neighbourhoods are not finite. '
                'Use regions instead, or set kind = "integer" if it takes only whole numbers.'
            )


def _require_room(placed: Placed, X: FloatArray, per_input: int) -> None:
    """Raise an error for more boxes than fit into memory."""
    if per_input * X.size <= MOST_NUMBERS:
        return
    names = [feature.name for feature, _ in placed if feature.varies and feature.one_hot]
    most = MOST_NUMBERS // (X.shape[1] * per_input)
    fewer = f"Give at most {most:,} inputs at a time, or protect" if most else "Protect"
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    raise FairmendError(
        f"each neighbourhood has {describe_count(per_input)} pieces, one for each combination of the categories of "
        f"{shown} (one-hot), and the pieces of {len(X):,} inputs with {X.shape[1]:,} columns do not fit into memory. "
        f"{fewer} fewer one-hot features. `audit` and repair with method blind need no pieces."
    )
