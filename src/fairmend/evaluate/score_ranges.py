"""The range of the score over the neighbourhood of an input: exact if it is finite, otherwise with sound bounds.

The score is a probability: with one or two outputs that of class 1, with more that of the input's own class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairmend.auditing.neighbours import stream_random_neighbours
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.evaluate.document import ScoreRange, ScoreRanges
from fairmend.evaluate.nearest_counterfactuals import pick_evenly
from fairmend.network import Network
from fairmend.network.model import ScoredRows, class_probability
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

MOST_RANGES = 240
"""Inputs whose ranges a page shows."""

_MOST_POINTS = 2_000_000  # neighbours that can be computed in a fraction of a second; beyond, bounds have to do
_MOST_RUN = 200_000  # of a model that is only run

_MOST_NUMBERS = 50_000_000  # in the pieces of all neighbourhoods

_SAMPLES = 64
_PIECES = 4_096  # boxes in all that neighbourhoods are cut into, for tighter bounds
_WORK = 2_000_000_000  # multiplications that the bounds over all of them may take


@dataclass(frozen=True, eq=False)
class ScoreRangeArrays:
    """For each input (inputs,): its own score, the lowest and the highest computed score, and sound bounds or NaN.

    If `exact`, every neighbour was computed and the bounds are the computed scores. `one` (inputs,) says for which
    inputs the bounds prove one prediction; None if `exact`.
    """

    own: Floats
    seen_low: Floats
    seen_high: Floats
    low: Floats
    high: Floats
    one: Bools | None = None

    @property
    def exact(self) -> bool:
        """Whether every neighbour was computed."""
        return self.one is None

    def as_list(self, unequal: Bools) -> list[ScoreRange]:
        """Return the ranges as a list; `unequal` (inputs,) says for which inputs two predictions were found."""
        one = np.asarray(~unequal) if self.one is None else self.one
        states = np.where(unequal, "two", np.where(one, "one", "open")).tolist()
        columns = (self.own, self.seen_low, self.seen_high, self.low, self.high)
        return [
            ScoreRange(own, seen_low, seen_high, _or_none(low), _or_none(high), state)
            for own, seen_low, seen_high, low, high, state in zip(*(c.tolist() for c in columns), states, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class RangedPeople:
    """People, which of them are treated unequally (inputs,), and whether their score depends on their class alone."""

    people: ScoredRows
    unequal: Bools
    by_classes: bool = False


def order_by_score(people: ScoredRows) -> Ints:
    """Return the row numbers of people in order of their score."""
    return np.argsort(people.probability(), kind="stable").astype(np.int64)


def tabulate_score_ranges(spec: Spec, before: RangedPeople, after: RangedPeople | None = None) -> ScoreRanges:
    """Return the score ranges of some of the people, evenly spaced in the order of their score `before` a repair."""
    order = order_by_score(before.people)
    chosen = order[pick_evenly(len(order), MOST_RANGES)]
    both = [before] if after is None else [before, after]
    found = [compute_score_ranges(spec, each.people.take(chosen), by_classes=each.by_classes) for each in both]
    listed = [ranges.as_list(each.unequal[chosen]) for ranges, each in zip(found, both, strict=True)]
    kind = "positive" if before.people.net.outputs <= 2 else "own"
    return ScoreRanges(kind, len(order), all(each.exact for each in found), *listed, *([[]] if after is None else []))


def compute_score_ranges(
    spec: Spec, people: ScoredRows, *, by_classes: bool = False, seed: int = 0
) -> ScoreRangeArrays:
    """Return the range of the score over the neighbourhood of each of the people.

    If the score is proven to depend on a person only through their class (`by_classes`), all neighbours have it.
    """
    net, X, own_class, own = people.net, people.X, people.classes, people.probability()
    if by_classes:
        return ScoreRangeArrays(own, own, own, own, own)
    low, high = own.copy(), own.copy()
    most = _MOST_POINTS if isinstance(net, Network) else _MOST_RUN
    exact = spec.finite and int(np.sum(spec.neighbourhood_sizes(X, X.dtype))) <= most
    stream = (
        spec.points(X, dtype=X.dtype)
        if exact
        else stream_random_neighbours(spec, X, _SAMPLES, np.random.default_rng(seed))
    )
    for rows, points in stream:
        found = class_probability(net.logits(points), own_class[rows])
        np.minimum.at(low, rows, found)
        np.maximum.at(high, rows, found)
    if exact:
        return ScoreRangeArrays(own, low, high, low, high)
    if not isinstance(net, Network):
        unknown = np.full(len(own), np.nan)  # a model that is only run has no bounds
        return ScoreRangeArrays(own, low, high, unknown, unknown, np.zeros(len(own), np.bool_))
    bounds = _neighbourhood_bounds(net, _regions(spec, X), own_class)
    # Computed scores are rounded, so they may exceed the real range by their last bits.
    return ScoreRangeArrays(own, low, high, np.minimum(bounds.low, low), np.maximum(bounds.high, high), bounds.sure)


def _regions(spec: Spec, X: FloatArray) -> Regions:
    """Return the regions of X; where one-hot features make too many pieces, one box around each neighbourhood."""
    if spec.most_pieces == 1 or spec.most_pieces * X.size <= _MOST_NUMBERS:
        return spec.regions(X, X.dtype)
    return Regions(*spec.hull(X, X.dtype), np.arange(len(X), dtype=np.int64), len(X))


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Sound bounds of the score (k,), and where they prove that every point has the input's own prediction (k,)."""

    low: Floats
    high: Floats
    sure: Bools

    def over(self, owner: Ints, count: int) -> _Bounds:
        """Return the bounds of `count` neighbourhoods, whose boxes belong to the `owner` (k,)."""
        low, high, sure = np.full(count, np.inf), np.full(count, -np.inf), np.ones(count, np.bool_)
        np.minimum.at(low, owner, self.low)
        np.maximum.at(high, owner, self.high)
        np.logical_and.at(sure, owner, self.sure)
        return _Bounds(low, high, sure)


def _neighbourhood_bounds(net: Network, regions: Regions, own: Ints) -> _Bounds:
    """Return bounds (inputs,) of the score over neighbourhoods, from their boxes, whole and cut into smaller ones."""
    cut = _cut(net, regions)
    fine = _box_bounds(net, cut, own[cut.owner]).over(cut.owner, regions.count)
    if len(cut.owner) == len(regions.owner):
        return fine
    whole = _box_bounds(net, regions, own[regions.owner]).over(regions.owner, regions.count)
    return _Bounds(np.maximum(fine.low, whole.low), np.minimum(fine.high, whole.high), fine.sure | whole.sure)


def _box_bounds(net: Network, regions: Regions, own: Ints) -> _Bounds:
    """Return bounds (pieces,) over boxes of inputs with the class `own` (pieces,): of class 1 of two, or of `own`."""
    bounds = KernelBounds(net, "probability")
    low, high, margins = bounds.box_probabilities(regions.lower, regions.upper)
    each = np.arange(len(own))
    shown = own if net.outputs > 2 else np.full(len(own), net.outputs - 1)
    return _Bounds(low[each, shown], high[each, shown], bounds.proves_class(margins[each, own], own))


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
