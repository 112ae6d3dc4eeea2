"""Looking for neighbours with another answer: at all of them where there are finitely many, else at random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray, Ints
from fairmend.audit.scores import Scores
from fairmend.audit.unequal import sample_unequal
from fairmend.network import Network, predicted_classes
from fairmend.spec import Spec

_BATCH = 65_536
# Larger neighbourhoods are sampled although they are finite: a second for each input, and more, is no audit.
MOST_POINTS = 10_000_000
# How often the neighbourhood of one input is sampled again for its worst pair.
_AGAIN = 32


@dataclass(frozen=True, eq=False)
class Found:
    """Who among some inputs is treated unequally, and how badly.

    Attributes
    ----------
    unequal : bool (inputs,)
    gap : (inputs,), the largest difference in score from a neighbour with another answer; 0 where there is none
    points : how many scores were computed
    """

    unequal: npt.NDArray[np.bool_]
    gap: npt.NDArray[np.float64]
    points: int


@dataclass(frozen=True, eq=False)
class Worst:
    """For each input the neighbour with another answer whose score differs most: (inputs, width); NaN for none."""

    other: FloatArray
    found: Found


def enumerable(spec: Spec) -> bool:
    """Whether every neighbourhood of the spec can be looked at whole."""
    if not spec.finite:
        return False
    sizes = [min(f.bounds[1] - f.bounds[0], 2 * f.reach) + 1 for f in spec.features if f.varies]
    return math.prod(int(size) for size in sizes) <= MOST_POINTS


def lead(logits: FloatArray, first: Ints, second: Ints) -> npt.NDArray[np.float64]:
    """Return by how much class `first` is ahead of `second` (rows,); of one logit, its size for class 1."""
    values = logits.astype(np.float64)
    if values.ndim == 1:
        return values * (first - second)
    rows = np.arange(len(values))
    return np.asarray(values[rows, first] - values[rows, second])


class Everywhere:
    """Looks at every neighbour of every input."""

    exact = True

    def __init__(self, net: Network, spec: Spec) -> None:
        self._net, self._spec = net, spec
        # The shortcut knows one score; of several outputs the plain way compares the classes.
        self._scores = Scores(net, spec) if net.outputs == 1 else None

    def look(self, X: FloatArray) -> Found:
        """Find who of X (inputs, width) is treated unequally."""
        if self._scores is None:
            return self.worst(X).found
        extremes, error = self._scores.extremes(X), np.full(len(X), self._scores.error(X))
        doubtful = np.flatnonzero(~_decided(extremes.lowest, extremes.highest, error))
        rest = doubtful[~extremes.left_out[doubtful]]
        if len(rest):
            error[rest] = self._scores.errors(X[rest])
            doubtful = np.flatnonzero(~_decided(extremes.lowest, extremes.highest, error))
        unequal = (extremes.lowest < 0) & (extremes.highest > 0)
        logits = self._net.logits(X)
        own = logits.astype(np.float64)
        gap = np.where(own >= 0, own - extremes.lowest, extremes.highest - own)
        points = len(X) + extremes.points
        if len(doubtful):
            stream = self._spec.points(X[doubtful], batch=_BATCH, dtype=X.dtype)
            again = _compare(self._net, X[doubtful], stream, logits[doubtful]).found
            unequal[doubtful], gap[doubtful] = again.unequal, again.gap
            points += again.points
        return Found(unequal, np.where(unequal, gap, 0.0), points)

    def worst(self, X: FloatArray) -> Worst:
        """Find the worst neighbour of each of X, with the network itself at every point."""
        return _compare(self._net, X, self._spec.points(X, batch=_BATCH, dtype=X.dtype))


class Around:
    """Looks at some neighbours of every input, which can only find: a lower bound."""

    exact = False

    def __init__(self, net: Network, spec: Spec, per_row: int, seed: int) -> None:
        self._net, self._spec, self._per_row = net, spec, per_row
        self._seeds = np.random.default_rng(seed)
        self._seed = seed

    def look(self, X: FloatArray) -> Found:
        """Find who of X (inputs, width) is treated unequally; each call draws anew."""
        seed = int(self._seeds.integers(2**32))
        unequal = sample_unequal(self._net, self._spec, X, self._per_row, seed)
        rows = np.flatnonzero(unequal.rows)
        stream = iter([(rows, unequal.other[rows])]) if len(rows) else iter(())
        found = _compare(self._net, X, stream).found
        return Found(found.unequal, found.gap, len(X) * (1 + self._per_row))

    def worst(self, X: FloatArray) -> Worst:
        """Find a bad neighbour of each of X, known to have one: the worst of many samples."""

        def stream() -> Iterator[tuple[Ints, FloatArray]]:
            for row, x in enumerate(X):
                copies = np.repeat(x[None], _AGAIN, axis=0)
                unequal = sample_unequal(self._net, self._spec, copies, self._per_row, self._seed)
                hits = unequal.other[unequal.rows]
                if len(hits):
                    yield np.full(len(hits), row, np.int64), hits

        return _compare(self._net, X, stream())


def _decided(lowest: FloatArray, highest: FloatArray, error: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether the answers within a neighbourhood are known, although its scores are known only up to the error."""
    above, below = lowest > error, highest < -error
    both = (lowest < -error) & (highest > error)
    return np.asarray(above | below | both)


def _compare(
    net: Network, X: FloatArray, stream: Iterator[tuple[Ints, FloatArray]], logits: FloatArray | None = None
) -> Worst:
    """Compare each input, of which the logits may be known, with its points; the answers are those of `net.predict`.

    BLAS rounds the same input differently in another batch. So where a score is 0 up to its last bits, the answer, and
    with it the verdict of every enumeration, depends on who is asked about together.
    """
    logits = net.logits(X) if logits is None else logits
    own = predicted_classes(logits)
    gap, other = np.zeros(len(X)), np.full_like(X, np.nan)
    unequal = np.zeros(len(X), dtype=np.bool_)
    points = len(X)
    for rows, batch in stream:
        theirs = net.logits(batch)
        points += len(batch)
        answers = predicted_classes(theirs)
        # The same input may get other last bits in another batch; that is rounding, not unequal treatment.
        hits = np.flatnonzero(answers != own[rows])
        hits = hits[(batch[hits] != X[rows[hits]]).any(axis=1)]
        who = rows[hits]
        size = lead(logits[who], own[who], answers[hits]) - lead(theirs[hits], own[who], answers[hits])
        order = np.lexsort((-size, who))
        who, first = np.unique(who[order], return_index=True)
        best = order[first]
        better = ~unequal[who] | (size[best] > gap[who])
        who, best = who[better], best[better]
        unequal[who], gap[who], other[who] = True, size[best], batch[hits[best]]
    return Worst(other, Found(unequal, gap, points))
