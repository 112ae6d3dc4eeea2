"""The neighbourhood S(x) of an input: all people who are similar to x, in the network's encoding.

`products` says which values each feature can have; this module combines them. There are two views of the same set:
`Regions` covers it with boxes, for bounds; `stream_points` lists it exactly, if it is finite. A one-hot group is a set
of points, so it multiplies the boxes and is never a box itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, most_linked_values
from fairmend.spec.products import Placed, Products, ReachableValues, count_parts, most_in_band, varying

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


def count_pieces(placed: Placed, links: Sequence[Link] = ()) -> int:
    """Return the number of boxes of each neighbourhood: one for each combination of one-hot categories.

    Links add some, and replace categories of others, and bands differ in size: the number is an upper bound then.
    """
    return math.prod(_count_boxes(feature, links) for feature, _ in varying(placed, links))


def _count_boxes(feature: Feature, links: Sequence[Link]) -> int:
    """Return how many boxes the values of one feature need at the most."""
    if not feature.one_hot:
        return count_parts(feature, links)
    if feature.bands is not None:
        return most_in_band(feature)
    return len(feature.categories or ()) if feature.protected else most_linked_values(links, feature)


def build_regions(placed: Placed, X: FloatArray, links: Sequence[Link] = (), split: Collection[str] = ()) -> Regions:
    """Return the regions of the inputs X (inputs, width), which must be valid; the dtype is that of X.

    Pieces have one value each of the features named in ``split``, which must not be continuous.
    """
    return cover_products(Products.around(placed, X, links), X, split)[0]


def cover_products(products: Products, X: FloatArray, split: Collection[str] = ()) -> tuple[Regions, NDArray[np.int64]]:
    """Return the regions of inputs X (inputs, width) with these products, and the product of each piece (pieces,)."""
    groups = [each for each in products.values if each.feature.one_hot or each.feature.name in split]
    pieces = _sizes(groups, len(products.owner))
    _require_room(groups, X, np.add.reduceat(pieces, products.starts) if len(X) else pieces)
    product = np.repeat(np.arange(len(pieces), dtype=np.int64), pieces.astype(np.int64))
    number = np.arange(len(product)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    owner = products.owner[product]
    lower = _fill(X[owner], groups, product, number)
    upper = lower.copy()
    for each in products.values:
        if each not in groups:
            low, high = each.ends()
            lower[:, each.columns], upper[:, each.columns] = low[product], high[product]
    return Regions(lower, upper, owner, len(X)), product


def build_hull(placed: Placed, X: FloatArray, links: Sequence[Link] = ()) -> tuple[FloatArray, FloatArray]:
    """Return the smallest box around each neighbourhood: lower, upper (inputs, width).

    The columns of a one-hot feature run from 0 to 1 where neighbours differ in them.
    """
    products = Products.around(placed, X, links)
    lower, upper = X[products.owner], X[products.owner]
    for each in products.values:
        lower[:, each.columns], upper[:, each.columns] = one_hot_ends(each) if each.feature.one_hot else each.ends()
    if products.single:
        return lower, upper
    return np.minimum.reduceat(lower, products.starts), np.maximum.reduceat(upper, products.starts)


def list_combinations(values: list[ReachableValues], x: FloatArray) -> FloatArray:
    """Return every combination (combinations, width) of values around one input x (width,), with x elsewhere."""
    size = int(_sizes(values, 1)[0])
    return _fill(np.tile(x, (size, 1)), values, np.zeros(size, np.int64), np.arange(size))


def one_hot_ends(values: ReachableValues) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest box around the one-hot columns of each product: lower, upper (products, columns)."""
    codes = np.arange(len(values.feature.categories or ()))
    among = (values.lowest[:, None] <= codes) & (codes <= values.highest[:, None])
    single = (values.lowest == values.highest)[:, None]
    return (among & single) @ values.feature.corners, among @ values.feature.corners


def are_neighbours(placed: Placed, X: FloatArray, others: FloatArray, links: Sequence[Link] = ()) -> NDArray[np.bool_]:
    """Return whether each of others (inputs, width), valid inputs, is in the neighbourhood of its row of X."""
    products = Products.around(placed, X, links)
    similar = np.ones(len(products.owner), dtype=np.bool_)
    for each in products.values:
        similar &= each.contain(others[products.owner, each.columns])
    if not products.single:
        similar = np.logical_or.reduceat(similar, products.starts)
    varies = {feature.name for feature, _ in varying(placed, links)}
    for feature, where in placed:
        if feature.name not in varies:
            similar &= (others[:, where] == X[:, where]).all(axis=1)
    return similar


