"""Random neighbours of inputs, in neighbourhoods of any kind, together with the corners where there are few."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Ints
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions
from fairmend.spec.products import Products, ReachableValues

_BATCH, _NUMBERS = 65_536, 64_000_000
# More corners than this per input add little to random points.
_MAX_CORNERS = 64
_INT64_MAX = int(np.iinfo(np.int64).max)


def stream_random_neighbours(
    spec: Spec, X: FloatArray, per_row: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, FloatArray]]:
    """Yield rows (k,) of X and a neighbour of each (k, width), all neighbours of an input in one batch.

    Each input gets `per_row` random neighbours, and every corner of its neighbourhood if there are at most 64.
    """
    pieces = spec.most_pieces
    step = max(1, min(_BATCH, _NUMBERS // spec.width) // (per_row + _MAX_CORNERS))
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        products = spec.products(chunk)
        rows = np.repeat(np.arange(len(chunk), dtype=np.int64), per_row)
        if spec.links:
            chosen = _draw_products(products, rows, rng)
            categories = [rng.integers(each.counts[chosen]) for each in products.values if each.feature.one_hot]
        else:
            chosen, categories = rows, _draw_categories(products.values, pieces, len(rows), rng)
        points = _draw(chunk[rows], products.values, chosen, categories, rng)
        corners = _corners(spec, chunk, products.values, pieces)
        if corners is not None:
            owner, at_corners = corners
            rows, points = np.concatenate([rows, owner]), np.concatenate([points, at_corners])
            order = np.argsort(rows, kind="stable")
            rows, points = rows[order], points[order]
        yield (rows + start).astype(np.int64), points


def _draw_products(products: Products, rows: Ints, rng: np.random.Generator) -> Ints:
    """Return a random product of the neighbourhood of each of the inputs `rows` (k,)."""
    count = np.bincount(products.owner, minlength=products.count)
    return np.asarray(products.starts[rows] + rng.integers(count[rows]), dtype=np.int64)


def _draw_categories(values: list[ReachableValues], pieces: int, count: int, rng: np.random.Generator) -> list[Ints]:
    """Return random categories (count,) of each one-hot feature, uniform over all combinations."""
    sizes = [len(each.feature.categories or ()) for each in values if each.feature.one_hot]
    if pieces > _INT64_MAX:
        return [rng.integers(size, size=count) for size in sizes]
    number: Ints = rng.integers(pieces, size=count)
    drawn: list[Ints] = []
    for size in reversed(sizes):
        number, category = np.divmod(number, size)
        drawn.insert(0, category)
    return drawn


def _draw(
    points: FloatArray, values: list[ReachableValues], chosen: Ints, categories: list[Ints], rng: np.random.Generator
) -> FloatArray:
    """Set points (k, width), copies of inputs, to random points of the chosen products (k,), with these categories."""
    share: npt.NDArray[np.floating] = rng.random(points.shape, dtype=np.float64).astype(points.dtype)
    given = iter(categories)
    for each in values:
        if each.feature.one_hot:
            points[:, each.columns] = each.encoded(chosen, next(given))
            continue
        lower, upper = (end[chosen, 0] for end in each.ends())
        drawn = np.clip(lower + (upper - lower) * share[:, each.columns.start], lower, upper)
        points[:, each.columns.start] = drawn if each.feature.kind == "continuous" else each.snap(chosen, drawn)
    return points


def _corners(spec: Spec, X: FloatArray, values: list[ReachableValues], pieces: int) -> tuple[Ints, FloatArray] | None:
    """Return all corners of all pieces of X with their rows, one choice of ends after the other; None if too many."""
    if pieces << sum(not each.feature.one_hot for each in values) > _MAX_CORNERS:
        return None
    regions: Regions = spec.regions(X, X.dtype)
    stacked: list[FloatArray] = []
    for ends in product((False, True), repeat=int(regions.varying.sum())):
        corner = regions.lower.copy()
        high = np.flatnonzero(regions.varying)[list(ends)]
        corner[:, high] = regions.upper[:, high]
        stacked.append(corner)
    return np.tile(regions.owner, len(stacked)), np.concatenate(stacked)
