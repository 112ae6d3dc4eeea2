"""Which protected values make the difference in a box: those that change the class of most of its people."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.arrays import Ints
from fairmend.network import Network
from fairmend.quantify.space import Boxes, Space

__all__ = ["Witnesses", "find_witnesses"]

_PEOPLE = 64  # of each box


class Witnesses(NamedTuple):
    """Two protected values, as cells ``(protected axes,)``, and the classes that they give most often."""

    values: tuple[Ints, Ints]
    classes: tuple[int, int]


def find_witnesses(network: Network, space: Space, box: Boxes, seed: int = 0) -> Witnesses | None:
    """Return the protected values that give different classes to most of some random people of a box.

    The first class is the higher one. None if nobody's class changes, as with tolerances.
    """
    rng = np.random.default_rng(seed)
    cells = rng.integers(box.first[0], box.last[0] + 1, (_PEOPLE, len(space.axes)))
    values = space.values
    classes = network.predict(space.people(cells, values, network.dtype)).reshape(_PEOPLE, -1)
    differ = (classes[:, :, None] != classes[:, None, :]).sum(axis=0)
    order = np.arange(len(values))
    apart = np.abs(order[:, None] - order) / len(values)  # of pairs with equal numbers, the one that is farthest apart
    one, other = (int(k) for k in np.unravel_index((differ + apart).argmax(), differ.shape))
    if differ[one, other] == 0:
        return None
    pairs = classes[:, [one, other]]
    kinds, counts = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    first, second = kinds[counts.argmax()].tolist()
    if first < second:
        one, other, first, second = other, one, second, first
    return Witnesses((values[one], values[other]), (first, second))
