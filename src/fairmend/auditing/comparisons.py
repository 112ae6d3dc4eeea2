"""Compare people with a stream of their neighbours: who is treated unequally, by how much, and how far scores spread.

The spec's claim says when two outputs differ: as predictions, or as scores that are more than delta apart. Either way
the spread of the scores comes with the verdict, from the outputs that the verdict needs anyway. With several outputs,
the difference of a neighbourhood is that of the output for which it is largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Model
from fairmend.network.model import class_probability, scores_of
from fairmend.prove.counterfactuals import OtherClasses, ScoreExtremes
from fairmend.prove.result import Witness
from fairmend.spec import Claim, Spec

Stream = Iterator[tuple[Ints, FloatArray]]


@dataclass(frozen=True, eq=False)
class ScoreSpread:
    """The spread of the scores in the neighbourhood of each input: probabilities, or outputs of a regression network.

    Attributes
    ----------
    difference : (inputs,), the highest score minus the lowest, of the output for which it is largest
    range : (inputs, 2), the lowest and the highest probability of the positive class; None for a regression network and
        for more than two classes
    exact : whether every neighbour was computed; otherwise the spread is at least this
    """

    difference: Floats
    range: Floats | None
    exact: bool

    def replace_rows(self, rows: Ints, other: ScoreSpread) -> None:
        """Set these rows (k,) to the k inputs of `other`, in place."""
        self.difference[rows] = other.difference
        if self.range is not None and other.range is not None:
            self.range[rows] = other.range


def spread_of_extremes(lowest: FloatArray, highest: FloatArray, *, regression: bool, exact: bool) -> ScoreSpread:
    """Return the spread from the lowest and the highest values (k, inputs) that `SpreadTracker` compares."""
    if not regression and len(lowest) == 1:
        with np.errstate(invalid="ignore"):  # inputs that were left out are NaN
            ends = np.concatenate([scores_of(side[0], "probability") for side in (lowest, highest)], axis=1)
        return ScoreSpread(ends[:, 1] - ends[:, 0], ends, exact)
    return ScoreSpread((highest.astype(np.float64) - lowest).max(axis=0), None, exact)


class SpreadTracker:
    """Follows the lowest and the highest score of each input over a stream of its neighbours.

    Of one or two outputs of a classifier it compares the logit of the positive class, which grows with its probability.
    """

    def __init__(self, logits: FloatArray, *, regression: bool, constant: bool = False) -> None:
        """Start with the inputs themselves, by their logits (inputs,) or (inputs, outputs).

        If scores are `constant` in each neighbourhood, differences are rounding errors and do not count.
        """
        self._regression, self._constant = regression, constant
        self._lowest = self._values(logits).copy()
        self._highest = self._lowest.copy()

    def update(self, rows: Ints, logits: FloatArray) -> None:
        """Take in neighbours of the inputs `rows` (k,) by their logits (k,) or (k, outputs)."""
        if self._constant:
            return
        values = self._values(logits)
        if np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows, kind="stable")
            rows, values = rows[order], values[:, order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        owner = rows[starts]
        self._lowest[:, owner] = np.minimum(self._lowest[:, owner], np.minimum.reduceat(values, starts, axis=1))
        self._highest[:, owner] = np.maximum(self._highest[:, owner], np.maximum.reduceat(values, starts, axis=1))

    def spread(self, *, exact: bool) -> ScoreSpread:
        """Return the spread so far; `exact` says whether it is that of all neighbours, as with constant scores."""
        known = exact or self._constant
        return spread_of_extremes(self._lowest, self._highest, regression=self._regression, exact=known)

    def _values(self, logits: FloatArray) -> FloatArray:
        """Return what is compared (k, rows): rows last, and in the network's own precision, which is faster."""
        if logits.ndim == 1:
            return logits[None]
        if self._regression:
            return logits.T
        if logits.shape[1] == 2:
            return (logits[:, 1] - logits[:, 0])[None]
        shares = np.array(logits.T, order="C")
        shares -= shares.max(axis=0)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=0)
        return shares


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


