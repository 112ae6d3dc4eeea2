"""Rows that a model scored, which it scores again later: does it still give the same?"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats

_KEPT = 64  # rows: if the scores of 5 % of the people change, one of them is among these in 96 of 100 cases
_DUE = 4096  # rows after which the first ones are scored again: fewer would be a large share of the work


class ScoredRows:
    """The first rows that a model scored, and a random sample of all others, with what it gave for them."""

    def __init__(self, X: FloatArray, scores: Floats) -> None:
        """Take the first rows."""
        self._rng = np.random.default_rng(0)
        self._first = X, scores
        self._drawn, self._sample = np.zeros(0), (X[:0], scores[:0])  # a random number for each row of the sample
        self._rows, self._due = 0, _DUE

    def add(self, X: FloatArray, scores: Floats) -> bool:
        """Take a batch; return whether it is time to score again: each time when twice as many rows were scored."""
        drawn = np.concatenate([self._drawn, self._rng.random(len(X))])
        least = np.argsort(drawn)[:_KEPT]
        self._drawn = drawn[least]
        self._sample = (
            np.concatenate([self._sample[0], X])[least],
            np.concatenate([self._sample[1], scores])[least],
        )
        self._rows += len(X)
        is_due = self._rows >= self._due
        self._due = 2 * self._rows if is_due else self._due
        return is_due

    def shuffled(self) -> tuple[FloatArray, Floats]:
        """Return the rows in another order than before, and what the model gave for them."""
        X, scores = (np.concatenate(parts) for parts in zip(self._first, self._sample, strict=True))
        order = self._rng.permutation(len(X))
        return X[order], scores[order]
