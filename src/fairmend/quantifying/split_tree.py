"""Boxes that contain everyone exactly once, as a tree of splits: the form in which a certificate holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Ints
from fairmend.quantifying.space import Boxes

NOTHING, LINEAR, LISTED, WHOLE = 0, 1, 2, 3
"""How a box is proven: not at all, by linear bounds, person by person, or by linear bounds of the whole box."""

_SPLITS = 4  # node _SPLITS + k is split along axis k


class SplitTree(NamedTuple):
    """Nodes of a tree level by level: how a leaf is proven, or along which axis a node is split.

    Of each level, ``nodes`` has those of all lower halves of the level before, then those of the upper ones. ``cuts``
    has the last cell of the lower half for each split, in the same order.
    """

    nodes: Ints
    cuts: Ints


def tree_of_boxes(boxes: Boxes, cells: Ints, proof: Ints) -> SplitTree:
    """Return the tree whose leaves are these boxes, for axes of so many cells.

    ``proof (n,)`` says how each box is proven. A node is split in the middle if no box is on both sides, and otherwise
    where none is.
    """
    rows, node = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)  # boxes that are left, and the node of each
    low, high = np.zeros((1, len(cells)), np.int64), cells[None] - 1
    nodes, cuts = [], [np.zeros(0, np.int64)]
    while True:
        sizes = np.bincount(node, minlength=len(low))
        level = np.empty(len(low), np.int64)
        single = sizes[node] == 1
        _require_same(boxes, rows[single], low[node[single]], high[node[single]])
        level[node[single]] = proof[rows[single]]
        splits = np.flatnonzero(sizes > 1)
        if not len(splits):
            nodes.append(level)
            break
        rows, node = rows[~single], np.searchsorted(splits, node[~single])
        axis, cut = _find_cuts(boxes, rows, node, low[splits], high[splits])
        level[splits] = _SPLITS + axis
        nodes.append(level)
        cuts.append(cut)
        upper = boxes.first[rows, axis[node]] > cut[node]
        node = node + upper * len(splits)
        each = np.arange(len(splits))
        low, high = np.concatenate([low[splits]] * 2), np.concatenate([high[splits]] * 2)
        high[each, axis] = cut
        low[len(splits) + each, axis] = cut + 1
    return SplitTree(np.concatenate(nodes), np.concatenate(cuts))


def _find_cuts(boxes: Boxes, rows: Ints, node: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return an axis and a cut for each node low..high ``(nodes, axes)`` so that no box is on both sides of a cut."""
    middle = (low + high) // 2
    astride = (boxes.first[rows] <= middle[node]) & (boxes.last[rows] > middle[node])
    clean = low < high
    of_box, of_axis = np.nonzero(astride)
    clean[node[of_box], of_axis] = False
    axis = clean.argmax(axis=1)
    cut = middle[np.arange(len(low)), axis]
    for each in np.flatnonzero(~clean.any(axis=1)):
        axis[each], cut[each] = _find_any_cut(boxes.take(rows[node == each]))
    return axis, cut


def _find_any_cut(boxes: Boxes) -> tuple[int, int]:
    for axis in range(boxes.first.shape[1]):
        order = np.argsort(boxes.first[:, axis], kind="stable")
        first, last = boxes.first[order, axis], np.maximum.accumulate(boxes.last[order, axis])
        clean = np.flatnonzero(last[:-1] < first[1:])
        if len(clean):
            return axis, int(last[clean[len(clean) // 2]])
    raise ValueError("the boxes overlap, or are not the leaves of a tree of splits")


def _require_same(boxes: Boxes, rows: Ints, low: Ints, high: Ints) -> None:
    if not (np.array_equal(boxes.first[rows], low) and np.array_equal(boxes.last[rows], high)):
        raise ValueError("the boxes do not contain everyone exactly once")
