"""Random neighbours of inputs, in neighbourhoods of any kind, together with the corners where there are few."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from fairmend.arrays import FloatArray, Ints
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

__all__ = ["stream_random_neighbours"]

_BATCH = 65_536
# More corners than this per input add little to random points.
_MAX_CORNERS = 64


def stream_random_neighbours(
    spec: Spec, X: FloatArray, per_row: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, FloatArray]]:
    """Yield rows (k,) of X and a neighbour of each (k, width), all neighbours of an input in one batch.

    Each input gets `per_row` random neighbours, and every corner of its neighbourhood if there are at most 64.
    """
    step = max(1, _BATCH // (per_row + _MAX_CORNERS))
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        regions = spec.regions(chunk, X.dtype)
        pieces = len(regions.owner) // regions.count  # the same for every input: one per one-hot combination
        rows = np.repeat(np.arange(len(chunk)), per_row)
        chosen = rows * pieces + rng.integers(pieces, size=len(rows))
        lower, upper = regions.lower[chosen], regions.upper[chosen]
        points = lower + (upper - lower) * rng.random(lower.shape, dtype=np.float64).astype(X.dtype)
        points = _snap(spec, np.clip(points, lower, upper), lower, upper)
        corners = _corners(regions, pieces)
        if corners is not None:
            rows = np.concatenate([rows, np.tile(regions.owner, len(corners) // len(regions.owner))])
            points = np.concatenate([points, corners])
            order = np.argsort(rows, kind="stable")
            rows, points = rows[order], points[order]
        yield (rows + start).astype(np.int64), points


def _snap(spec: Spec, points: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Move points of boxes to the nearest values that integers and ordinal categories can take."""
    for feature in spec.features:
        if feature.varies and not feature.one_hot and feature.kind != "continuous":
            k = spec.columns(feature.name).start
            points[:, k] = feature.scaled(feature.nearest(points[:, k]))
            points[:, k] = np.clip(points[:, k], lower[:, k], upper[:, k])
    return points


def _corners(regions: Regions, pieces: int) -> FloatArray | None:
    """Return all corners of all pieces, one choice of ends after the other; None if an input has too many."""
    varying = np.flatnonzero(regions.varying)
    if pieces << len(varying) > _MAX_CORNERS:
        return None
    stacked: list[FloatArray] = []
    for ends in product((False, True), repeat=len(varying)):
        corner = regions.lower.copy()
        high = varying[list(ends)]
        corner[:, high] = regions.upper[:, high]
        stacked.append(corner)
    return np.concatenate(stacked)
