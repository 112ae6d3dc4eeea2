"""How far the scores of a neighbourhood spread: the range of the probability, or of a regression network's output.

Every scan of an audit computes it beside its verdict, from the outputs that the verdict needs anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.network.scores import scores_of


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