class ClassComparison:
    """Two people are treated unequally if they get different predictions."""

    def __init__(self, net: Model, claim: Claim) -> None:
        self._net = net
        self.rounding = 4 * float(np.finfo(np.float64).eps) * abs(net.offset)  # that of `Network.centre`

    def verdicts(
        self, lowest: FloatArray, highest: FloatArray, error: Floats, logits: FloatArray, spread: ScoreSpread
    ) -> tuple[Bools, Floats, Bools]:
        """Return who is treated unequally, the gaps, and where the extremes decide, all (inputs,).

        `lowest` and `highest` are the extremes of one output in each neighbourhood, off by up to `error`, and `logits`
        those of the inputs themselves.
        """
        lowest, highest = self._net.centre(lowest), self._net.centre(highest)
        unequal = np.asarray((lowest < 0) & (highest > 0))
        # The probability moves to the end of its range on the side of the other prediction.
        assert spread.range is not None
        own, (least, most) = class_probability(logits, np.ones(len(logits), np.int64)), spread.range.T
        gap = np.where(unequal, np.where(self._net.decide(logits) == 1, own - least, most - own), 0.0)
        decided = (lowest > error) | (highest < -error) | ((lowest < -error) & (highest > error))
        return unequal, gap, np.asarray(decided)

    def gaps(self, pairs: Sequence[Witness]) -> Floats:
        """Return the difference in probability (pairs,) of the first person's class."""
        first, other = (np.stack(side) for side in zip(*((pair.x, pair.other) for pair in pairs), strict=True))
        own = self._net.predict(first)
        mine, theirs = (class_probability(self._net.logits(side), own) for side in (first, other))
        return np.asarray(np.abs(mine - theirs))

    def find_pairs(
        self, X: FloatArray, logits: FloatArray, stream: Stream, tracker: SpreadTracker
    ) -> tuple[Bools, Floats, FloatArray, FloatArray, int]:
        """Return who has a neighbour with another prediction, the gap to it, both people, and the number of scores.

        Predictions are those of `net.predict`. `logits` are those of X. `tracker` takes in the scores of all
        neighbours.

        BLAS rounds the same input differently in another batch. So if a score is 0 up to its last bits, the prediction,
        and with it the verdict of any enumeration, depends on the batch.
        """
        seen = OtherClasses(self._net, X, logits, np.flatnonzero(self._net.read_columns))
        count = len(X)
        for rows, points in stream:
            theirs = self._net.logits(points)
            count += len(points)
            tracker.update(rows, theirs)
            seen.take(rows, points, theirs)
        unequal = np.asarray(seen.gap >= 0)
        other = np.where(unequal[:, None], seen.other, X.dtype.type(np.nan))
        return unequal, np.where(unequal, seen.gap, 0.0), X, other, count


class ScoreComparison:
    """People are treated unequally if two scores in their neighbourhood differ by more than delta."""

    rounding = 0.0

    def __init__(self, net: Model, claim: Claim) -> None:
        self._net, self._claim = net, claim

    def verdicts(
        self, lowest: FloatArray, highest: FloatArray, error: Floats, logits: FloatArray, spread: ScoreSpread
    ) -> tuple[Bools, Floats, Bools]:
        """Return who is treated unequally, the gaps, and where the extremes decide, all (inputs,)."""
        least, most, decided = enclose_differences(self._claim, lowest, highest, error)
        gap = (least + most) / 2
        return np.asarray(gap > self._claim.limit), gap, decided

    def gaps(self, pairs: Sequence[Witness]) -> Floats:
        """Return the difference of the scores (pairs,)."""
        return np.array([pair.scores[1] - pair.scores[0] for pair in pairs if pair.scores])

    def find_pairs(
        self, X: FloatArray, logits: FloatArray, stream: Stream, tracker: SpreadTracker
    ) -> tuple[Bools, Floats, FloatArray, FloatArray, int]:
        """Return whose scores differ too much, by how much they differ at most and for whom, and their number."""
        pairs = find_widest_pairs(self._net, self._claim.on, X, stream, tracker, logits)
        unequal = np.asarray(pairs.difference > self._claim.limit)
        return unequal, pairs.difference, pairs.first, pairs.other, pairs.points


def comparison_of(net: Model, claim: Claim) -> ClassComparison | ScoreComparison:
    """Return how the outputs of a network are compared for a claim."""
    kinds: dict[str, type[ClassComparison | ScoreComparison]] = {"class": ClassComparison, "score": ScoreComparison}
    return claim.choose(kinds, "an audit")(net, claim)


