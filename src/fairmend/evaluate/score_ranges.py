"""The range of the score over the neighbourhood of an input: exact if it is finite, otherwise with sound bounds.

With one output, the score is the logit; with two, their difference; with more, the lead of the input's own class over
the best of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.audit.random_neighbours import stream_random_neighbours
from fairmend.evaluate.document import ScoreRange
from fairmend.network import DEFAULT_THRESHOLD, Network
from fairmend.network.decision import enclose_log_odds
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

__all__ = ["ScoreRangeArrays", "compute_score_ranges", "order_by_score", "score_kind", "scores"]

_MOST_POINTS = 2_000_000  # neighbours that can be computed in a fraction of a second; beyond, bounds have to do

_MOST_NUMBERS = 50_000_000  # in the pieces of all neighbourhoods

_SAMPLES = 64
_PIECES = 4_096  # boxes in all that neighbourhoods are cut into, for tighter bounds
_WORK = 2_000_000_000  # multiplications that the bounds over all of them may take


@dataclass(frozen=True, eq=False)
class ScoreRangeArrays:
    """For each input (inputs,): its own score, the lowest and the highest computed score, and sound bounds.

    If `exact`, every neighbour was computed and the bounds are the computed scores.
    """

    own: Floats
    seen_low: Floats
    seen_high: Floats
    low: Floats
    high: Floats
    exact: bool

    def as_list(self, net: Network, unequal: Bools) -> list[ScoreRange]:
        """Return the ranges as a list; `unequal` (inputs,) says for which inputs two predictions were found."""
        one = np.asarray(~unequal) if self.exact else self._keeps_one_prediction(net)
        states = np.where(unequal, "two", np.where(one, "one", "open")).tolist()
        columns = (self.own, self.seen_low, self.seen_high, self.low, self.high)
        return [
            ScoreRange(own, seen_low, seen_high, _or_none(low), _or_none(high), state)
            for own, seen_low, seen_high, low, high, state in zip(*(c.tolist() for c in columns), states, strict=True)
        ]

    def _keeps_one_prediction(self, net: Network) -> Bools:
        """Return where the bounds are on one side; a tie is class 1 with one logit, the lower class with several."""
        if net.threshold != DEFAULT_THRESHOLD:
            below, above = enclose_log_odds(net.threshold)
            return (self.low >= above) | (self.high <= below)
        if net.outputs == 1:
            return (self.low >= 0) | (self.high < 0)
        return (self.low > 0) | (self.high <= 0 if net.outputs == 2 else False)


def score_kind(net: Network) -> str:
    """Return "logit" for one or two outputs (class 1 wins above 0), "lead" for more."""
    return "logit" if net.outputs <= 2 else "lead"


def scores(net: Network, X: FloatArray, own: Ints) -> Floats:
    """Return the score (rows,) of each row of X; with more than two outputs, of the class `own` (rows,)."""
    logits = net.logits(X).astype(np.float64)
    if logits.ndim == 1:
        return logits
    if logits.shape[1] == 2:
        return np.asarray(logits[:, 1] - logits[:, 0])
    each = np.arange(len(X))
    mine = logits[each, own]
    logits[each, own] = -np.inf
    return np.asarray(mine - logits.max(axis=1))


def order_by_score(net: Network, X: FloatArray) -> Ints:
    """Return the row numbers of X (inputs, width) in order of their score."""
    return np.argsort(scores(net, X, net.predict(X)), kind="stable").astype(np.int64)


def compute_score_ranges(net: Network, spec: Spec, X: FloatArray, *, seed: int = 0) -> ScoreRangeArrays:
    """Return the range of the score over the neighbourhood of each of X (inputs, width)."""
    own_class = net.predict(X)
    own = scores(net, X, own_class)
    low, high = own.copy(), own.copy()
    exact = spec.finite and int(np.sum(spec.neighbourhood_sizes(X, X.dtype))) <= _MOST_POINTS
    stream = (
        spec.points(X, dtype=X.dtype)
        if exact
        else stream_random_neighbours(spec, X, _SAMPLES, np.random.default_rng(seed))
    )
    for rows, points in stream:
        found = scores(net, points, own_class[rows])
        np.minimum.at(low, rows, found)
        np.maximum.at(high, rows, found)
    if exact:
        return ScoreRangeArrays(own, low, high, low, high, True)
    least, most = _neighbourhood_bounds(net, _regions(spec, X), own_class)
    # Computed scores are rounded, so they may exceed the real range by their last bits.
    return ScoreRangeArrays(own, low, high, np.minimum(least, low), np.maximum(most, high), False)


def _regions(spec: Spec, X: FloatArray) -> Regions:
    """Return the regions of X; where one-hot features make too many pieces, one box around each neighbourhood."""
    if spec.most_pieces == 1 or spec.most_pieces * X.size <= _MOST_NUMBERS:
        return spec.regions(X, X.dtype)
    return Regions(*spec.hull(X, X.dtype), np.arange(len(X), dtype=np.int64), len(X))


def _neighbourhood_bounds(net: Network, regions: Regions, own: Ints) -> tuple[Floats, Floats]:
    """Return bounds (inputs,) of the score over neighbourhoods, from their boxes, whole and cut into smaller ones."""
    cut = _cut(net, regions)
    low, high = np.full(regions.count, np.inf), np.full(regions.count, -np.inf)
    least, most = _box_bounds(net, cut, own[cut.owner])
    np.minimum.at(low, cut.owner, least)
    np.maximum.at(high, cut.owner, most)
    if len(cut.owner) == len(regions.owner):
        return low, high
    whole_low, whole_high = _whole_box_bounds(net, regions, own)
    return np.maximum(low, whole_low), np.minimum(high, whole_high)


def _whole_box_bounds(net: Network, regions: Regions, own: Ints) -> tuple[Floats, Floats]:
    starts = np.searchsorted(regions.owner, np.arange(regions.count))
    least, most = _box_bounds(net, regions, own[regions.owner])
    return np.minimum.reduceat(least, starts), np.maximum.reduceat(most, starts)


def _box_bounds(net: Network, regions: Regions, own: Ints) -> tuple[Floats, Floats]:
    """Return rigorous bounds (pieces,) of the score of class `own` (pieces,) over boxes."""
    from fairmend.bounds.rigorous import rigorous_bounds, rigorous_differences

    if net.outputs == 1:
        lower, upper = rigorous_bounds(net, regions.lower, regions.upper)
        return lower[:, 0], upper[:, 0]
    leads = rigorous_differences(net, regions.lower, regions.upper)
    if net.outputs == 2:
        return leads[:, 1, 0], -leads[:, 0, 1]
    each = np.arange(len(own))
    mine, theirs = leads[each, own], -leads[each, :, own]
    mine[each, own] = theirs[each, own] = np.inf
    return np.asarray(mine.min(axis=1)), np.asarray(theirs.min(axis=1))


def _cut(net: Network, regions: Regions) -> Regions:
    """Cut every box evenly along the columns that vary, into as many boxes as time allows."""
    varying = np.flatnonzero(regions.varying)
    weights = [affine.weight.size for affine in net.affines]
    per_box = sum(net.affines[i].weight.shape[0] * sum(weights[: i + 1]) for i in range(len(weights)))
    most = max(1, min(_PIECES, _WORK // max(1, per_box)) // max(1, len(regions.owner)))
    if not len(varying) or len(varying) > 12:
        return regions
    parts = int(most ** (1 / len(varying)) + 1e-9)
    lower, upper, owner = regions.lower, regions.upper, regions.owner
    for column in varying.tolist() if parts > 1 else ():
        start, end = lower[:, column], upper[:, column]
        # Each box begins with the number that ends the one before, so rounding leaves nothing out between them.
        inner = [start + (end - start) * start.dtype.type(i / parts) for i in range(parts)]
        edges = np.stack([*(np.clip(edge, start, end) for edge in inner), end], axis=1)
        lower, upper = (np.repeat(side, parts, axis=0) for side in (lower, upper))
        owner = np.repeat(owner, parts)
        edges = np.maximum.accumulate(edges, axis=1)
        lower[:, column], upper[:, column] = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    return Regions(lower, upper, owner, regions.count)


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
