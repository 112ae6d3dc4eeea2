"""Decide small boxes by listing everyone in them, with every combination of protected values."""

from __future__ import annotations

import math

import numpy as np

from fairmend.arrays import Floats, Ints
from fairmend.quantify.decide import Decided, Decider
from fairmend.quantify.space import Boxes

__all__ = ["LISTED", "Listing"]

LISTED = 2**14
"""How many inputs a box may have to be listed: people times combinations of protected values."""

_CLOSE = 64  # people of a box whose leads are close to 0 and who are decided one by one


class Listing:
    """Lists people of boxes for a decider; ``possible`` if everyone is one cell, and similar to no other cell."""

    def __init__(self, decider: Decider) -> None:
        self._decider, space = decider, decider.space
        exact = all(axis.reach == 0 and np.array_equal(axis.low, axis.high) for axis in (*space.free, *space.protected))
        links = space.links is not None and any(axis.feature.kind == "continuous" for axis in space.protected)
        self.possible = exact and space.all_values and not links

    def inputs(self, boxes: Boxes) -> Floats:
        """Return how many inputs each box has ``(n,)``."""
        people: Floats = np.prod((boxes.last - boxes.first + 1).astype(np.float64), axis=1)
        return people * len(self._decider.space.values)

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of inference over each ``(n,)``."""
        error = np.minimum(error, self._decider.error_over(boxes))
        shares = np.array([self._shares(boxes.take(slice(k, k + 1)), error[k]) for k in range(len(boxes))])
        shares = shares.reshape(-1, 2)
        return Decided(shares[:, 0], shares[:, 1], np.full(len(boxes), -1), error)

    def _shares(self, box: Boxes, error: float) -> tuple[float, float]:
        decider, space = self._decider, self._decider.space
        cells = _cells(box.first[0], box.last[0])
        X = space.people(cells, space.values, decider.network.dtype)
        fair, unfair = decider.settle(X, len(cells), error)
        rest = np.flatnonzero(~(fair | unfair))[:_CLOSE]
        if len(rest):  # their own error of inference is smaller than that of the box
            again = decider.decide(Boxes(cells[rest], cells[rest]), np.full(len(rest), error))
            fair[rest], unfair[rest] = again.fair > 0.5, again.unfair > 0.5  # one person is decided as a whole
        people = len(cells)
        return int(fair.sum()) / people, int(unfair.sum()) / people


def _cells(first: Ints, last: Ints) -> Ints:
    """Return every cell of a box ``(cells, axes)``, of any number of axes."""
    sizes = last - first + 1
    strides = np.array([math.prod(sizes[k + 1 :].tolist()) for k in range(len(sizes))], np.int64)
    return np.asarray(first + np.arange(math.prod(sizes.tolist()))[:, None] // strides % sizes)