def find_worst_pairs(
    net: Model, spec: Spec, X: FloatArray, stream: Stream, *, exact: bool, logits: FloatArray | None = None
) -> WorstNeighbours:
    """Return the worst pair for each of X (inputs, width) among its streamed neighbours; `exact` if those are all.

    `stream` yields rows (k,) of X and a neighbour of each (k, width). `logits` are those of X, if they are known.
    """
    logits = net.logits(X) if logits is None else logits
    tracker = SpreadTracker(logits, regression=spec.regression, constant=not reads_what_varies(net, spec))
    unequal, gap, first, other, points = comparison_of(net, spec.claim).find_pairs(X, logits, stream, tracker)
    return WorstNeighbours(unequal, gap, points, logits, tracker.spread(exact=exact), first, other)


@dataclass(frozen=True, eq=False)
class WidestPairs:
    """The two people of each neighbourhood whose scores differ most.

    Attributes
    ----------
    difference : (inputs,), the difference of their scores
    first, other : (inputs, width), the person with the lower and the person with the higher score
    output : (inputs,), the output that differs
    points : number of scores computed
    """

    difference: Floats
    first: FloatArray
    other: FloatArray
    output: Ints
    points: int


def find_widest_pairs(
    net: Model,
    on: str | None,
    X: FloatArray,
    stream: Stream,
    tracker: SpreadTracker | None = None,
    logits: FloatArray | None = None,
) -> WidestPairs:
    """Return the pair with the largest difference among each of X (inputs, width) and its streamed neighbours.

    `on` names the score. `stream` yields rows (k,) of X and a neighbour of each (k, width). `tracker` takes in the
    scores of all neighbours, and `logits` are those of X, if they are known.
    """
    seen = ScoreExtremes(X, scores_of(net.logits(X) if logits is None else logits, on))
    count = len(X)
    for rows, points in stream:
        logits = net.logits(points)
        if tracker is not None:
            tracker.update(rows, logits)
        seen.take(rows, points, scores_of(logits, on))
        count += len(points)
    wide = seen.high - seen.low
    each, widest = np.arange(len(X)), widest_output(wide, on)
    first, other, read = seen.at_low[each, widest], seen.at_high[each, widest], np.flatnonzero(net.read_columns)
    # What the network reads may be the same, and get other last bits in another batch: that is no difference.
    differ = (first[:, read] != other[:, read]).any(axis=1)
    return WidestPairs(np.where(differ, wide[each, widest], 0.0), first, other, widest, count)


def widest_output(differences: Floats, on: str | None) -> Ints:
    """Return the output (rows,) with the largest of the differences (rows, outputs) of a score.

    Two probabilities differ by the same amount, up to rounding: of those it is that of class 1.
    """
    if on == "probability" and differences.shape[1] == 2:
        return np.ones(len(differences), dtype=np.int64)
    return np.asarray(differences.argmax(axis=1), dtype=np.int64)


def enclose_differences(
    claim: Claim, lowest: FloatArray, highest: FloatArray, error: Floats
) -> tuple[Floats, Floats, Bools]:
    """Return the least and the largest difference (inputs,) of the scores of one output, and where they decide.

    `lowest` and `highest` (inputs,) are its extremes in each neighbourhood, and off by up to `error` (inputs,).
    """
    low, high = lowest.astype(np.float64), highest.astype(np.float64)

    def difference(most: Floats, least: Floats) -> Floats:
        scores = (scores_of(np.where(np.isnan(side), 0.0, side), claim.on)[:, 0] for side in (most, least))
        return np.asarray(np.subtract(*scores))

    with np.errstate(invalid="ignore"):
        least, most = difference(high - error, low + error), difference(high + error, low - error)
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(error)
    return np.maximum(least, 0.0), most, known & ((most <= claim.limit) | (least > claim.limit))


def reads_what_varies(net: Model, spec: Spec) -> bool:
    """Return whether the network reads a feature in which similar people differ; otherwise all their scores are equal.

    Computed scores may then still differ in their last bits, because another batch rounds differently.
    """
    used = net.read_columns
    return any(bool(used[spec.columns(feature.name)].any()) for feature in spec.varying)
