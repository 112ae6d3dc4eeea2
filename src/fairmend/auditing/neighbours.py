"""Scan inputs for unequal treatment: compare them with all of their neighbours, or with random ones.

`ExhaustiveScan` compares an input with every neighbour, which is exact and needs finite neighbourhoods; `RandomScan`
compares it with random neighbours, and with the corners where there are few, and gives a lower bound. `find_unequal`
and `sample_unequal` do the same for one array of inputs, and keep a neighbour for each unequal input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.auditing.comparisons import (
    ScanResult,
    ScoreSpread,
    Stream,
    WidestPairs,
    WorstNeighbours,
    comparison_of,
    find_widest_pairs,
    find_worst_pairs,
    reads_what_varies,
    spread_of_extremes,
)
from fairmend.auditing.fast_scores import Extremes, FastScores
from fairmend.base.arrays import Bools, FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import percent
from fairmend.network import Model
from fairmend.prove.fit import require_fit
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.neighbourhoods import Regions, stream_points
from fairmend.spec.products import Products, ReachableValues

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.auditing.device_search import DeviceSearch

MOST_POINTS = 10_000_000
"""Larger neighbourhoods are sampled even if they are finite: enumerating one takes a second or more."""

_BATCH = 65_536
# How often `RandomScan.worst` samples the neighbourhood of each input.
_REPEATS = 32

_RANDOM_BATCH, _NUMBERS = 65_536, 64_000_000
# More corners than this per input add little to random points.
_MAX_CORNERS = 64
_AT_ONCE = 1_000  # inputs whose products are in memory
_INT64_MAX = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False, repr=False)
class UnequalInputs:
    """Which inputs are treated unequally: they have a neighbour with another prediction than their own.

    For a claim about scores: the scores of two people in their neighbourhood differ by more than delta.

    Attributes
    ----------
    rows : bool (inputs,); where False, there is no such neighbour if `exact`, otherwise none was found
    exact : whether nothing is left open: every neighbour was compared, or bounds decided
    other : (inputs, width), the worst such neighbour of each unequal input, NaN elsewhere; for a claim about scores,
        the one with the highest score; None if they were not kept
    """

    rows: Bools
    exact: bool
    other: FloatArray | None = None

    def __repr__(self) -> str:
        """Return the count, the share, and whether they are exact."""
        how = "exact" if self.exact else "a lower bound"
        return f"UnequalInputs({self.count} of {len(self.rows)} inputs, {percent(self.rate, 2)}, {how})"

    @property
    def count(self) -> int:
        """The number of unequal inputs."""
        return int(self.rows.sum())

    @property
    def rate(self) -> float:
        """The share of unequal inputs, 0 to 1."""
        return self.count / len(self.rows)


class ExhaustiveScan:
    """Compares every input with every neighbour.

    For a network with one output, `FastScores` decides almost all inputs; the network itself decides the rest.
    """

    exact = True

    def __init__(self, net: Model, spec: Spec, device: DeviceSearch | None = None) -> None:
        """Prepare the scan; a device finds the same scores, where `FastScores` knows the network."""
        self._net, self._spec = net, spec
        self._varying = [(feature, spec.columns(feature.name)) for feature in spec.varying]
        # For what FastScores does not know, every point goes through the network.
        self._scores = FastScores(net, spec, device) if FastScores.knows(net) else None
        self._constant = not reads_what_varies(net, spec)
        self._comparison = comparison_of(net, spec.claim)

    def scan(self, X: FloatArray) -> ScanResult:
        """Return which of X (inputs, width) are treated unequally."""
        if self._scores is None:
            return self.worst(X)
        logits = self._net.logits(X)
        extremes = self._extremes(X, logits, self._scores)
        spread = _spread(self._spec, extremes)
        more = extremes.regrouping + self._comparison.rounding
        ends = extremes.lowest, extremes.highest
        error = extremes.error + more
        unequal, gap, decided = self._comparison.verdicts(*ends, error, logits, spread)
        rest = np.flatnonzero(~decided & ~extremes.left_out)
        if len(rest):
            error[rest] = self._scores.errors(X[rest]) + more[rest]
            unequal, gap, decided = self._comparison.verdicts(*ends, error, logits, spread)
        points, close = len(X) + extremes.points, np.flatnonzero(~decided)
        if len(close):
            again = self._compare(X[close], logits[close])
            unequal[close], gap[close] = again.unequal, again.gap
            spread.replace_rows(close, again.spread)
            points += again.points
        return ScanResult(unequal, gap, points, logits, spread)

    def _extremes(self, X: FloatArray, logits: FloatArray, fast: FastScores) -> Extremes:
        """Return the extremes around X; the scores themselves if the network ignores all in which neighbours differ.

        Scores that were computed would then differ in their last bits: BLAS rounds columns of a product differently.
        """
        if not self._constant:
            return fast.extremes(X)
        none = np.zeros(len(X))
        return Extremes(logits.copy(), logits.copy(), none.astype(np.bool_), none, 0, 0.0)

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst pair for each of X (inputs, width); every point goes through the network."""
        return self._compare(X)

    def _compare(self, X: FloatArray, logits: FloatArray | None = None) -> WorstNeighbours:
        return find_worst_pairs(self._net, self._spec, X, self._stream(X), exact=True, logits=logits)

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two neighbours of each of X (inputs, width) whose scores differ most; `on` names the score."""
        return find_widest_pairs(self._net, on, X, self._stream(X))

    def _stream(self, X: FloatArray) -> Stream:
        """Yield all points; unlike `Spec.points`, this does not check again that the inputs are valid."""
        return stream_points(self._varying, X, _BATCH, self._spec.links)


class RandomScan:
    """Compares every input with `per_row` random neighbours: what it finds is real, what it misses is unknown."""

    exact = False

    def __init__(self, net: Model, spec: Spec, per_row: int, seed: int) -> None:
        self._net, self._spec, self._per_row, self._seed = net, spec, per_row, seed
        self._seeds = np.random.default_rng(seed)
        self._constant = not reads_what_varies(net, spec)

    def scan(self, X: FloatArray, seed: int | None = None) -> WorstNeighbours:
        """Return which of X (inputs, width) are treated unequally; without a seed, each call draws new neighbours."""
        stream = self._stream(X, int(self._seeds.integers(2**32)) if seed is None else seed)
        found = find_worst_pairs(self._net, self._spec, X, stream, exact=False)
        # If the network ignores all in which neighbours differ, nothing is unknown of those that were not drawn.
        return found if self._constant else replace(found, unknown=~found.unequal)

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst of many random neighbours of each of X (inputs, width)."""
        return find_worst_pairs(self._net, self._spec, X, self._many(X), exact=False)

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two of many random neighbours of each of X whose scores differ most; `on` names the score."""
        return find_widest_pairs(self._net, on, X, self._many(X))

    def _many(self, X: FloatArray) -> Stream:
        for row, x in enumerate(X):
            for _, points in self._stream(np.repeat(x[None], _REPEATS, axis=0), self._seed):
                yield np.full(len(points), row, np.int64), points

    def _stream(self, X: FloatArray, seed: int) -> Stream:
        return stream_random_neighbours(self._spec, X, self._per_row, np.random.default_rng(seed))


def find_unequal(net: Model, spec: Spec, X: pd.DataFrame | npt.ArrayLike) -> UnequalInputs:
    """Compare every input with every neighbour: exact, for finite neighbourhoods.

    Every point goes through the network, so this is also the reference that `ExhaustiveScan` is tested against.
    """
    inputs = _encode(net, spec, X)
    if not spec.finite:
        names = ", ".join(f.name for f in spec.varying if f.kind == "continuous")
        raise FairmendError(
            f"neighbours differ in {names}, which is continuous, so they cannot all be enumerated; "
            "use sample_unequal, which gives a lower bound"
        )
    return _unequal_inputs(ExhaustiveScan(net, spec).worst(inputs), exact=True)


def sample_unequal(
    net: Model, spec: Spec, X: pd.DataFrame | npt.ArrayLike, per_row: int = 64, seed: int = 0
) -> UnequalInputs:
    """Compare every input with `per_row` random neighbours, and with the corners if there are few.

    An input without a finding may still have a neighbour with another prediction, so `rate` is a lower bound.
    """
    if per_row < 1:
        raise FairmendError(f"sampling needs at least one neighbour per input; per_row={per_row} is too small")
    inputs = _encode(net, spec, X)
    return _unequal_inputs(RandomScan(net, spec, per_row, seed).scan(inputs, seed), exact=False)


def can_enumerate(spec: Spec) -> bool:
    """Return whether every neighbourhood of the spec is finite and small enough to enumerate."""
    if not spec.finite:
        return False
    return math.prod(spec.most_values(feature) for feature in spec.varying) <= MOST_POINTS


def _spread(spec: Spec, extremes: Extremes) -> ScoreSpread:
    lowest, highest = extremes.lowest[None], extremes.highest[None]
    return spread_of_extremes(lowest, highest, regression=spec.regression, exact=True)


def _unequal_inputs(found: WorstNeighbours, *, exact: bool) -> UnequalInputs:
    nothing = found.other.dtype.type(np.nan)
    return UnequalInputs(found.unequal, exact, np.where(found.unequal[:, None], found.other, nothing))


def _encode(net: Model, spec: Spec, X: pd.DataFrame | npt.ArrayLike) -> FloatArray:
    require_fit(net, spec)
    return spec.as_inputs(X, net.dtype)


def stream_random_neighbours(
    spec: Spec, X: FloatArray, per_row: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, FloatArray]]:
    """Yield rows (k,) of X and a neighbour of each (k, width), all neighbours of an input in one batch.

    Each input gets `per_row` random neighbours, and every corner of its neighbourhood if there are at most 64.
    """
    pieces = spec.most_pieces
    step = max(1, min(_RANDOM_BATCH, _NUMBERS // spec.width) // (per_row + _MAX_CORNERS))
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        products = spec.products(chunk)
        rows = np.repeat(np.arange(len(chunk), dtype=np.int64), per_row)
        if not products.single or any(each.feature.groups for each in products.values):
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


def draw_with_value(spec: Spec, X: FloatArray, feature: Feature, value: float, rng: np.random.Generator) -> FloatArray:
    """Return a neighbour of each of X (inputs, width) that differs only in one protected feature and what is linked.

    The feature has this value, or code; linked values are random ones of those that the links allow. Who has the value
    already is not changed.
    """
    points = X.copy()
    for start in range(0, len(X), _AT_ONCE):
        own, products = spec.products(X[start : start + _AT_ONCE]).with_value(feature.name, value)
        others = np.flatnonzero(own != value)
        chosen = _draw_products(products, others, rng)
        categories = [rng.integers(each.counts[chosen]) for each in products.values if each.feature.one_hot]
        points[start + others] = _draw(X[start + others], products.values, chosen, categories, rng)
    return points


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
