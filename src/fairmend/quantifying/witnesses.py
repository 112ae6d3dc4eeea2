"""Which protected values make the difference in a box: those that change the class of most of its people."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Ints
from fairmend.network import Network
from fairmend.network.scores import compute_scores
from fairmend.quantifying.space import Boxes, Space

_PEOPLE = 64  # of each box


class Witnesses(NamedTuple):
    """Two protected values, as cells ``(protected axes,)``, and the classes that they give most often.

    For a claim about scores, the first gives the higher score, and there are no classes.
    """

    values: tuple[Ints, Ints]
    classes: tuple[int, int] | None


def find_witnesses(network: Network, space: Space, box: Boxes, seed: int = 0) -> Witnesses | None:
    """Return the protected values that make the difference for most of some random people of a box.

    The first class is the higher one. None if nobody's class or score changes so much, as with tolerances.
    """
    rng = np.random.default_rng(seed)
    cells = rng.integers(box.first[0], box.last[0] + 1, (_PEOPLE, len(space.axes)))
    values = space.values
    if space.spec.claim.is_score:
        return _of_scores(network, space, cells)
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


def _of_scores(network: Network, space: Space, cells: Ints) -> Witnesses | None:
    """Return the protected values whose scores differ by more than delta for most of the people in cells."""
    claim, values = space.spec.claim, space.values
    X = space.people(cells, values, network.dtype)
    scores = compute_scores(network, X, claim.on).reshape(len(cells), len(values), -1)
    differences = scores[:, :, None] - scores[:, None]
    beyond = (differences > claim.limit).any(axis=3).sum(axis=0)
    most = np.maximum(differences, 0.0).max(axis=3).mean(axis=0)  # of pairs with equal numbers, the most different one
    one, other = (int(k) for k in np.unravel_index((beyond + most / (1 + most.max())).argmax(), beyond.shape))
    return Witnesses((values[one], values[other]), None) if beyond[one, other] else None
