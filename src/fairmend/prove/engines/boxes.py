"""Neighbourhoods in the coordinates that branch and bound splits.

A *piece* is one choice of all one-hot groups in one product of a neighbourhood (as in `Regions`). Within it the other
columns that vary are coordinates: whole numbers for integer and ordinal columns, which are lattices, and the encoded
value itself for continuous ones. A *box* is a piece with a lowest and a highest coordinate in each such column.

An input that was scaled elsewhere may have other bits than the encoding of its own value. Both are points of the
neighbourhood, and both belong to the coordinate of that value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import cover_products
from fairmend.spec.products import encode_column

MOST_TWINS = 65_536
"""The points of a box that may be listed if it cannot be split, because own bits lie beside encoded values."""

_ENTRIES = 4_000_000  # in an array (pieces, width): 32 MB at most, and only a few of them exist at a time


def inputs_per_batch(spec: Spec, most: int = 16384) -> int:
    """Return the number of inputs whose pieces fit in memory together."""
    return max(1, min(most, _ENTRIES // (spec.width * spec.most_pieces)))


class Boxes(NamedTuple):
    """Boxes of pieces: piece (n,), low and high (n, varying), both ends included."""

    piece: Ints
    low: Floats
    high: Floats

    def take(self, chosen: npt.NDArray[np.int64] | Bools | slice) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.piece[chosen], self.low[chosen], self.high[chosen])

    @staticmethod
    def join(parts: list[Boxes]) -> Boxes:
        """Return all boxes of all parts, in order."""
        return Boxes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Pieces:
    """The pieces of the inputs X (inputs, width), and the meaning of their coordinates.

    owner : int64 (pieces,), the input of each piece
    columns : int64 (varying,), the encoded column of each coordinate
    lattice : bool (varying,), whether a coordinate is a whole number
    roots : one box per piece, the whole piece
    """

    def __init__(self, spec: Spec, X: FloatArray) -> None:
        products = spec.products(X)
        regions, self._product = cover_products(products, X)
        self.owner = regions.owner
        self._base = regions.lower
        varying = [each for each in products.values if not each.feature.one_hot]
        self._features = [each.feature for each in varying]
        self.columns = np.array([each.columns.start for each in varying], dtype=np.int64)
        self.lattice = np.array([f.kind != "continuous" for f in self._features], dtype=np.bool_)
        # For each product: the input's own bits, its own value where that is one of the values, whether the bits are a
        # point beside the encoding of that value, and whether they are the only point.
        shape = (len(products.owner), len(varying))
        self._bits, self._own = np.zeros(shape, X.dtype), np.zeros(shape)
        self._apart, self._kept = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        low, high = (ends[:, self.columns].astype(np.float64) for ends in (regions.lower, regions.upper))
        for k, values in enumerate(varying):
            self._bits[:, k], self._apart[:, k], self._kept[:, k] = values.x, values.apart, values.kept
            self._own[:, k] = np.where(values.moved, np.nan, values.own)
            if self.lattice[k]:
                low[:, k], high[:, k] = values.lowest[self._product], values.highest[self._product]
        self.roots = Boxes(np.arange(len(self.owner), dtype=np.int64), low, high)

    def points(self, piece: Ints, at: Floats) -> FloatArray:
        """Return the encoded points (n, width) with coordinates `at` (n, varying) in their pieces (n,).

        At its own value an input keeps its own bits.
        """
        points = self._base[piece]
        product = self._product[piece]
        for k, column in enumerate(self.columns.tolist()):
            points[:, column] = self._encoded(k, product, at[:, k])
        return points

    def ends(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """Return encoded lower and upper ends (n, width) that enclose every point of each box."""
        lower, upper = self.points(boxes.piece, boxes.low), self.points(boxes.piece, boxes.high)
        product = self._product[boxes.piece]
        for k in np.flatnonzero(self.lattice).tolist():
            bits, kept, column = self._bits[product, k], self._kept[product, k], self.columns[k]
            low, high = (np.where(kept, bits, self._plain(k, ends[:, k])) for ends in boxes[1:])
            # An input's own bits may differ from our encoding of its value, in float32 even by a step of the lattice.
            own = self._own[product, k]
            inside = (boxes.low[:, k] <= own) & (own <= boxes.high[:, k])
            lower[:, column] = np.where(inside, np.minimum(low, bits), low)
            upper[:, column] = np.where(inside, np.maximum(high, bits), high)
        return lower, upper

    def unrounded(self, boxes: Boxes) -> tuple[Floats, Floats]:
        """Return the encoded coordinates of the ends (n, varying), without rounding lattice values."""
        low, high = boxes.low.copy(), boxes.high.copy()
        for k in np.flatnonzero(self.lattice).tolist():
            low[:, k], high[:, k] = (self._features[k].scaled(ends[:, k]) for ends in boxes[1:])
        return low, high

    def sizes(self, boxes: Boxes) -> Floats:
        """Return the number of points of each box (n,); infinite if a continuous column varies."""
        wide = boxes.high - boxes.low
        counts = np.where(self.lattice, wide + 1 + self._has_own_bits(boxes), np.where(wide > 0, np.inf, 1.0))
        with np.errstate(over="ignore"):
            return np.asarray(counts.prod(axis=1))

    def all_points(self, boxes: Boxes) -> tuple[Ints, FloatArray]:
        """Return all points of small boxes: the box of each point (k,), and the encoded points (k, width)."""
        sizes = self.sizes(boxes).astype(np.int64)
        box = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        index = np.arange(len(box)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        product = self._product[boxes.piece[box]]
        points = self.points(boxes.piece[box], boxes.low[box])
        apart = self._has_own_bits(boxes)
        for k in np.flatnonzero(self.lattice).tolist():
            counts = (boxes.high[:, k] - boxes.low[:, k] + 1).astype(np.int64)
            index, digit = np.divmod(index, (counts + apart[:, k])[box])
            # The last of the values, where there is one more than whole numbers, is the input's own bits.
            encoded = self._plain(k, boxes.low[box, k] + digit)
            plain = (digit < counts[box]) & ~self._kept[product, k]
            points[:, self.columns[k]] = np.where(plain, encoded, self._bits[product, k])
        return box, points

    def middle(self, boxes: Boxes) -> Floats:
        """Return the coordinates (n, varying) of the middle of each box, rounded down on a lattice."""
        middle = boxes.low + (boxes.high - boxes.low) / 2
        if self.lattice.all():
            return np.asarray(np.floor(middle))
        # The middle of a continuous column must be a number in the network's precision.
        given = middle.astype(self._base.dtype).astype(np.float64)
        return np.where(self.lattice, np.floor(middle), np.clip(given, boxes.low, boxes.high))

    def split(self, boxes: Boxes, column: Ints) -> tuple[Boxes, Boxes]:
        """Return the lower and upper half of each box, split in its column (n,), which must be `splittable`."""
        each = np.arange(len(column))
        middle = self.middle(boxes)[each, column]
        first_high, second_low = boxes.high.copy(), boxes.low.copy()
        first_high[each, column] = middle
        second_low[each, column] = middle + self.lattice[column]
        return Boxes(boxes.piece, boxes.low, first_high), Boxes(boxes.piece, second_low, boxes.high)

    def splittable(self, boxes: Boxes) -> Bools:
        """Return in which columns (n, varying) each box has two lattice points, or a number between its ends."""
        middle = self.middle(boxes)
        inner = (middle > boxes.low) & (middle < boxes.high)
        return np.where(self.lattice, boxes.high > boxes.low, inner)

    def _has_own_bits(self, boxes: Boxes) -> Bools:
        """Return where a box (n, varying) holds its input's own value, and own bits that are a point beside it."""
        product = self._product[boxes.piece]
        own = self._own[product]
        return np.asarray(self._apart[product] & (boxes.low <= own) & (own <= boxes.high))

    def _encoded(self, k: int, product: Ints, values: Floats) -> FloatArray:
        if not self.lattice[k]:
            return values.astype(self._base.dtype)
        return np.where(values == self._own[product, k], self._bits[product, k], self._plain(k, values))

    def _plain(self, k: int, values: Floats) -> FloatArray:
        return encode_column(self._features[k], values, self._base.dtype)
