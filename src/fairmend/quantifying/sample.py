"""Random people: how many are treated unequally, where to look first, and which protected values decide in a box.

Nothing here is proven.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.network.model import compute_scores
from fairmend.quantifying.decide import Decider
from fairmend_check.shares.people import Axis, Boxes, People

_INPUTS = 2**16  # that are evaluated at once
_COMPARED = 2**8  # with each person
_IN_A_BOX = 64  # people of a box
_WEIGHTS = 2**11  # of a network for which these are so many; they are fewer for larger networks


class Witnesses(NamedTuple):
    """Two protected values, as cells ``(protected axes,)``, and the classes that they give most often.

    For a claim about scores, the first gives the higher score, and there are no classes.
    """

    values: tuple[Ints, Ints]
    classes: tuple[int, int] | None


def sampled_unequal(decider: Decider, samples: int, seed: int) -> float | None:
    """Return the share of random people who are treated unequally: someone similar has another class or score.

    If there are too many similar people, some are compared: a grid of protected values, each with the largest
    differences within the tolerances, and random ones. The share may be too low then.
    """
    if samples == 0:
        return None
    people = decider.people
    cells, last = _random_cells(people, samples, seed), people.everyone.last
    most = min(_COMPARED, _COMPARED * _WEIGHTS // decider.network.weights) // len(people.values.first)
    rng = np.random.default_rng(seed)
    moved = (np.clip(cells + step, 0, last) for step in _steps(people, max(2, most), seed))
    ends = [_extremes(decider, _within_bands(people, cells, each, rng)) for each in moved]
    low, high = np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)
    return float(np.mean(_differ(decider, low, high)))


def draw_people(decider: Decider, samples: int, count: int, seed: int) -> Ints:
    """Return the cells ``(count, axes)`` of random people: those whom protected values treat unequally first."""
    cells = _random_cells(decider.people, samples, seed)
    unequal = _differ(decider, *_extremes(decider, cells))
    return cells[np.argsort(~unequal, kind="stable")[:count]]


def find_witnesses(decider: Decider, box: Boxes) -> Witnesses | None:
    """Return the protected values that make the difference for most of some random people of a box.

    The first class is the higher one. None if nobody's class or score changes so much, as with tolerances.
    """
    rng = np.random.default_rng(0)
    cells = rng.integers(box.first[0], box.last[0] + 1, (_IN_A_BOX, box.first.shape[1]))
    answers, values = _answers(decider, cells), decider.people.values.first
    differences = answers[:, :, None] - answers[:, None]
    beyond = (np.abs(differences) > decider.prover.requirement.limit).any(axis=3).sum(axis=0)
    # Of pairs with equal numbers, the most different one, or that with the values that are farthest apart.
    order = np.arange(len(values))
    most = np.maximum(differences, 0.0).max(axis=3).mean(axis=0)
    apart = most / (1 + most.max()) if decider.spec.claim.is_score else np.abs(order[:, None] - order) / len(values)
    one, other = (int(k) for k in np.unravel_index((beyond + apart).argmax(), beyond.shape))
    if not beyond[one, other]:
        return None
    if decider.spec.claim.is_score:
        return Witnesses((values[one], values[other]), None)
    pairs = answers[:, [one, other], 0].astype(np.int64)
    kinds, counts = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    first, second = kinds[counts.argmax()].tolist()
    if first < second:
        one, other, first, second = other, one, second, first
    return Witnesses((values[one], values[other]), (first, second))


def _random_cells(people: People, samples: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    return rng.integers(0, [axis.cells for axis in people.axes], (samples, len(people.axes)))


def _within_bands(people: People, cells: Ints, moved: Ints, rng: np.random.Generator) -> Ints:
    """Return cells with others of the same bands: their ends, or any."""
    for k, axis, _ in people.banded:
        first, last = axis.around(cells[:, k], cells[:, k])
        kind = rng.integers(0, 4, len(cells))
        moved[:, k] = np.select([kind == 0, kind == 1], [first, last], rng.integers(first, last + 1))
    return moved


def _steps(people: People, most: int, seed: int) -> Ints:
    """Return how many cells away similar people are on each axis ``(steps, axes)``: all, or about so many of them.

    With bands, there are many of the same.
    """
    reach = np.array([_sure_reach(axis) for axis in people.axes], np.int64)
    if people.banded:
        steps = np.random.default_rng(seed).integers(-reach, reach + 1, (max(2, most // 4), len(reach)))
        return np.concatenate([np.zeros((1, len(reach)), np.int64), steps])
    if math.prod((2 * reach + 1).tolist()) <= most:
        return np.array(list(product(*(range(-k, k + 1) for k in reach.tolist()))), np.int64)
    rng = np.random.default_rng(seed)
    far = reach * rng.choice([-1, 1], (most // 4 + 1, len(reach)))
    near = rng.integers(-reach, reach + 1, (most // 2, len(reach)))
    return np.concatenate([np.zeros((1, len(reach)), np.int64), far, -far, near])


def _sure_reach(axis: Axis) -> int:
    """Return how many cells away people are similar; in a continuous feature, their values are the ends of cells."""
    return axis.reach if axis.feature.whole else max(0, axis.reach - 2)


def _differ(decider: Decider, low: Floats, high: Floats) -> Bools:
    """Return who is treated unequally, if classes or scores ``(n, scores)`` are from low to high."""
    return np.asarray((high - low > decider.prover.requirement.limit).any(axis=1))


def _extremes(decider: Decider, cells: Ints) -> tuple[Floats, Floats]:
    """Return the lowest and highest class or scores ``(n, scores)`` of people in cells with the protected values."""
    step = max(1, _INPUTS // len(decider.people.values.first))
    parts = [_answers(decider, cells[start : start + step]) for start in range(0, len(cells), step)]
    low, high = ([take(part, axis=1) for part in parts] for take in (np.min, np.max))
    return np.concatenate(low), np.concatenate(high)


def _answers(decider: Decider, cells: Ints) -> Floats:
    """Return classes or scores ``(n, values, scores)`` of people in cells with each of some protected values."""
    network, claim = decider.network, decider.spec.claim
    X = decider.people.inputs(cells, decider.people.values).astype(network.dtype)
    answers = compute_scores(network, X, claim.on) if claim.is_score else network.predict(X)
    return np.asarray(answers.reshape(len(cells), len(decider.people.values.first), -1), np.float64)
