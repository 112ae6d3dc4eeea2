"""Neighbours of inputs: copies with other protected values for `flip`, pairs with different outputs for `grft`, `care`.

This can find unequal treatment, but it proves nothing; proofs come from `fairmend.prove`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.products import ReachableValues

MOST_POINTS = 200_000
"""Neighbourhoods that hold more points than this together are sampled, not enumerated."""

SAMPLES = 256

_MOST_DRAWS = 64  # of a neighbour with other protected values; each draw gives one at least every other time


def flip_protected(spec: Spec, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return X with random possible values of the protected features, at least one of them different.

    Linked features follow.
    """
    if spec.links:
        return _flip_with_links(spec, X, rng)
    points = _redraw(spec, X, [_reach(spec, feature, X) for feature in spec.protected], rng)
    same = np.flatnonzero((points == X).all(axis=1))
    if len(same):
        first = next((f for f in spec.protected if f.kind != "continuous"), spec.protected[0])
        lo, hi = first.bounds
        if first.kind == "continuous":
            values = rng.uniform(lo, hi, len(same))
        else:  # 1 to n - 1 steps around the circle of n values never return to the start
            count = int(hi - lo) + 1
            own = spec.values_of(first, X[same])
            values = lo + (own - lo + rng.integers(1, count, len(same))) % count
        points[same] = _with_values(spec, points[same], first, values)
    return points


def draw_neighbours(spec: Spec, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return one random neighbour of each row, uniform over the values of every feature that varies."""
    products = spec.products(X)
    if products.single:
        return _redraw(spec, X, products.values, rng)
    count = np.bincount(products.owner, minlength=len(X))
    chosen = products.starts + rng.integers(count)
    return _redraw(spec, X, [each.take(chosen) for each in products.values], rng)


def _flip_with_links(spec: Spec, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return neighbours with other protected values, and the own values of features with a tolerance or bands."""
    points, left = X.copy(), np.arange(len(X))
    free = [spec.columns(f.name) for f in spec.varying if f.tolerance or f.bands]
    for _ in range(_MOST_DRAWS):
        drawn = draw_neighbours(spec, X[left], rng)
        for columns in free:
            drawn[:, columns] = X[left][:, columns]
        points[left] = drawn
        left = left[(drawn == X[left]).all(axis=1)]
        if not len(left):
            break
    return points


def _reach(spec: Spec, feature: Feature, X: FloatArray) -> ReachableValues:
    return ReachableValues.around(feature, spec.columns(feature.name), X)


def iterate_neighbours(
    spec: Spec, X: FloatArray, rng: np.random.Generator, samples: int = SAMPLES, most: int = MOST_POINTS
) -> Iterator[tuple[Ints, FloatArray]]:
    """Yield neighbours and their rows: all of them if they are few, else ``samples`` for each row."""
    if spec.finite and sum(spec.neighbourhood_sizes(X, X.dtype).tolist()) <= most:
        yield from spec.points(X, dtype=X.dtype)
        return
    for _ in range(samples):
        yield np.arange(len(X)), draw_neighbours(spec, X, rng)


def find_different_pairs(
    network: Network, spec: Spec, X: FloatArray, rng: np.random.Generator, per_row: int = 16
) -> tuple[Ints, FloatArray, np.ndarray]:
    """Return row numbers of X, a neighbour for each with a different output, and which of these pairs are IDI pairs.

    If neighbours get another prediction than the row, these are returned, up to ``per_row`` of them; else the
    ``per_row`` neighbours with the most different output. Neighbours with the same output are left out.
    """
    stream = list(iterate_neighbours(spec, X, rng))
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
    """Return the logits, ``(rows, outputs)``: probabilities saturate, and hide how far apart two people are."""
    return np.asarray(network.logits(X), dtype=np.float64).reshape(len(X), -1)


def _redraw(spec: Spec, X: FloatArray, reachable: Iterable[ReachableValues], rng: np.random.Generator) -> FloatArray:
    points = X.copy()
    for each in reachable:
        feature, low, high = each.feature, each.lowest, each.highest
        if feature.kind == "continuous":
            values = rng.uniform(low, high)
        else:
            values = rng.integers(low.astype(np.int64), high.astype(np.int64), endpoint=True).astype(np.float64)
        points = _with_values(spec, points, feature, values)
        if feature.kind == "continuous" and feature.bands:  # a value may be rounded up to the next band
            points[:, each.columns] = np.clip(points[:, each.columns], *each.ends())
    return points


def _with_values(spec: Spec, points: FloatArray, feature: Feature, values: Floats) -> FloatArray:
    columns = spec.columns(feature.name)
    points = points.copy()
    if feature.one_hot:
        points[:, columns] = feature.one_hot_columns(values.astype(np.int64), points.dtype)
        return points
    own = points[:, columns.start]
    encoded = feature.scaled(values).astype(points.dtype)
    # An input that keeps its value keeps its bits, which may be an ulp away from our encoding.
    points[:, columns.start] = np.where(feature.nearest(own) == values, own, encoded)
    return points
