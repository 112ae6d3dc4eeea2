"""Compare inputs with their neighbours: which inputs have a neighbour with another prediction?

If the spec claims scores instead, an input is treated unequally if the scores of any two people in its neighbourhood
differ by more than delta (`score_differences`).

This is the one place that does it. `ExhaustiveScan` compares an input with every neighbour, which is exact and needs
finite neighbourhoods; `RandomScan` compares it with random neighbours and gives a lower bound. `find_unequal` and
`sample_unequal` do the same for one array of inputs, and keep a neighbour for each unequal input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.auditing.fast_scores import Extremes, FastScores
from fairmend.auditing.random_neighbours import stream_random_neighbours
from fairmend.auditing.score_differences import WidestPairs, enclose_differences, find_widest_pairs
from fairmend.auditing.score_spread import ScoreSpread, SpreadTracker, spread_of_extremes
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import percent
from fairmend.network import Network
from fairmend.network.scores import class_probability
from fairmend.prove.fit import require_fit
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import stream_points

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.auditing.device_search import DeviceSearch


MOST_POINTS = 10_000_000
"""Larger neighbourhoods are sampled even if they are finite: enumerating one takes a second or more."""

_BATCH = 65_536
# How often `RandomScan.worst` samples the neighbourhood of each input.
_REPEATS = 32

_Stream = Iterator[tuple[Ints, FloatArray]]


@dataclass(frozen=True, eq=False)
class ScanResult:
    """Which of some inputs are treated unequally, and by how much.

    Attributes
    ----------
    unequal : bool (inputs,)
    gap : (inputs,), the largest difference in probability to a neighbour with another prediction; 0 if there is none:
        of class 1 of two, or of the input's own class of more. For a claim about scores, the largest difference of
        scores within the neighbourhood
    points : number of scores computed
    logits : (inputs,) or (inputs, outputs), those of the inputs themselves
    spread : how far the scores of each neighbourhood spread, whatever the claim is about
    unknown : bool (inputs,), which of them may be treated unequally although nothing shows it; None if there are none
    """

    unequal: Bools
    gap: Floats
    points: int
    logits: FloatArray
    spread: ScoreSpread
    unknown: Bools | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class WorstNeighbours(ScanResult):
    """For each input also the pair with the largest gap: `first` and `other` (inputs, width).

    `first` is the input itself, and `other` is NaN if it has no neighbour with another prediction. For a claim about
    scores, they are the two people of the neighbourhood whose scores differ most, the lower score first.
    """

    first: FloatArray
    other: FloatArray


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
        how = "exact" if self.exact else "sampled: a lower bound"
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

    def __init__(self, net: Network, spec: Spec, device: DeviceSearch | None = None) -> None:
        """Prepare the scan; a device finds the same scores, where `FastScores` knows the network."""
        self._net, self._spec = net, spec
        self._varying = [(feature, spec.columns(feature.name)) for feature in spec.varying]
        # For what FastScores does not know, every point goes through the network.
        self._scores = FastScores(net, spec, device) if FastScores.knows(net) else None
        self._constant = not reads_what_varies(net, spec)
        self._rounding = 4 * float(np.finfo(np.float64).eps) * abs(net.offset)  # of `Network.centre`

    def scan(self, X: FloatArray) -> ScanResult:
        """Return which of X (inputs, width) are treated unequally."""
        if self._scores is None:
            return self.worst(X)
        if self._spec.claim.is_score:
            return self._scan_scores(X, self._scores)
        logits = self._net.logits(X)
        extremes = self._extremes(X, logits, self._scores)
        more = extremes.regrouping + self._rounding
        error = extremes.error + more
        lowest, highest = self._net.centre(extremes.lowest), self._net.centre(extremes.highest)
        undecided = np.flatnonzero(~_is_decided(lowest, highest, error))
        rest = undecided[~extremes.left_out[undecided]]
        if len(rest):
            error[rest] = self._scores.errors(X[rest]) + more[rest]
            undecided = np.flatnonzero(~_is_decided(lowest, highest, error))
        unequal = (lowest < 0) & (highest > 0)
        spread = _spread(self._spec, extremes)
        gap = _gap_to_other_prediction(self._net, logits, spread)
        points = len(X) + extremes.points
        if len(undecided):
            stream, own = self._stream(X[undecided]), logits[undecided]
            again = _compare(self._net, self._spec, X[undecided], stream, logits=own, exact=True)
            unequal[undecided], gap[undecided] = again.unequal, again.gap
            spread.replace_rows(undecided, again.spread)
            points += again.points
        return ScanResult(unequal, np.where(unequal, gap, 0.0), points, logits, spread)

    def _scan_scores(self, X: FloatArray, fast: FastScores) -> ScanResult:
        """Return in which neighbourhoods scores differ by more than delta; the network decides the close ones."""
        claim, logits = self._spec.claim, self._net.logits(X)
        extremes = self._extremes(X, logits, fast)
        error = extremes.error + extremes.regrouping
        least, most, decided = enclose_differences(claim, extremes.lowest, extremes.highest, error)
        rest = np.flatnonzero(~decided & ~extremes.left_out)
        if len(rest):
            error[rest] = fast.errors(X[rest]) + extremes.regrouping[rest]
            least, most, decided = enclose_differences(claim, extremes.lowest, extremes.highest, error)
        gap, points = (least + most) / 2, len(X) + extremes.points
        spread = _spread(self._spec, extremes)
        undecided = np.flatnonzero(~decided)
        if len(undecided):
            again = self.worst(X[undecided])
            gap[undecided] = again.gap
            spread.replace_rows(undecided, again.spread)
            points += again.points
        return ScanResult(np.asarray(gap > claim.limit), gap, points, logits, spread)

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
        return _worst(self._net, self._spec, X, self._stream(X), exact=True)

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two neighbours of each of X (inputs, width) whose scores differ most; `on` names the score."""
        return find_widest_pairs(self._net, on, X, self._stream(X))

    def _stream(self, X: FloatArray) -> _Stream:
        """Yield all points; unlike `Spec.points`, this does not check again that the inputs are valid."""
        return stream_points(self._varying, X, _BATCH, self._spec.links)


