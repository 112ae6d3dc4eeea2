"""Some neighbours of some inputs: flipped copies for `flip`, pairs with different outputs for `grft` and `care`.

Everything here can only find, never prove; `certify` and `repair.proof` are what proofs come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.features import Feature

MOST_POINTS = 200_000
"""Neighbourhoods that together hold more points than this are sampled, not enumerated."""

SAMPLES = 256


def flipped(spec: Spec, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """X with the protected features at other possible values, at least one of them really another."""
    points = _redrawn(spec, X, spec.protected, rng)
    same = np.flatnonzero((points == X).all(axis=1))
    if len(same):
        first = next((f for f in spec.protected if f.kind != "continuous"), spec.protected[0])
        lo, hi = first.bounds
        if first.kind == "continuous":
            values = rng.uniform(lo, hi, len(same))
        else:  # a step of 1 to n - 1 around the circle of n values never comes back to where it started
            count = int(hi - lo) + 1
            own = _values(first, X[same], spec)
            values = lo + (own - lo + rng.integers(1, count, len(same))) % count
        points[same] = _placed(spec, points[same], first, values)
    return points


def random_neighbours(spec: Spec, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One random neighbour of each row, every feature that varies uniform over what it may be."""
    return _redrawn(spec, X, [f for f in spec.features if f.varies], rng)


def neighbours(
    spec: Spec, X: FloatArray, rng: np.random.Generator, samples: int = SAMPLES, most: int = MOST_POINTS
) -> Iterator[tuple[Ints, FloatArray]]:
    """Stream neighbours and the rows they belong to: all of them where there are few, else ``samples`` for each row."""
    if spec.finite and sum(spec.neighbourhood_sizes(X).tolist()) <= most:
        yield from spec.points(X, dtype=X.dtype)
        return
    for _ in range(samples):
        yield np.arange(len(X)), random_neighbours(spec, X, rng)


def different_pairs(
    network: Network, spec: Spec, X: FloatArray, rng: np.random.Generator, per_row: int = 16
) -> tuple[Ints, FloatArray, np.ndarray]:
    """Rows of X and a neighbour for each, those with the most different output, and which of the pairs are IDI pairs.

    Where neighbours get another prediction than the row itself, those come first, up to ``per_row`` of them; where
    none does, the ``per_row`` most different ones. Neighbours that get the row's own output are left out.
    """
    stream = list(neighbours(spec, X, rng))
    rows = np.concatenate([r for r, _ in stream])
    points = np.concatenate([p for _, p in stream])
    own, scores = class_scores(network, X), class_scores(network, points)
    difference = np.abs(scores - own[rows]).max(axis=1)
    unequal = network.predict(points) != network.predict(X)[rows]
    order = np.lexsort((-difference, ~unequal, rows))
    rows, points, difference, unequal = rows[order], points[order], difference[order], unequal[order]
    is_idi = np.zeros(len(X), dtype=bool)
    is_idi[rows[unequal]] = True
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(X)))[rows]
    kept = (rank < per_row) & (unequal | ~is_idi[rows]) & (difference > 0)
    return rows[kept], points[kept], unequal[kept]


def class_scores(network: Network, X: FloatArray) -> Floats:
    """The logits, ``(rows, outputs)``: probabilities saturate, and would hide how far two similar people are apart."""
    return np.asarray(network.logits(X), dtype=np.float64).reshape(len(X), -1)


def _redrawn(spec: Spec, X: FloatArray, features: Iterable[Feature], rng: np.random.Generator) -> FloatArray:
    points = X.copy()
    for feature in features:
        lo, hi = feature.bounds
        low, high = np.full(len(X), lo), np.full(len(X), hi)
        if not feature.protected:
            own = _values(feature, X, spec)
            low, high = np.maximum(own - feature.reach, lo), np.minimum(own + feature.reach, hi)
        if feature.kind == "continuous":
            values = rng.uniform(low, high)
        else:
            values = rng.integers(low.astype(np.int64), high.astype(np.int64), endpoint=True).astype(np.float64)
        points = _placed(spec, points, feature, values)
    return points


def _values(feature: Feature, X: FloatArray, spec: Spec) -> Floats:
    """What the feature is, in its own units; the number of its category."""
    columns = spec.columns(feature.name)
    if feature.one_hot:
        return feature.category_of(X[:, columns]).astype(np.float64)
    return feature.nearest(X[:, columns.start])


def _placed(spec: Spec, points: FloatArray, feature: Feature, values: Floats) -> FloatArray:
    columns = spec.columns(feature.name)
    points = points.copy()
    if feature.one_hot:
        points[:, columns] = feature.corners[values.astype(np.int64)]
        return points
    own = points[:, columns.start]
    encoded = feature.scaled(values).astype(points.dtype)
    # At its own value an input keeps its own bits, which may be an ulp away from our encoding.
    points[:, columns.start] = np.where(feature.nearest(own) == values, own, encoded)
    return points
