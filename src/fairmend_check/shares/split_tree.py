"""The leaves of a certificate of shares: all people, split again and again along one axis.

Both halves of a split are disjoint and nothing is lost, so the leaves contain everyone exactly once, whatever the file
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

Whole = NDArray[np.int64]

NOTHING, LINEAR, LISTED, WHOLE = 0, 1, 2, 3  # how a leaf is proven; of WHOLE ones, everyone is decided
_SPLITS = 4  # node _SPLITS + k is split along axis k
MAX_LEAVES = 2**22
MAX_NUMBERS = 2**25  # in the ends of all leaves
MAX_LEVELS = 10_000


@dataclass(frozen=True, eq=False)
class Leaves:
    """Boxes of cells first..last (leaves, axes), and how each is proven (leaves,)."""

    first: Whole
    last: Whole
    proof: Whole

    def take(self, rows: Whole) -> Leaves:
        """Return some of the leaves."""
        return Leaves(self.first[rows], self.last[rows], self.proof[rows])

    def parts(self, size: int) -> Iterator[Leaves]:
        """Return the leaves in parts of this size."""
        for start in range(0, len(self.proof), size):
            yield self.take(np.arange(start, min(start + size, len(self.proof))))

    def halved(self, axis: Whole, proof: int) -> Leaves:
        """Return the lower halves along an axis (leaves,), and then the upper ones."""
        rows = np.arange(len(axis))
        first, last = np.concatenate([self.first, self.first]), np.concatenate([self.last, self.last])
        last[rows, axis] = (self.first[rows, axis] + self.last[rows, axis]) // 2
        first[len(rows) + rows, axis] = last[rows, axis] + 1
        return Leaves(first, last, np.full(len(first), proof))


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