class RandomScan:
    """Compares every input with `per_row` random neighbours: what it finds is real, what it misses is unknown."""

    exact = False

    def __init__(self, net: Network, spec: Spec, per_row: int, seed: int) -> None:
        self._net, self._spec, self._per_row, self._seed = net, spec, per_row, seed
        self._seeds = np.random.default_rng(seed)
        self._constant = not reads_what_varies(net, spec)

    def scan(self, X: FloatArray, seed: int | None = None) -> WorstNeighbours:
        """Return which of X (inputs, width) are treated unequally; without a seed, each call draws new neighbours."""
        stream = self._stream(X, int(self._seeds.integers(2**32)) if seed is None else seed)
        found = _worst(self._net, self._spec, X, stream, exact=False)
        # If the network ignores all in which neighbours differ, nothing is unknown of those that were not drawn.
        return found if self._constant else replace(found, unknown=~found.unequal)

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst of many random neighbours of each of X (inputs, width)."""
        return _worst(self._net, self._spec, X, self._many(X), exact=False)

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two of many random neighbours of each of X whose scores differ most; `on` names the score."""
        return find_widest_pairs(self._net, on, X, self._many(X))

    def _many(self, X: FloatArray) -> _Stream:
        for row, x in enumerate(X):
            for _, points in self._stream(np.repeat(x[None], _REPEATS, axis=0), self._seed):
                yield np.full(len(points), row, np.int64), points

    def _stream(self, X: FloatArray, seed: int) -> _Stream:
        return stream_random_neighbours(self._spec, X, self._per_row, np.random.default_rng(seed))


def find_unequal(
    net: Network,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    *,
    batch: int = _BATCH,
    progress: Progress | None = None,
) -> UnequalInputs:
    """Compare every input with every neighbour, `batch` points at a time: exact, for finite neighbourhoods.

    Every point goes through the network, so this is also the reference that `ExhaustiveScan` is tested against.
    """
    inputs = _encode(net, spec, X)
    if not spec.finite:
        names = ", ".join(f.name for f in spec.varying if f.kind == "continuous")
        raise FairmendError(
            f"neighbours differ in {names}, which is continuous, so they cannot all be enumerated; "
            "use sample_unequal, which gives a lower bound"
        )
    stream = _report_progress(spec.points(inputs, batch=batch, dtype=inputs.dtype), len(inputs), "enumerate", progress)
    return _unequal_inputs(net, spec, inputs, stream, exact=True)


