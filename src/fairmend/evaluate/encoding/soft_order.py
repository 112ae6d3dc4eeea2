"""The order of the columns from the scores, by descent over soft orders.

A soft order gives every input of the network a weighted mean of the encoded columns: a doubly stochastic matrix, of
which a permutation is a corner. The scores have derivatives in its entries, so all columns move at once, where a search
by exchanges tries them one by one. Multiplicative steps and Sinkhorn's scaling keep the matrix doubly stochastic.
Starts are random: a start that ends between permutations costs a fraction of a second, and others do not.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.evaluate.encoding.candidates import State
from fairmend.evaluate.encoding.moves import Distance
from fairmend.spec.draft.readings import Reading

_STEPS = (16.0, 8.0, 30.0, 4.0)  # sizes of steps, one for each start in turn: which one works depends on the network
_MOST_STEPS = 200
_EVERY = 20  # steps after which the nearest permutation is tried
_MEMORY = 0.9  # of the mean of directions
_NOISE = 0.5  # of a start
_SCALINGS = 4
_NEAR = 0.02  # the mean square error of a permutation that fitted scales may correct, relative to the variance
_SAME = 1e-9


def soft_order(state: State, distance: Distance, seed: int) -> State | None:
    """Return the readings in an order that explains the scores, from a random start; often there is none."""
    spread = float(distance.target.var(axis=0).sum()) or 1.0
    step, rng = _STEPS[seed % len(_STEPS)], np.random.default_rng(seed)
    places, error = _descend(distance.encode(state), distance, step, spread, rng)
    return _arranged(state, places) if error < _NEAR * spread else None


def _descend(
    encoded: Floats, distance: Distance, step: float, spread: float, rng: np.random.Generator
) -> tuple[Ints, float]:
    """Return which column each input reads in the best permutation on the way, and its mean square error."""
    from scipy.optimize import linear_sum_assignment

    count = encoded.shape[1]
    logs, direction = _NOISE * rng.normal(size=(count, count)), np.zeros((count, count))
    best, nearest = np.arange(count), np.inf
    squares = encoded**2
    for number in range(1, _MOST_STEPS + 1):
        shares = _doubly_stochastic(logs)
        residual, slopes, sizes = distance.slopes(encoded @ shares.T)
        error = float((residual**2).sum(axis=1).mean())
        change = slopes.T @ encoded / len(encoded)
        curvature = (sizes**2).T @ squares / len(encoded)
        direction = _MEMORY * direction - (1 - _MEMORY) * change / np.sqrt(curvature * error + 1e-15)
        logs = np.log(shares + 1e-12) + step * np.sqrt(count) * direction
        if number % _EVERY == 0:
            places = np.asarray(linear_sum_assignment(-shares)[1], dtype=np.int64)
            reached = float(((distance.links(encoded[:, places]) - distance.target) ** 2).sum(axis=1).mean())
            if reached < nearest:
                best, nearest = places, reached
            if nearest < _SAME * spread:
                break
    return best, nearest


def _doubly_stochastic(logs: Floats) -> Floats:
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    for _ in range(_SCALINGS):
        shares /= shares.sum(axis=0, keepdims=True)
        shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def _arranged(state: State, places: Ints) -> State:
    """Return the readings in the order of the mean places of their columns, categories in that of their own."""
    inputs = np.empty(len(places), dtype=np.int64)
    inputs[places] = np.arange(len(places))
    found: list[tuple[float, Reading]] = []
    start = 0
    for reading in state:
        own = inputs[start : start + reading.feature.width]
        start += reading.feature.width
        found.append((float(own.mean()), _with_categories(reading, np.argsort(own, kind="stable"))))
    return tuple(reading for _, reading in sorted(found, key=lambda pair: pair[0]))


def _with_categories(reading: Reading, order: Ints) -> Reading:
    """Return the reading with its one-hot columns in another order."""
    feature = reading.feature
    if not feature.one_hot or (np.diff(order) > 0).all():
        return reading
    kept = [category for category in feature.categories or () if category != feature.dropped]
    dropped = () if feature.dropped is None else (feature.dropped,)
    return reading.with_categories((*dropped, *(kept[place] for place in order)))