def count_points(placed: Placed, X: FloatArray, links: Sequence[Link] = ()) -> NDArray[Any]:
    """Return the size of each neighbourhood (inputs,): int64, or Python ints where their sum could overflow."""
    _require_finite(placed, links)
    products = Products.around(placed, X, links)
    sizes = _sizes(products.values, len(products.owner))
    return sizes if products.single else np.add.reduceat(sizes, products.starts)


def describe_count(count: int) -> str:
    """Return a count that may be astronomical as text: "12,500" or "about 10^68"."""
    return f"{count:,}" if count < 10**15 else f"about 10^{round(math.log10(count))}"


def stream_points(
    placed: Placed, X: FloatArray, batch: int, links: Sequence[Link] = ()
) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
    """Return an iterator over all points of all neighbourhoods, at most `batch` at a time.

    Each step yields rows (k,), the input that each point belongs to, and points (k, width). Inputs come in
    order; within one, the products, and within a product, the last varying feature changes fastest. The input itself is
    one of its points. Values that round to the same number are listed one by one.
    """
    if batch < 1:
        raise FairmendError(f"a batch must hold at least one point, got batch={batch}")
    _require_finite(placed, links)
    batch = max(1, min(batch, _BATCH_NUMBERS // X.shape[1]))
    products = Products.around(placed, X, links)
    sizes = _sizes(products.values, len(products.owner))

    def stream() -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        row, done = 0, 0  # the next point is number `done` of product `row`
        while row < len(sizes):
            # A chunk touches at most `batch` products, with at most `batch` points of each: no overflow here.
            left = sizes[row : row + batch].copy()
            left[0] -= done
            left = np.minimum(left, batch).astype(np.int64)
            ends = np.cumsum(left)
            flat = np.arange(min(batch, int(ends[-1])), dtype=np.int64)
            offset = np.searchsorted(ends, flat, side="right")
            index = flat - (ends - left)[offset]
            index[offset == 0] += done
            rows = (row + offset).astype(np.int64)
            owner = products.owner[rows]
            yield owner, _fill(X[owner], products.values, rows, index)
            row, done = int(rows[-1]), int(index[-1]) + 1
            if done == sizes[row]:
                row, done = row + 1, 0

    return stream()


def _fill(
    points: FloatArray, values: list[ReachableValues], rows: NDArray[np.int64], index: NDArray[np.int64]
) -> FloatArray:
    """Set the columns of points (k, width) to the combinations with these numbers (k,) in products `rows` (k,)."""
    for each in reversed(values):
        index, number = np.divmod(index, each.counts[rows])
        points[:, each.columns] = each.encoded(rows, number)
    return points


def _sizes(values: list[ReachableValues], products: int) -> NDArray[Any]:
    """Return the number of combinations of values in each product (products,); their sum does not overflow."""
    counts = [each.counts for each in values]
    largest = products * math.prod(int(count.max(initial=1)) for count in counts)
    sizes = np.ones(products, dtype=np.int64 if largest <= _INT64_MAX else object)
    for count in counts:
        sizes = sizes * count.astype(sizes.dtype)
    return sizes


def _require_finite(placed: Placed, links: Sequence[Link]) -> None:
    """Raise an error for a continuous feature that varies."""
    for feature, _ in varying(placed, links):
        if feature.kind == "continuous":
            raise FairmendError(
                f'feature "{feature.name}" is continuous and varies, so neighbourhoods are not finite. '
                'Use regions instead, or set kind = "integer" if it takes only whole numbers.'
            )


def _require_room(groups: list[ReachableValues], X: FloatArray, pieces: NDArray[Any]) -> None:
    """Raise an error for more boxes than fit into memory; each input has `pieces` (inputs,)."""
    if int(pieces.sum()) * X.shape[1] <= MOST_NUMBERS:
        return
    names, per_input = [each.feature.name for each in groups if each.feature.protected], int(pieces.max())
    most = MOST_NUMBERS // (X.shape[1] * per_input)
    fewer = f"Give at most {most:,} inputs at a time, or protect" if most else "Protect"
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    raise FairmendError(
        f"each neighbourhood has {describe_count(per_input)} pieces, one for each combination of the categories of "
        f"{shown} (one-hot), and the pieces of {len(X):,} inputs with {X.shape[1]:,} columns do not fit into memory. "
        f"{fewer} fewer one-hot features. `audit` and repair with method blind need no pieces."
    )
