"""Random people, and how many of them are treated unequally: an estimate beside the proof."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from fairmend.network import Network
from fairmend.quantify.space import Space

__all__ = ["sampled_unequal"]


_MOST_COMBINATIONS = 64


def sampled_unequal(network: Network, space: Space, samples: int, seed: int) -> float | None:
    """Return the share of random people who get different classes with different protected values.

    All combinations of protected values are tried if they are few, and random ones otherwise; tolerances are not used.
    """
    if samples == 0:
        return None
    rng = np.random.default_rng(seed)
    people = space.spec.sample_inputs(samples, rng, network.dtype)
    low, high = np.ones(samples, np.bool_), np.zeros(samples, np.bool_)
    for cells in _combinations([axis.cells for axis in space.protected], rng):
        people[:, space.columns] = np.concatenate(
            [axis.low[cell] for axis, cell in zip(space.protected, cells, strict=True)]
        )
        positive = network.predict(people) == 1
        low &= positive
        high |= positive
    return float(np.mean(high & ~low))


def _combinations(sizes: list[int], rng: np.random.Generator) -> Iterable[Sequence[int]]:
    if math.prod(sizes) <= _MOST_COMBINATIONS:
        return product(*map(range, sizes))
    ends = [[0] * len(sizes), [size - 1 for size in sizes]]
    return [*ends, *rng.integers(0, sizes, (_MOST_COMBINATIONS - 2, len(sizes))).tolist()]
