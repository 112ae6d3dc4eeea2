"""How far the scores of similar people differ: the largest score minus the smallest in each neighbourhood.

With several outputs, the difference of a neighbourhood is that of the output for which it is largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmend.auditing.score_spread import SpreadTracker
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.network.scores import compute_scores, scores_of
from fairmend.spec import Claim


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
    net: Network,
    on: str | None,
    X: FloatArray,
    stream: Iterator[tuple[Ints, FloatArray]],
    tracker: SpreadTracker | None = None,
) -> WidestPairs:
    """Return the pair with the largest difference among each of X (inputs, width) and its streamed neighbours.

    `on` names the score. `stream` yields rows (k,) of X and a neighbour of each (k, width). `tracker` takes in the
    scores of all neighbours.
    """
    own = compute_scores(net, X, on)
    low, high = _Lowest(own, X), _Lowest(-own, X)
    count = len(X)
    for rows, points in stream:
        if np.any(np.diff(rows) < 0):
            order = np.argsort(rows, kind="stable")
            rows, points = rows[order], points[order]
        logits = net.logits(points)
        if tracker is not None:
            tracker.update(rows, logits)
        found = scores_of(logits, on)
        low.update(rows, points, found)
        high.update(rows, points, -found)
        count += len(points)
    wide = -high.value - low.value
    each, widest = np.arange(len(X)), widest_output(wide, on)
    first, other, read = low.at[each, widest], high.at[each, widest], np.flatnonzero(net.read_columns)
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


class _Lowest:
    """The lowest values seen so far: value (inputs, outputs), at the points (inputs, outputs, width)."""

    def __init__(self, own: Floats, X: FloatArray) -> None:
        self.value = own.copy()
        self.at = np.repeat(X[:, None], own.shape[1], axis=1)

    def update(self, rows: Ints, points: FloatArray, values: Floats) -> None:
        """Take in points (k, width) with values (k, outputs) of the inputs `rows` (k,), which are sorted."""
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        owner, counts = rows[starts], np.diff(starts, append=len(rows))
        least = np.minimum.reduceat(values, starts, axis=0)
        better = least < self.value[owner]
        for output in np.flatnonzero(better.any(axis=0)).tolist():
            chosen = np.repeat(better[:, output], counts) & (values[:, output] == np.repeat(least[:, output], counts))
            hits = np.flatnonzero(chosen)
            who, first = np.unique(rows[hits], return_index=True)
            self.value[who, output], self.at[who, output] = values[hits[first], output], points[hits[first]]


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
