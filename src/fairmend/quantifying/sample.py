"""Random people, and how many of them are treated unequally: an estimate beside the proof, and where to look first."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.network import Network
from fairmend.network.scores import compute_scores
from fairmend.quantifying.space import Axis, Space

_INPUTS = 2**16  # that are evaluated at once
_COMPARED = 2**8  # with each person
_WEIGHTS = 2**11  # of a network for which these are so many; they are fewer for larger networks


def sampled_unequal(network: Network, space: Space, samples: int, seed: int) -> float | None:
    """Return the share of random people who are treated unequally: someone similar has another class or score.

    If there are too many similar people, some are compared: a grid of protected values, each with the largest
    differences within the tolerances, and random ones. The share may be too low then.
    """
    if samples == 0:
        return None
    cells, last = _random_cells(space, samples, seed), space.root().last
    most = min(_COMPARED, _COMPARED * _WEIGHTS // network.weights) // len(space.values)
    ends = [_extremes(network, space, np.clip(cells + step, 0, last)) for step in _steps(space, max(2, most), seed)]
    low, high = np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)
    return float(np.mean(_differ(space, low, high)))


def draw_people(network: Network, space: Space, samples: int, count: int, seed: int) -> Ints:
    """Return the cells ``(count, axes)`` of random people: those whom protected values treat unequally first."""
    cells = _random_cells(space, samples, seed)
    unequal = _differ(space, *_extremes(network, space, cells))
    return cells[np.argsort(~unequal, kind="stable")[:count]]


def _random_cells(space: Space, samples: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    return rng.integers(0, [axis.cells for axis in space.axes], (samples, len(space.axes)))


def _steps(space: Space, most: int, seed: int) -> Ints:
    """Return how many cells away similar people are on each axis ``(steps, axes)``: all, or about so many of them."""
    reach = np.array([_sure_reach(axis) for axis in space.axes], np.int64)
    if math.prod((2 * reach + 1).tolist()) <= most:
        return np.array(list(product(*(range(-k, k + 1) for k in reach.tolist()))), np.int64)
    rng = np.random.default_rng(seed)
    far = reach * rng.choice([-1, 1], (most // 4 + 1, len(reach)))
    near = rng.integers(-reach, reach + 1, (most // 2, len(reach)))
    return np.concatenate([np.zeros((1, len(reach)), np.int64), far, -far, near])


def _sure_reach(axis: Axis) -> int:
    """Return how many cells away people are similar; in a continuous feature, their values are the ends of cells."""
    return axis.reach if axis.feature.kind != "continuous" else max(0, axis.reach - 2)


def _differ(space: Space, low: Floats, high: Floats) -> Bools:
    """Return who is treated unequally, if classes or scores ``(n, scores)`` are from low to high."""
    limit = space.spec.claim.limit if space.spec.claim.is_score else 0.0
    return np.asarray((high - low > limit).any(axis=1))


def _extremes(network: Network, space: Space, cells: Ints) -> tuple[Floats, Floats]:
    """Return the lowest and highest class or scores ``(n, scores)`` of people in cells with the protected values."""
    claim, values = space.spec.claim, space.values
    step = max(1, _INPUTS // len(values))
    low, high = [], []
    for start in range(0, len(cells), step):
        some = cells[start : start + step]
        X = space.people(some, values, network.dtype)
        answers = compute_scores(network, X, claim.on) if claim.is_score else network.predict(X)
        each = answers.reshape(len(some), len(values), -1)
        low.append(each.min(axis=1))
        high.append(each.max(axis=1))
    return np.concatenate(low), np.concatenate(high)
