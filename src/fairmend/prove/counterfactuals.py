"""The most different counterfactuals of each input over a stream of them: with another class, or the farthest scores.

Audits and engines give the points and what the model computed for them; what is kept does not depend on the batches.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints, first_of_each
from fairmend.network import Model
from fairmend.network.model import class_probability


class OtherClasses:
    """The counterfactual of each input X (inputs, width) with another class, the one whose probability differs most.

    gap : (inputs,), the difference in probability of the input's own class; -1 where there is none
    other : (inputs, width), the counterfactual; the input itself where there is none
    """

    def __init__(self, model: Model, X: FloatArray, logits: FloatArray, read: Ints | None = None) -> None:
        """Start with the inputs by their logits; with ``read``, points that are the same in these columns do not count.

        They may get other last bits in another batch: that is rounding, not unequal treatment.
        """
        self._model, self._X, self._read = model, X, read
        self._own = model.decide(logits)
        self._score = class_probability(logits, self._own)
        self.gap, self.other = np.full(len(X), -1.0), X.copy()

    def take(self, rows: Ints, points: FloatArray, logits: FloatArray) -> None:
        """Take in points (k, width) of the inputs `rows` (k,) by their logits (k, ...)."""
        hits = np.flatnonzero(self._model.decide(logits) != self._own[rows])
        if self._read is not None:
            differ = points[np.ix_(hits, self._read)] != self._X[np.ix_(rows[hits], self._read)]
            hits = hits[differ.any(axis=1)]
        rows = rows[hits]
        gap = np.abs(self._score[rows] - class_probability(logits[hits], self._own[rows]))
        who, best = first_of_each(rows, -gap)
        better = gap[best] > self.gap[who]
        who, best = who[better], best[better]
        self.gap[who], self.other[who] = gap[best], points[hits[best]]


class ScoreExtremes:
    """The lowest and highest scores found in each neighbourhood, and where: the best pairs so far.

    low, high : (inputs, outputs)
    at_low, at_high : (inputs, outputs, width), the points that have them
    """

    def __init__(self, X: FloatArray, scores: Floats) -> None:
        """Start with the inputs X (inputs, width) themselves, by their scores (inputs, outputs)."""
        self.low, self.high = scores.copy(), scores.copy()
        self.at_low = np.repeat(X[:, None], scores.shape[1], axis=1)
        self.at_high = self.at_low.copy()

    def take(self, rows: Ints, points: FloatArray, scores: Floats) -> None:
        """Take in points (k, width) of the inputs `rows` (k,) by their scores (k, outputs)."""
        if np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows, kind="stable")
            rows, points, scores = rows[order], points[order], scores[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        owner, counts = rows[starts], np.diff(starts, append=len(rows))
        for extreme, beyond, value, at in (
            (np.fmin, np.less, self.low, self.at_low),
            (np.fmax, np.greater, self.high, self.at_high),
        ):
            found = extreme.reduceat(scores, starts, axis=0)
            better = beyond(found, value[owner])
            for output in np.flatnonzero(better.any(axis=0)).tolist():
                chosen = np.repeat(better[:, output], counts)
                hits = np.flatnonzero(chosen & (scores[:, output] == np.repeat(found[:, output], counts)))
                who, first = np.unique(rows[hits], return_index=True)
                value[who, output], at[who, output] = scores[hits[first], output], points[hits[first]]
