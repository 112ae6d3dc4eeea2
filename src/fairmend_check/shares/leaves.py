"""The leaves of a certificate of shares: all people, split again and again along one axis.

Both halves of a split are disjoint and nothing is lost, so the leaves contain everyone exactly once, whatever the file
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, packed_array, take
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.people import Bools, Boxes, Whole, count_axes

NOTHING, LINEAR, LISTED, WHOLE = 0, 1, 2, 3  # how a leaf is proven; of WHOLE ones, everyone is decided
_SPLITS = 4  # node _SPLITS + k is split along axis k
MAX_LEAVES = 2**22
MAX_NUMBERS = 2**25  # in the ends of all leaves
MAX_LEVELS = 10_000
MAX_DIVIDED = 2**32  # cells of a continuous feature
_WHERE = "certificate.shares"


@dataclass(frozen=True, eq=False)
class Leaves(Boxes):
    """Boxes, and how each is proven (leaves,)."""

    proof: Whole

    def take(self, rows: Whole | Bools | slice) -> Leaves:
        """Return some of the leaves."""
        return Leaves(self.first[rows], self.last[rows], self.proof[rows])

    def parts(self, size: int) -> Iterator[Leaves]:
        """Return the leaves in parts of this size."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def read_leaves(cells: list[int], nodes: NDArray[np.uint16], cuts: NDArray[np.uint32], where: str) -> Leaves:
    """Return the leaves of a tree of splits, for axes of so many cells.

    ``nodes`` are level by level: of one level, those of all lower halves of the level before, then the upper ones.
    ``cuts`` are the last cells of the lower halves, in the same order.
    """
    first = np.zeros((1, len(cells)), np.int64)
    last = np.array([cells], np.int64).reshape(1, -1) - 1
    found, node, cut = [], 0, 0
    while len(first):
        level = nodes[node : node + len(first)].astype(np.int64)
        node += len(first)
        if len(level) < len(first):
            raise CheckError(f"{where}.nodes: a split has no halves")
        whole = level < _SPLITS
        found.append((first[whole], last[whole], level[whole]))
        if len(found) > MAX_LEVELS:
            raise CheckError(f"{where}.nodes: the tree has more than {MAX_LEVELS:,} levels")
        axis, rows = level[~whole] - _SPLITS, np.arange(len(level) - int(whole.sum()))
        first, last = first[~whole], last[~whole]
        at = cuts[cut : cut + len(rows)].astype(np.int64)
        cut += len(rows)
        if len(at) < len(rows) or (axis >= len(cells)).any():
            raise CheckError(f"{where}: a split has no cut, or is along an axis that there is not")
        if not ((first[rows, axis] <= at) & (at < last[rows, axis])).all():
            raise CheckError(f"{where}.cuts: a cut is not inside its box")
        first, last = np.concatenate([first, first]), np.concatenate([last, last])
        last[rows, axis] = at
        first[len(rows) + rows, axis] = at + 1
    if node != len(nodes) or cut != len(cuts):
        raise CheckError(f"{where}: there are more nodes or cuts than the tree has")
    return Leaves(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@dataclass(frozen=True, eq=False)
class SharesProof:
    """How the shares that a certificate claims are proven.

    A continuous feature has so many ``cells``, and each protected feature is divided into so many ``pieces``. ``nodes``
    and ``cuts`` are the tree, as `read_leaves` takes it.
    """

    cells: int
    pieces: list[int]
    nodes: NDArray[np.uint16]
    cuts: NDArray[np.uint32]

    @property
    def leaves(self) -> int:
        """The number of leaves of the tree."""
        return len(self.cuts) + 1


def read_shares(data: dict[str, Any], spec: Spec) -> SharesProof:
    """Return the proof; refuse trees that are too large."""
    only_keys(data, ("fair", "unfair", "cells", "pieces", "leaves", "nodes", "cuts"), _WHERE)
    cells, pieces = take(data, "cells", int, _WHERE), take(data, "pieces", list, _WHERE)
    if not 1 <= cells <= MAX_DIVIDED or cells & (cells - 1):
        raise CheckError(f"{_WHERE}.cells is {cells}; it must be a power of 2 up to {MAX_DIVIDED:,}")
    if not all(type(count) is int and count >= 1 for count in pieces):
        raise CheckError(f"{_WHERE}.pieces must be a list of whole numbers from 1")
    leaves, axes = take(data, "leaves", int, _WHERE), count_axes(spec)
    if not 1 <= leaves <= min(MAX_LEAVES, MAX_NUMBERS // max(1, axes)):
        raise CheckError(
            f"{_WHERE}.leaves is {leaves}; it must be 1 to {min(MAX_LEAVES, MAX_NUMBERS // max(1, axes)):,}"
        )
    nodes = packed_array(data, "nodes", (2 * leaves - 1,), "<u2", _WHERE)
    return SharesProof(cells, pieces, nodes, packed_array(data, "cuts", (leaves - 1,), "<u4", _WHERE))
