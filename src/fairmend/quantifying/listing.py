"""Decide small boxes by listing everyone who is similar to someone in them: all protected values, within tolerances."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.quantifying.decide import Decided, Decider, Spreads
from fairmend.quantifying.space import Boxes, Space

LISTED = 2**14
"""How many inputs a box may have to be listed: everyone similar to its people, with all protected values."""

_CLOSE = 64  # people of a box whose leads are close to 0 and who are decided one by one


def count_inputs(space: Space, boxes: Boxes) -> Floats:
    """Return how many inputs each box has ``(n,)``; infinite if a cell is not one person, or if they are too many."""
    if not space.finite or space.combinations > LISTED:
        return np.full(len(boxes), np.inf)
    around = _similar(space, boxes)
    cells: Floats = np.prod((around.last - around.first + 1).astype(np.float64), axis=1)
    return cells * space.combinations


class Listing:
    """Lists the people of boxes for a decider."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def inputs(self, boxes: Boxes) -> Floats:
        """Return how many inputs each box has ``(n,)``."""
        return count_inputs(self._decider.space, boxes)

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of inference over each ``(n,)``."""
        error = np.minimum(error, self._decider.error_over(boxes))
        shares = np.array([self._shares(boxes.take(slice(k, k + 1)), error[k]) for k in range(len(boxes))])
        shares = shares.reshape(-1, 2)
        return Decided(shares[:, 0], shares[:, 1], np.full(len(boxes), -1), error)

    def _shares(self, box: Boxes, error: float) -> tuple[float, float]:
        fair, unfair = self._settle(box, error)
        cells = _cells(box.first[0], box.last[0])
        rest = np.flatnonzero(~(fair | unfair))[:_CLOSE]
        if len(rest):  # their own error of inference is smaller than that of the box
            fair[rest], unfair[rest] = self._decide_people(Boxes(cells[rest], cells[rest]), error)
        people = len(cells)
        return int(fair.sum()) / people, int(unfair.sum()) / people

    def _settle(self, box: Boxes, error: float) -> tuple[Bools, Bools]:
        """Return who of a box is surely treated equally, and who unequally, from the outputs of all who are similar."""
        decider, space = self._decider, self._decider.space
        around = _similar(space, box)
        similar = _cells(around.first[0], around.last[0])
        values, choices = space.all_values
        X = space.people(similar, values, decider.network.dtype, choices)
        spreads = decider.spreads(X, len(similar), error)
        return decider.settle(_within_tolerances(space, box, around, spreads))

    def _decide_people(self, people: Boxes, error: float) -> tuple[Bools, Bools]:
        """Return which single people are treated equally, and which unequally: each by itself, or by bounds."""
        own = np.minimum(error, self._decider.error_over(people))
        each = [self._settle(people.take(slice(row, row + 1)), own[row]) for row in range(len(people))]
        fair, unfair = (np.array([verdict[side][0] for verdict in each]) for side in (0, 1))
        rest = np.flatnonzero(~(fair | unfair))
        if len(rest):
            found = self._decider.decide(people.take(rest), own[rest])
            fair[rest], unfair[rest] = found.fair > 0.5, found.unfair > 0.5  # one person is decided as a whole
        return fair, unfair


def _similar(space: Space, boxes: Boxes) -> Boxes:
    """Return boxes of all cells within the tolerances of people in boxes."""
    reach = np.array([axis.reach for axis in space.axes], np.int64)
    return Boxes(np.maximum(boxes.first - reach, 0), np.minimum(boxes.last + reach, space.root().last))


def _within_tolerances(space: Space, box: Boxes, around: Boxes, spreads: Spreads) -> Spreads:
    """Return the spreads over everyone similar to each person of a box, given those of each cell around it."""
    if not any(axis.reach for axis in space.axes):
        return spreads
    sizes = (around.last[0] - around.first[0] + 1).tolist()
    found = []
    for end, take in zip(spreads, (np.min, np.max, np.min, np.max), strict=True):
        each = end.reshape(*sizes, -1)
        for k, axis in enumerate(space.axes):
            if axis.reach:
                # Beyond the ends of the range, the last cell counts again.
                near = np.arange(box.first[0, k] - axis.reach, box.last[0, k] + axis.reach + 1)
                near = np.clip(near, around.first[0, k], around.last[0, k]) - around.first[0, k]
                windows = sliding_window_view(each.take(near, axis=k), 2 * axis.reach + 1, axis=k)
                each = take(windows, axis=-1)
        found.append(each.reshape(-1, end.shape[1]))
    return Spreads(*found)


def _cells(first: Ints, last: Ints) -> Ints:
    """Return every cell of a box ``(cells, axes)``, of any number of axes."""
    sizes = last - first + 1
    strides = np.array([math.prod(sizes[k + 1 :].tolist()) for k in range(len(sizes))], np.int64)
    return np.asarray(first + np.arange(math.prod(sizes.tolist()))[:, None] // strides % sizes)
