"""Random people, and how many of them are treated unequally: an estimate beside the proof."""

from __future__ import annotations

import numpy as np

from fairmend.network import Network
from fairmend.quantify.space import Space

__all__ = ["sampled_unequal"]


def sampled_unequal(network: Network, space: Space, samples: int, seed: int) -> float | None:
    """Return the share of random people with different classes for the lowest or highest values of two pieces.

    This finds everyone who is treated unequally if the pieces are single values and no feature has a tolerance.
    """
    if samples == 0:
        return None
    people = space.spec.sample_inputs(samples, np.random.default_rng(seed), network.dtype)
    low, high = np.ones(samples, np.bool_), np.zeros(samples, np.bool_)
    for piece in np.unique(np.concatenate([space.piece_low, space.piece_high]), axis=0):
        if not _is_value(space, piece):
            continue
        people[:, space.columns] = piece
        positive = network.predict(people) == 1
        low &= positive
        high |= positive
    return float(np.mean(high & ~low))


def _is_value(space: Space, piece: np.ndarray) -> bool:
    """Return whether protected columns are a person's: the ends of a range of one-hot columns are not."""
    start = 0
    for axis in space.protected:
        width = axis.low.shape[1]
        columns = piece[start : start + width]
        if axis.one_hot and not (axis.low == columns).all(axis=1).any():
            return False
        start += width
    return True
