"""For people who are treated unequally: a counterfactual with another prediction that differs as little as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairmend.auditing.result import AuditResult
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.evaluate.document import DecisiveFeatures
from fairmend.network import Model, Network
from fairmend.network.model import ScoredRows, class_probability
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import stream_points

MOST_POINTS = 4_000_000
"""Neighbours that are enumerated: a few seconds of work."""

_BATCH = 65_536
_MOST_ROWS = 20_000
_MOST_RUN = 500_000  # neighbours, of a model that is only run
_FEWEST_ROWS = 200  # if fewer can be enumerated, reducing the known counterfactuals of all rows says more


@dataclass(frozen=True, eq=False)
class NearestCounterfactuals:
    """Inputs X (k, width), and for each a neighbour `other` (k, width) with another prediction.

    Attributes
    ----------
    rows : (k,), their rows among all inputs
    features : the names of the features that may vary
    differs : bool (k, features), in which features the two differ
    alone : bool (k, features), which features change the prediction by themselves
    gap : (k,), the difference of the two scores
    exact : whether every neighbour was compared
    """

    rows: Ints
    X: FloatArray
    other: FloatArray
    features: tuple[str, ...]
    differs: Bools
    alone: Bools
    gap: Floats
    exact: bool

    def decisive_features(self) -> DecisiveFeatures:
        """Count how often each feature changes the prediction by itself, the most frequent first."""
        counts = dict(zip(self.features, self.alone.sum(axis=0).tolist(), strict=True))
        together = int((~self.alone.any(axis=1)).sum())
        ordered = dict(sorted(counts.items(), key=lambda item: -item[1]))
        return DecisiveFeatures(len(self.rows), self.exact, ordered, together)

    def take(self, chosen: Ints) -> NearestCounterfactuals:
        """Return some of them, in the given order."""
        arrays = ("rows", "X", "other", "differs", "alone", "gap")
        return replace(self, **{name: getattr(self, name)[chosen] for name in arrays})


def nearest_in_audit(net: Model, spec: Spec, result: AuditResult) -> NearestCounterfactuals:
    """Find the nearest counterfactuals of the examined inputs that an audit found to be treated unequally."""
    examined = result.examined
    unequal = np.flatnonzero(examined.unequal).astype(np.int64)
    known = None if examined.other is None else examined.other[unequal]
    nearest = find_nearest_counterfactuals(result.scored_sample(net), spec, unequal, known)
    return replace(nearest, rows=examined.rows[nearest.rows])


def find_nearest_counterfactuals(
    people: ScoredRows, spec: Spec, rows: Ints, known: FloatArray | None = None, *, seed: int = 0
) -> NearestCounterfactuals:
    """Find the nearest counterfactuals of some of the people, the rows (k,), which are treated unequally.

    `known` (k, width) holds a neighbour with another prediction for each; it may be None if the neighbourhoods are
    finite. If there is too much to enumerate, a random sample of the rows is taken, or the known neighbours are reduced
    to what they need to differ in.
    """
    most, enumerate_all, X = _MOST_ROWS, False, people.X
    if spec.finite and len(rows):
        most_points = MOST_POINTS if isinstance(people.net, Network) else _MOST_RUN
        affordable = most_points // int(np.max(spec.neighbourhood_sizes(X[rows], X.dtype)))
        enumerate_all = known is None or affordable >= min(len(rows), _FEWEST_ROWS)
        most = min(most, max(1, affordable)) if enumerate_all else most
    chosen = pick_at_random(len(rows), most, seed)
    some = people.take(rows[chosen])
    if enumerate_all or known is None:
        return _enumerate(some, spec, rows[chosen], None if known is None else known[chosen])
    return _reduce(some, spec, rows[chosen], known[chosen])


def pick_evenly(count: int, most: int) -> Ints:
    """Return at most `most` of the numbers below `count`, evenly spread."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


