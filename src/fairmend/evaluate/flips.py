"""For people who are treated unequally: a similar person with another answer who differs in as little as possible."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Bools, FloatArray, Ints
from fairmend.evaluate.document import Flips
from fairmend.evaluate.score_ranges import scores
from fairmend.network import Network
from fairmend.spec import Spec

MOST_POINTS = 4_000_000
MOST_ROWS = 20_000
FEWEST_ROWS = 200


@dataclass(frozen=True, eq=False)
class Twins:
    """Inputs (k, width) and for each a neighbour `other` (k, width) with another answer.

    Attributes
    ----------
    rows : (k,), which of the inputs they are
    differs : bool (k, varying features), in what the two differ; `features` names them
    alone : bool (k, varying features), which feature is enough by itself
    gap : (k,), how far the two scores are apart
    exact : whether every neighbour was looked at
    """

    rows: Ints
    X: FloatArray
    other: FloatArray
    features: tuple[str, ...]
    differs: Bools
    alone: Bools
    gap: npt.NDArray[np.float64]
    exact: bool

    def flips(self) -> Flips:
        """Count which features are enough by themselves."""
        counts = dict(zip(self.features, self.alone.sum(axis=0).tolist(), strict=True))
        together = int((~self.alone.any(axis=1)).sum())
        ordered = dict(sorted(Counter(counts).items(), key=lambda item: -item[1]))
        return Flips(len(self.rows), self.exact, ordered, together)

    def take(self, chosen: Ints) -> Twins:
        """Return some of them, in the order given."""
        return Twins(
            self.rows[chosen],
            self.X[chosen],
            self.other[chosen],
            self.features,
            self.differs[chosen],
            self.alone[chosen],
            self.gap[chosen],
            self.exact,
        )


def find_twins(net: Network, spec: Spec, X: FloatArray, rows: Ints, found: FloatArray) -> Twins:
    """Look around rows (k,) of X, known to be unequal because of the neighbours `found` (k, width).

    Of very many rows, or of rows with very many neighbours, an even choice is looked at.
    """
    names = tuple(f.name for f in spec.features if f.varies)
    most = MOST_ROWS
    finite = spec.finite and len(rows) > 0
    if finite:
        most = min(most, int(MOST_POINTS // float(np.max(spec.neighbourhood_sizes(X[rows])))))
    everybody = finite and most >= min(len(rows), FEWEST_ROWS)
    chosen = evenly(len(rows), most if everybody else MOST_ROWS)
    look = _from_everybody if everybody else _from_found
    return look(net, spec, X, rows[chosen], found[chosen], names)


def evenly(count: int, most: int) -> Ints:
    """Return at most `most` of the numbers below `count`, evenly spread."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


def _from_everybody(
    net: Network, spec: Spec, X: FloatArray, rows: Ints, found: FloatArray, names: tuple[str, ...]
) -> Twins:
    """Of all neighbours with another answer: the fewest differences, and of those the largest gap."""
    own_class, mine = net.predict(X[rows]), X[rows]
    own = scores(net, mine, own_class) if len(rows) else np.zeros(0)
    other, alone = found.copy(), np.zeros((len(rows), len(names)), dtype=np.bool_)
    fewest, gap = np.full(len(rows), np.inf), np.zeros(len(rows))
    for owner, points in spec.points(mine, dtype=X.dtype) if len(rows) else ():
        hits = np.flatnonzero(net.predict(points) != own_class[owner])
        owner, points = owner[hits], points[hits]
        differs = _differences(spec, names, mine[owner], points)
        count = differs.sum(axis=1)
        keep = count > 0
        owner, points, differs, count = owner[keep], points[keep], differs[keep], count[keep]
        np.logical_or.at(alone, owner[count == 1], differs[count == 1])
        distance = np.abs(scores(net, points, own_class[owner]) - own[owner]) if len(owner) else np.zeros(0)
        order = np.lexsort((-distance, count, owner))
        who, first = np.unique(owner[order], return_index=True)
        best = order[first]
        better = (count[best] < fewest[who]) | ((count[best] == fewest[who]) & (distance[best] > gap[who]))
        who, best = who[better], best[better]
        fewest[who], gap[who], other[who] = count[best], distance[best], points[best]
    # Whose score is 0 up to its last bits may have lost the other answer in another batch.
    lost = np.flatnonzero(~np.isfinite(fewest))
    if len(lost):
        gap[lost] = np.abs(scores(net, other[lost], own_class[lost]) - own[lost])
    return Twins(rows, mine, other, names, _differences(spec, names, mine, other), alone, gap, True)


def _from_found(
    net: Network, spec: Spec, X: FloatArray, rows: Ints, found: FloatArray, names: tuple[str, ...]
) -> Twins:
    """Take back, one feature after the other, whatever is not needed for the other answer."""
    mine, other = X[rows], found.copy()
    own_class = net.predict(mine)
    alone = np.zeros((len(rows), len(names)), dtype=np.bool_)
    for k, name in enumerate(names):
        columns = spec.columns(name)
        only = mine.copy()
        only[:, columns] = found[:, columns]
        alone[:, k] = net.predict(only) != own_class
        back = other.copy()
        back[:, columns] = mine[:, columns]
        enough = net.predict(back) != own_class
        other[enough] = back[enough]
    gap = np.abs(scores(net, other, own_class) - scores(net, mine, own_class))
    return Twins(rows, mine, other, names, _differences(spec, names, mine, other), alone, gap, False)


def _differences(spec: Spec, names: tuple[str, ...], mine: FloatArray, other: FloatArray) -> Bools:
    columns = [spec.columns(name) for name in names]
    if not columns:
        return np.zeros((len(mine), 0), dtype=np.bool_)
    return np.stack([(mine[:, where] != other[:, where]).any(axis=1) for where in columns], axis=1)
