"""Random people, and how many of them are treated unequally: an estimate beside the proof, and where to look first."""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Bools, Ints
from fairmend.network import Network
from fairmend.network.scores import compute_scores
from fairmend.quantify.space import Space

__all__ = ["draw_people", "sampled_unequal"]

_INPUTS = 2**16  # that are evaluated at once


def sampled_unequal(network: Network, space: Space, samples: int, seed: int) -> float | None:
    """Return the share of random people who are treated unequally: other protected values change class or score.

    All combinations of protected values are tried if they are few, and a grid of them otherwise; tolerances are not
    used.
    """
    if samples == 0:
        return None
    return float(np.mean(_unequal(network, space, _random_cells(space, samples, seed))))


def draw_people(network: Network, space: Space, samples: int, count: int, seed: int) -> Ints:
    """Return the cells ``(count, axes)`` of random people: those who are treated unequally first."""
    cells = _random_cells(space, samples, seed)
    return cells[np.argsort(~_unequal(network, space, cells), kind="stable")[:count]]


def _random_cells(space: Space, samples: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    return rng.integers(0, [axis.cells for axis in space.axes], (samples, len(space.axes)))


def _unequal(network: Network, space: Space, cells: Ints) -> Bools:
    """Return which people in cells ``(n, axes)`` are treated unequally, with the protected values that are tried."""
    claim = space.spec.claim
    found = np.zeros(len(cells), np.bool_)
    step = max(1, _INPUTS // len(space.values))
    for start in range(0, len(cells), step):
        some = cells[start : start + step]
        X = space.people(some, space.values, network.dtype)
        if claim.is_score:
            scores = compute_scores(network, X, claim.on).reshape(len(some), len(space.values), -1)
            found[start : start + step] = (scores.max(axis=1) - scores.min(axis=1) > claim.limit).any(axis=1)
        else:
            classes = network.predict(X).reshape(len(some), -1)
            found[start : start + step] = (classes != classes[:, :1]).any(axis=1)
    return found