def pick_at_random(count: int, most: int, seed: int) -> Ints:
    """Return at most `most` of the numbers below `count`, drawn at random, in order."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False)).astype(np.int64)


def _enumerate(people: ScoredRows, spec: Spec, rows: Ints, known: FloatArray | None) -> NearestCounterfactuals:
    """Among all neighbours with another prediction, take the fewest differences, then the largest gap."""
    names = _varying_names(spec)
    net, mine, own_class, own = people.net, people.X, people.classes, people.probability()
    other, alone = np.full_like(mine, np.nan), np.zeros((len(rows), len(names)), dtype=np.bool_)
    fewest, gap = np.full(len(rows), np.inf), np.zeros(len(rows))
    for owner, points in _points(spec, mine):
        logits = net.logits(points)
        hits = np.flatnonzero(net.decide(logits) != own_class[owner])
        owner, points, logits = owner[hits], points[hits], logits[hits]
        differs = _differences(spec, names, mine[owner], points)
        count = differs.sum(axis=1)
        keep = count > 0
        owner, points, logits, differs, count = owner[keep], points[keep], logits[keep], differs[keep], count[keep]
        np.logical_or.at(alone, owner[count == 1], differs[count == 1])
        distance = np.abs(class_probability(logits, own_class[owner]) - own[owner])
        order = np.lexsort((-distance, count, owner))
        who, first = np.unique(owner[order], return_index=True)
        best = order[first]
        better = (count[best] < fewest[who]) | ((count[best] == fewest[who]) & (distance[best] > gap[who]))
        who, best = who[better], best[better]
        fewest[who], gap[who], other[who] = count[best], distance[best], points[best]
    # A score that is 0 up to its last bits may have another sign in another batch: then only `known` has the pair.
    lost = np.flatnonzero(~np.isfinite(fewest))
    if len(lost) and known is not None:
        other[lost] = known[lost]
        gap[lost] = np.abs(ScoredRows.of(net, other[lost]).probability(own_class[lost]) - own[lost])
    found = NearestCounterfactuals(rows, mine, other, names, _differences(spec, names, mine, other), alone, gap, True)
    return found if known is not None else found.take(np.flatnonzero(np.isfinite(fewest)))


def _points(spec: Spec, X: FloatArray) -> Iterator[tuple[Ints, FloatArray]]:
    """Yield all neighbours of X (inputs, width), which were checked before, with their rows."""
    varying = [(feature, spec.columns(feature.name)) for feature in spec.varying]
    return stream_points(varying, X, _BATCH, spec.links) if len(X) else iter(())


def _reduce(people: ScoredRows, spec: Spec, rows: Ints, known: FloatArray) -> NearestCounterfactuals:
    """Set one feature after the other back to the person's own value where the other prediction does not need it."""
    names = _varying_names(spec)
    net, mine, own_class, other = people.net, people.X, people.classes, known.copy()
    alone = np.zeros((len(rows), len(names)), dtype=np.bool_)
    for k, name in enumerate(names):
        columns = spec.columns(name)
        only = mine.copy()
        only[:, columns] = known[:, columns]
        alone[:, k] = (net.predict(only) != own_class) & _are_similar(spec, mine, only)
        back = other.copy()
        back[:, columns] = mine[:, columns]
        enough = (net.predict(back) != own_class) & _are_similar(spec, mine, back)
        other[enough] = back[enough]
    gap = np.abs(ScoredRows.of(net, other).probability(own_class) - people.probability())
    return NearestCounterfactuals(
        rows, mine, other, names, _differences(spec, names, mine, other), alone, gap, exact=False
    )


def _varying_names(spec: Spec) -> tuple[str, ...]:
    return tuple(f.name for f in spec.varying)


def _are_similar(spec: Spec, X: FloatArray, others: FloatArray) -> Bools:
    """Return whether others (rows, width) that mix values of X and of neighbours are still neighbours: links decide."""
    return spec.are_similar(X, others) if spec.links else np.ones(len(X), dtype=np.bool_)


def _differences(spec: Spec, names: tuple[str, ...], mine: FloatArray, other: FloatArray) -> Bools:
    columns = [spec.columns(name) for name in names]
    if not columns:
        return np.zeros((len(mine), 0), dtype=np.bool_)
    return np.stack([(mine[:, where] != other[:, where]).any(axis=1) for where in columns], axis=1)