def sample_unequal(
    net: Network,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    per_row: int = 64,
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> UnequalInputs:
    """Compare every input with `per_row` random neighbours, and with the corners if there are few.

    An input without a finding may still have a neighbour with another prediction, so `rate` is a lower bound.
    """
    if per_row < 1:
        raise FairmendError(f"sampling needs at least one neighbour per input; per_row={per_row} is too small")
    inputs = _encode(net, spec, X)
    stream = stream_random_neighbours(spec, inputs, per_row, np.random.default_rng(seed))
    stream = _report_progress(stream, len(inputs), "sample", progress)
    return _unequal_inputs(net, spec, inputs, stream, exact=False)


def can_enumerate(spec: Spec) -> bool:
    """Return whether every neighbourhood of the spec is finite and small enough to enumerate."""
    if not spec.finite:
        return False
    return math.prod(spec.most_values(feature) for feature in spec.varying) <= MOST_POINTS


def reads_what_varies(net: Network, spec: Spec) -> bool:
    """Return whether the network reads a feature in which similar people differ; otherwise all their scores are equal.

    Computed scores may then still differ in their last bits, because another batch rounds differently.
    """
    used = net.read_columns
    return any(bool(used[spec.columns(feature.name)].any()) for feature in spec.varying)


def _worst(net: Network, spec: Spec, X: FloatArray, stream: _Stream, *, exact: bool) -> WorstNeighbours:
    """Return the worst pair for each of X (inputs, width) among its streamed neighbours; `exact` if those are all."""
    if not spec.claim.is_score:
        return _compare(net, spec, X, stream, exact=exact)
    logits = net.logits(X)
    tracker = _tracker(net, spec, logits)
    found = find_widest_pairs(net, spec.claim.on, X, stream, tracker)
    unequal, spread = np.asarray(found.difference > spec.claim.limit), tracker.spread(exact=exact)
    return WorstNeighbours(unequal, found.difference, found.points, logits, spread, found.first, found.other)


def _tracker(net: Network, spec: Spec, logits: FloatArray) -> SpreadTracker:
    return SpreadTracker(logits, regression=spec.regression, constant=not reads_what_varies(net, spec))


def _spread(spec: Spec, extremes: Extremes) -> ScoreSpread:
    lowest, highest = extremes.lowest[None], extremes.highest[None]
    return spread_of_extremes(lowest, highest, regression=spec.regression, exact=True)


def _gap_to_other_prediction(net: Network, logits: FloatArray, spread: ScoreSpread) -> Floats:
    """Return how far the probability moves (inputs,) to the end of its range on the side of the other prediction."""
    assert spread.range is not None
    own, (lowest, highest) = class_probability(logits, np.ones(len(logits), np.int64)), spread.range.T
    return np.asarray(np.where(net.decide(logits) == 1, own - lowest, highest - own))


def _unequal_inputs(net: Network, spec: Spec, X: FloatArray, stream: _Stream, *, exact: bool) -> UnequalInputs:
    found = _worst(net, spec, X, stream, exact=exact)
    return UnequalInputs(found.unequal, exact, np.where(found.unequal[:, None], found.other, X.dtype.type(np.nan)))


def _compare(
    net: Network, spec: Spec, X: FloatArray, stream: _Stream, *, logits: FloatArray | None = None, exact: bool
) -> WorstNeighbours:
    """Return the worst neighbour with another prediction of each of X (inputs, width); `logits` are those of X."""
    logits = net.logits(X) if logits is None else logits
    tracker = _tracker(net, spec, logits)
    found = _find_other_predictions(net, X, logits, stream, tracker)
    spread = tracker.spread(exact=exact)
    return WorstNeighbours(found.unequal, found.gap, found.points, logits, spread, X, found.other)


@dataclass(frozen=True, eq=False)
class _OtherPredictions:
    """For each input: whether a neighbour has another prediction, the gap to it, and that neighbour."""

    unequal: Bools
    gap: Floats
    other: FloatArray
    points: int


def _find_other_predictions(
    net: Network,
    X: FloatArray,
    logits: FloatArray,
    stream: _Stream,
    tracker: SpreadTracker,
) -> _OtherPredictions:
    """Compare each of X (inputs, width) with its streamed neighbours; predictions are those of `net.predict`.

    `stream` yields rows (k,) of X and a neighbour of each (k, width). `logits` are those of X. `tracker` takes in the
    scores of all neighbours.

    BLAS rounds the same input differently in another batch. So if a score is 0 up to its last bits, the prediction,
    and with it the verdict of any enumeration, depends on the batch.
    """
    own, read = net.decide(logits), np.flatnonzero(net.read_columns)
    gap, other = np.zeros(len(X)), np.full_like(X, np.nan)
    unequal = np.zeros(len(X), dtype=np.bool_)
    count = len(X)
    for rows, points in stream:
        theirs = net.logits(points)
        count += len(points)
        tracker.update(rows, theirs)
        classes = net.decide(theirs)
        hits = np.flatnonzero(classes != own[rows])
        # What the network reads may be the same, and get other last bits in another batch: that is rounding, not
        # unequal treatment.
        hits = hits[(points[np.ix_(hits, read)] != X[np.ix_(rows[hits], read)]).any(axis=1)]
        owner = rows[hits]
        mine, other_score = (class_probability(side, own[owner]) for side in (logits[owner], theirs[hits]))
        size = np.abs(mine - other_score)
        order = np.lexsort((-size, owner))
        owner, first = np.unique(owner[order], return_index=True)
        best = order[first]
        better = ~unequal[owner] | (size[best] > gap[owner])
        owner, best = owner[better], best[better]
        unequal[owner], gap[owner], other[owner] = True, size[best], points[hits[best]]
    return _OtherPredictions(unequal, gap, other, count)


def _is_decided(lowest: FloatArray, highest: FloatArray, error: Floats) -> Bools:
    """Return whether scores that are off by at most `error` settle the predictions of each neighbourhood (inputs,)."""
    above, below = lowest > error, highest < -error
    both = (lowest < -error) & (highest > error)
    return np.asarray(above | below | both)


def _encode(net: Network, spec: Spec, X: pd.DataFrame | npt.ArrayLike) -> FloatArray:
    require_fit(net, spec)
    return spec.as_inputs(X, net.dtype)


def _report_progress(stream: _Stream, inputs: int, stage: str, progress: Progress | None) -> _Stream:
    """Yield the stream, and report after each batch how many inputs are done."""
    for rows, points in stream:
        yield rows, points
        if progress is not None:
            progress(stage, int(rows[-1]) + 1, inputs)
