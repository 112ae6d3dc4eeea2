"""Averaging: the mean of a model's scores over the members of a class, weighted by the population.

A class has few members that matter: the same person as a man and as a woman, or at four ages. The mean over them reads
nothing but the representative of the class, so it is the same for all members. It needs no gradients, no labels and no
training.

The weights are those of the population *given the other features*: a logistic regression says how likely each member is
for someone with these. Scores are averaged, not votes. Where there are two classes, a shift of the log-odds keeps the
share of people whom the original model predicts to be positive.

Members are chosen from data: all combinations of the features that a class leaves open, if they are few; of one feature
with many values, the medians of groups of equal size; else the rows in the middle of clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.models.canonical import CanonicalMap
from fairmend.models.entry import Entry
from fairmend.models.ports import Port
from fairmend.spec import Spec
from fairmend.spec.features import Feature

MOST_MEMBERS = 8
"""A repaired model runs the original once for each member."""

QUANTILES = 4
"""Members of a class that leaves one feature with many values open."""

MOST_FITTED = 20_000
"""Rows, at most, from which weights are learnt: more do not change them."""

LEAST_PROBABILITY = 1e-12
"""Averaged probabilities are at least so far from 0 and 1: closer ones are rounding, and have no log-odds to shift."""

_MOST_STEPS = 300
_NEVER = 30.0  # how much less likely, in log-odds, a member is that no row of the data is near to


@dataclass(frozen=True, eq=False)
class Members:
    """The members over whom a class is averaged: value k of a free feature belongs to member k.

    Attributes
    ----------
    free : the values, or codes (members,), of each free feature
    linked : those of each linked feature (members, classes of the feature): the most frequent ones in the data
    of_rows : which member each row of the data is nearest to (rows,)
    """

    free: dict[str, Floats]
    linked: dict[str, Floats]
    of_rows: Ints

    @property
    def count(self) -> int:
        """The number of members."""
        return len(next(iter(self.free.values())))

    def entry(self, k: int, canonical: CanonicalMap, ports: Sequence[Port]) -> Entry:
        """Return what turns canonical rows into those of member k."""
        free = {name: float(values[k]) for name, values in self.free.items()}
        return canonical.member(ports, free, {name: values[k] for name, values in self.linked.items()})


def choose_members(canonical: CanonicalMap, X: FloatArray, seed: int = 0, most: int = MOST_MEMBERS) -> Members:
    """Return at most so many members of classes, chosen from rows X (rows, width) of data."""
    spec = canonical.spec
    features = [feature for feature in spec.features if feature.name in canonical.classes.free]
    own = np.column_stack([spec.values_of(feature, X) for feature in features])
    combinations, of_rows = np.unique(own, axis=0, return_inverse=True)
    if most == 1:
        combinations = np.array([[canonical.reference[feature.name] for feature in features]])
        of_rows = np.zeros(len(X), dtype=np.int64)
    elif len(combinations) > most:
        if len(features) == 1 and not features[0].categories:
            combinations, of_rows = _quantiles(own[:, 0])
        else:
            combinations, of_rows = _clusters(spec, features, X, own, most, seed)
    free = {feature.name: combinations[:, k] for k, feature in enumerate(features)}
    of_rows = np.asarray(of_rows).reshape(-1)
    return Members(free, _linked_values(canonical, free, X, of_rows), of_rows)


def _linked_values(canonical: CanonicalMap, free: dict[str, Floats], X: FloatArray, of_rows: Ints) -> dict[str, Floats]:
    """Return for each member and class the value that most rows near that member have; else the representative.

    A member has a value that belongs to the class with its own protected values.
    """
    found = {}
    for name, linked in canonical.classes.linked.items():
        feature = canonical.spec.feature(name)
        numbers = (canonical.spec.values_of(feature, X) - feature.bounds[0]).astype(np.int64)
        values = np.tile(canonical.representative[name], (int(of_rows.max(initial=0)) + 1, 1))
        for k, row in enumerate(values):
            near = np.bincount(numbers[of_rows == k], minlength=linked.table.shape[-1])
            here = linked.table[canonical.cells(linked, {each: float(of[k]) for each, of in free.items()})]
            for number in range(linked.count):
                inside = np.flatnonzero(here == number)
                if len(inside) and (near[inside].any() or row[number] - feature.bounds[0] not in inside):
                    row[number] = feature.bounds[0] + inside[near[inside].argmax()]
        found[name] = values
    return found


def _quantiles(values: Floats) -> tuple[Floats, Ints]:
    """Return the medians (groups, 1) of groups of about equal size, and the group of each value."""
    ends = np.unique(np.quantile(values, np.arange(1, QUANTILES) / QUANTILES, method="higher"))
    group = np.searchsorted(ends, values, side="right")
    numbers, group = np.unique(group, return_inverse=True)
    medians = [np.quantile(values[group == k], 0.5, method="nearest") for k in range(len(numbers))]
    return np.array(medians)[:, None], group


def _clusters(
    spec: Spec, features: Sequence[Feature], X: FloatArray, own: Floats, most: int, seed: int
) -> tuple[Floats, Ints]:
    """Return the rows in the middle of clusters, and the cluster of each row."""
    from sklearn.cluster import KMeans

    columns = np.concatenate([np.arange(spec.width)[spec.columns(feature.name)] for feature in features])
    points = X[:, columns].astype(np.float64)
    deviation = points.std(axis=0)
    points = points / np.where(deviation > 0, deviation, 1.0)
    rows = np.random.default_rng(seed).permutation(len(points))[:MOST_FITTED]
    found = KMeans(most, n_init=4, random_state=seed).fit(points[rows])
    label = found.predict(points)
    middle = [
        int(inside[np.square(points[inside] - found.cluster_centers_[k]).sum(axis=1).argmin()])
        for k in range(most)
        if len(inside := np.flatnonzero(label == k))
    ]
    return own[middle], np.unique(label, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class MemberWeights:
    """How much each member counts: the softmax of a sum over the features that a class does not leave open.

    Attributes
    ----------
    tables : for each categorical feature, what each category adds (categories, members)
    numbers : the other features, whose encoded numbers add ``(x - mean) / deviation @ slope``
    mean, deviation : (numbers,)
    slope : (numbers, members)
    bias : (members,)
    """

    tables: dict[str, Floats]
    numbers: tuple[str, ...]
    mean: Floats
    deviation: Floats
    slope: Floats
    bias: Floats

    def compute(self, spec: Spec, X: FloatArray) -> Floats:
        """Return the weights (rows, members) of canonical rows X (rows, width)."""
        logits = np.tile(self.bias, (len(X), 1))
        for feature in spec.features:
            if feature.name in self.tables:
                logits += self.tables[feature.name][spec.values_of(feature, X).astype(np.int64)]
        columns = [spec.columns(name).start for name in self.numbers]
        logits += (X[:, columns].astype(np.float64) - self.mean) / self.deviation @ self.slope
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def fit_weights(canonical: CanonicalMap, X: FloatArray, members: Members) -> MemberWeights:
    """Return a logistic regression of the member that each row of the data is nearest to, given canonical rows X."""
    from sklearn.linear_model import LogisticRegression

    spec = canonical.spec
    given = [feature for feature in spec.features if feature.name not in canonical.classes.free]
    categorical = [feature for feature in given if feature.categories]
    numbers = tuple(feature.name for feature in given if not feature.categories)
    columns = X[:, [spec.columns(name).start for name in numbers]].astype(np.float64)
    mean, deviation = columns.mean(axis=0), columns.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    parts = [np.eye(len(f.categories or ()))[spec.values_of(f, X).astype(np.int64)] for f in categorical]
    design = np.concatenate([*parts, (columns - mean) / deviation], axis=1)
    weight, bias = np.zeros((design.shape[1], members.count)), np.full(members.count, -np.inf)
    present, counts = np.unique(members.of_rows, return_counts=True)
    bias[present] = np.log(counts / counts.sum())
    if len(present) > 1 and design.shape[1]:
        found = LogisticRegression(max_iter=_MOST_STEPS).fit(design, members.of_rows)
        if len(present) == 2:
            weight[:, present[1]], bias[present] = found.coef_[0], (0.0, float(found.intercept_[0]))
        else:
            weight[:, present], bias[present] = found.coef_.T, found.intercept_
    bias = np.maximum(bias, bias[present].min() - _NEVER)
    ends = np.cumsum([0, *(part.shape[1] for part in parts)])
    tables = {f.name: weight[ends[k] : ends[k + 1]] for k, f in enumerate(categorical)}
    return MemberWeights(tables, numbers, mean, deviation, weight[ends[-1] :], bias)


@dataclass(frozen=True, eq=False)
class Average:
    """How the scores of members are averaged: which rows a canonical row stands for, and how much each counts.

    ``shift`` is added to the log-odds of two classes.
    """

    canonical: CanonicalMap
    members: Members
    weights: MemberWeights
    shift: float = 0.0

    def entries(self, ports: Sequence[Port]) -> list[Entry]:
        """Return what turns canonical rows into those of each member, for these ports."""
        return [self.members.entry(k, self.canonical, ports) for k in range(self.members.count)]


def fit_average(canonical: CanonicalMap, X: FloatArray, seed: int = 0, most: int = MOST_MEMBERS) -> Average:
    """Return the average over at most so many members, chosen and weighted by rows X (rows, width) of data."""
    rows = X[np.random.default_rng(seed).permutation(len(X))[:MOST_FITTED]]
    members = choose_members(canonical, rows, seed, most)
    return Average(canonical, members, fit_weights(canonical, canonical.apply(rows), members))
