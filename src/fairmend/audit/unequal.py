"""Who is treated unequally, by looking: at all points of a finite neighbourhood, or at some of any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

_BATCH = 65536
# More corners than this per input say little that random points do not.
_MAX_CORNERS = 64


@dataclass(frozen=True, eq=False, repr=False)
class Unequal:
    """Which inputs have a neighbour with another prediction than their own.

    Attributes
    ----------
    rows : bool (inputs,); where False, there is none if `exact`, else none was found
    other : (inputs, width), such a neighbour for each unequal input, NaN elsewhere
    exact : whether every neighbour was looked at
    """

    rows: npt.NDArray[np.bool_]
    other: FloatArray
    exact: bool

    def __repr__(self) -> str:
        """How many, of how many, and what that means."""
        how = "exact" if self.exact else "sampled: a lower bound"
        return f"Unequal({self.count} of {len(self.rows)} inputs, {self.rate:.2%}, {how})"

    @property
    def count(self) -> int:
        """How many inputs are unequal."""
        return int(self.rows.sum())

    @property
    def rate(self) -> float:
        """The share of unequal inputs, 0 to 1."""
        return self.count / len(self.rows)


def find_unequal(
    net: Network,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    *,
    batch: int = _BATCH,
    progress: Progress | None = None,
) -> Unequal:
    """Look at every neighbour of every input, `batch` points at a time; exact, for finite neighbourhoods."""
    inputs = _checked(net, spec, X)
    if not spec.finite:
        names = ", ".join(f.name for f in spec.features if f.varies and f.kind == "continuous")
        raise FairmendError(
            f"neighbours differ in {names}, which is continuous, so they cannot all be looked at; "
            "use sample_unequal, which can only find"
        )
    stream = spec.points(inputs, batch=batch, dtype=inputs.dtype)
    return _compare(net, inputs, stream, exact=True, stage="enumerate", progress=progress)


def sample_unequal(
    net: Network,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    per_row: int = 64,
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> Unequal:
    """Look at `per_row` random neighbours of every input, and the corners where there are few.

    This can only find, never prove: an input for which it found nothing may still have a neighbour that is
    treated differently, so `rate` is a lower bound.
    """
    if per_row < 1:
        raise FairmendError(f"sampling needs at least one point per input, got per_row={per_row}")
    inputs = _checked(net, spec, X)
    stream = sampled_points(spec, inputs, per_row, np.random.default_rng(seed))
    return _compare(net, inputs, stream, exact=False, stage="sample", progress=progress)


def _checked(net: Network, spec: Spec, X: pd.DataFrame | npt.ArrayLike) -> FloatArray:
    spec.require_inputs(net.inputs)
    return spec.as_inputs(X, net.dtype)


def _compare(
    net: Network,
    X: FloatArray,
    stream: Iterator[tuple[npt.NDArray[np.int64], FloatArray]],
    *,
    exact: bool,
    stage: str,
    progress: Progress | None,
) -> Unequal:
    """Gather, from streamed points and the inputs they belong to, a first unequal point for each input."""
    own = net.predict(X)
    found = np.zeros(len(X), dtype=np.bool_)
    other = np.full_like(X, np.nan)
    for rows, points in stream:
        hits = np.flatnonzero(net.predict(points) != own[rows])
        hits = hits[~found[rows[hits]]]
        # The same input may get other last bits in another batch; that is rounding, not unequal treatment.
        hits = hits[(points[hits] != X[rows[hits]]).any(axis=1)]
        new, first = np.unique(rows[hits], return_index=True)
        other[new] = points[hits[first]]
        found[new] = True
        if progress is not None:
            progress(stage, int(rows[-1]) + 1, len(X))
    return Unequal(found, other, exact)


def sampled_points(
    spec: Spec, X: FloatArray, per_row: int, rng: np.random.Generator
) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray]]:
    """Stream random neighbours of X, and corners, in chunks of whole inputs."""
    step = max(1, _BATCH // (per_row + _MAX_CORNERS))
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        regions = spec.regions(chunk, X.dtype)
        pieces = len(regions.owner) // regions.count  # every input has as many: one per one-hot combination
        rows = np.repeat(np.arange(len(chunk)), per_row)
        chosen = rows * pieces + rng.integers(pieces, size=len(rows))
        lower, upper = regions.lower[chosen], regions.upper[chosen]
        points = lower + (upper - lower) * rng.random(lower.shape, dtype=np.float64).astype(X.dtype)
        points = _snapped(spec, np.clip(points, lower, upper), lower, upper)
        corners = _corners(regions, pieces)
        if corners is not None:
            rows = np.concatenate([rows, np.tile(regions.owner, len(corners) // len(regions.owner))])
            points = np.concatenate([points, corners])
            order = np.argsort(rows, kind="stable")
            rows, points = rows[order], points[order]
        yield (rows + start).astype(np.int64), points


def _snapped(spec: Spec, points: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Move points of a box to the nearest values that integers and ordinal categories can take."""
    for feature in spec.features:
        if feature.varies and not feature.one_hot and feature.kind != "continuous":
            k = spec.columns(feature.name).start
            points[:, k] = feature.scaled(feature.nearest(points[:, k]))
            points[:, k] = np.clip(points[:, k], lower[:, k], upper[:, k])
    return points


def _corners(regions: Regions, pieces: int) -> FloatArray | None:
    """All corners of all pieces, choice by choice of ends, or None where an input has too many."""
    varying = np.flatnonzero(regions.varying)
    if pieces << len(varying) > _MAX_CORNERS:
        return None
    stacked: list[npt.NDArray[Any]] = []
    for ends in product((False, True), repeat=len(varying)):
        corner = regions.lower.copy()
        high = varying[list(ends)]
        corner[:, high] = regions.upper[:, high]
        stacked.append(corner)
    return np.concatenate(stacked)
