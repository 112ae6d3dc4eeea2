"""The space in which testers move: one value for each feature, in its own units, instead of encoded columns.

A one-hot group is one value, the number of its category, so that every move ends at a valid input. `follow_links` gives
the values of linked features that go with other values of protected ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, ends_of, matching_runs
from fairmend.spec.products import encode_column

Values = npt.NDArray[np.float64]  # (rows, features)
Choices = npt.NDArray[np.int64]

# Steps across the range of a continuous feature; the published algorithms have integers only, with steps of 1.
_PARTS = 100
# Continuous values lie on a grid finer by this factor, so that the same point is the same number on every path to it.
_FINER = 10_000


class ValueSpace:
    """The values of a spec's features: encoding, moves, and keys that identify the unprotected values.

    Attributes
    ----------
    low, high, step : (features,), the range of each feature and the length of a step in it
    free : bool (features,), whether a tester may change the feature: not protected, more than one value, and a range
    """

    def __init__(self, spec: Spec, dtype: npt.DTypeLike) -> None:
        self.spec, self.dtype = spec, np.dtype(dtype)
        self.features = spec.features
        ends = np.array([f.bounds for f in self.features], dtype=np.float64)
        self.low, self.high = ends[:, 0].copy(), ends[:, 1].copy()
        continuous = np.array([f.kind == "continuous" for f in self.features])
        as_is = np.array([f.as_is for f in self.features])  # nothing is known of their values but those of the seeds
        self.step = np.where(continuous, (self.high - self.low) / _PARTS, np.where(as_is, 0.0, 1.0))
        self._continuous = np.flatnonzero(continuous & (self.low < self.high))
        self.protected = np.array([f.protected for f in self.features])
        self.free = ~self.protected & (self.low < self.high) & ~as_is
        self._groups = [(i, f, spec.columns(f.name)) for i, f in enumerate(self.features) if f.one_hot]
        self._plain = [(i, f, spec.columns(f.name).start) for i, f in enumerate(self.features) if not f.one_hot]
        columns = [range(spec.width)[spec.columns(f.name)] for f in self.features if not f.protected]
        self._kept = np.array([column for where in columns for column in where], dtype=np.int64)
        # Odd multipliers, so that no bit of a value is lost.
        self._mix = np.random.default_rng(0).integers(0, 2**63, len(self._kept), dtype=np.uint64) * 2 + 1

    def values(self, X: FloatArray) -> Values:
        """Return the values of encoded inputs X (rows, width)."""
        V = np.empty((len(X), len(self.features)))
        for i, f, column in self._plain:
            V[:, i] = f.nearest(X[:, column])
        for i, f, where in self._groups:
            V[:, i] = f.category_of(X[:, where])
        return self.clip(V)

    def encode(self, V: Values) -> FloatArray:
        """Return the encoded inputs (rows, width) of values V."""
        X = np.zeros((len(V), self.spec.width), self.dtype)
        for i, f, column in self._plain:
            X[:, column] = V[:, i] if f.scale is None else f.scaled(V[:, i])
        for i, f, where in self._groups:
            X[:, where] = f.one_hot_columns(V[:, i].astype(np.int64), self.dtype)
        return X

    def clip(self, V: Values) -> Values:
        """Return V with every value moved into its range and onto its grid."""
        V = np.clip(V, self.low, self.high)
        for i in self._continuous:
            unit = self.step[i] / _FINER
            V[:, i] = np.minimum(self.low[i] + np.rint((V[:, i] - self.low[i]) / unit) * unit, self.high[i])
        return V

    def stay_in_bands(self, number: int, own: Values, others: Values) -> Values:
        """Return others (rows,) of a continuous feature, and own values where the network reads another band."""
        feature = self.features[number]
        edges = encode_column(feature, np.array(feature.lower_ends), self.dtype)
        mine, theirs = (
            np.searchsorted(edges, encode_column(feature, values, self.dtype), side="right") for values in (own, others)
        )
        return np.where(mine == theirs, others, own)

    def ascent(self, V: Values, G: Values) -> Values:
        """Return the step (rows, features) of each feature that increases a function with gradient G.

        G is in encoded columns (rows, width). A number takes one step up or down; a one-hot group changes to the
        category with the largest derivative. Two people agree on a feature if their steps are equal.
        """
        moves = np.zeros_like(V)
        for i, _, column in self._plain:
            moves[:, i] = np.sign(G[:, column]) * self.step[i]
        rows = np.arange(len(V))
        for i, f, where in self._groups:
            own, slopes = V[:, i].astype(np.int64), f.by_category(G[:, where], 0.0)
            best = slopes.argmax(axis=1)
            moves[:, i] = np.where(slopes[rows, best] > slopes[rows, own], best - own, 0)
        moves[:, ~self.free] = 0
        return moves

    def influence(self, V: Values, G: Values) -> Values:
        """Return how much one step in each feature changes that function at most, to first order."""
        sizes = np.zeros_like(V)
        for i, f, column in self._plain:
            # The encoding is affine, so the difference of two encoded values is the derivative.
            ends = f.scaled(np.array([0.0, self.step[i]]))
            sizes[:, i] = np.abs(G[:, column]) * (ends[1] - ends[0])
        rows = np.arange(len(V))
        for i, f, where in self._groups:
            slopes = f.by_category(G[:, where], 0.0)
            sizes[:, i] = np.abs(slopes - slopes[rows, V[:, i].astype(np.int64)][:, None]).max(axis=1)
        return sizes

    def take_random_step(self, V: Values, chosen: Choices, rng: np.random.Generator) -> Values:
        """Return V with one random step in the chosen feature of each row (rows,): up or down, or another category."""
        moved, rows = V.copy(), np.arange(len(V))
        moved[rows, chosen] += np.where(rng.random(len(V)) < 0.5, -1.0, 1.0) * self.step[chosen]
        for i, f, _ in self._groups:
            who = np.flatnonzero(chosen == i)
            count = len(f.categories or ())
            if len(who) and count > 1:
                moved[who, i] = (V[who, i] + rng.integers(1, count, len(who))) % count
        return self.clip(moved)

    def redraw(self, V: Values, features: npt.NDArray[np.bool_], rng: np.random.Generator) -> Values:
        """Return V with the marked values (rows, features) replaced by uniform draws from their range."""
        continuous = self.low + rng.random(V.shape) * (self.high - self.low)
        whole = np.floor(self.low + rng.random(V.shape) * (self.high - self.low + 1))
        real = [f.kind == "continuous" for f in self.features]
        return self.clip(np.where(features, np.where(real, continuous, whole), V))

    def keys(self, V: Values) -> npt.NDArray[np.uint64]:
        """Return a number (rows,) that is equal for rows that are equal in all unprotected features.

        It is a 64-bit hash: among a million different rows, the chance that two collide is one in ten million, and
        then one of them is not reported.
        """
        # The hash is of the network's inputs: two float64 numbers may be one float32. + 0.0 turns -0.0 into 0.0.
        bits = (self.encode(V)[:, self._kept].astype(np.float64) + 0.0).view(np.uint64)
        bits = bits ^ (bits >> np.uint64(29))  # small whole numbers use the upper bits only
        mixed: npt.NDArray[np.uint64] = (bits * self._mix).sum(axis=1, dtype=np.uint64)
        return mixed ^ (mixed >> np.uint64(32))


def move_in_bands(feature: Feature, own: Values, place: Values) -> Values:
    """Return values (rows,) in the bands of own ones: of whole numbers and categories those with a number.

    Of a continuous feature, ``place`` is from 0 to 1. A band with fewer values starts again with the first.
    """
    if feature.groups:
        group = {code: codes for codes in feature.groups for code in codes}
        chosen = zip(map(int, own), map(int, place), strict=True)
        return np.array([group[code][at % len(group[code])] for code, at in chosen], np.float64)
    whole = feature.kind != "continuous"
    ends = np.array([*feature.lower_ends, feature.bounds[1] + whole], np.float64)
    band = np.clip(np.searchsorted(ends, own, side="right") - 1, 0, len(ends) - 2)
    low, size = ends[band], (ends[1:] - ends[:-1])[band]
    return np.asarray(low + (place % size if whole else place * size))


def follow_links(spec: Spec, V: Values, others: Values, share: Values) -> Values:
    """Return others (rows, features), counterfactuals of V with other protected values, with linked features set.

    Where a link allows several values, ``share (rows, linked features)``, from 0 to 1, selects one of them.
    """
    places = {feature.name: i for i, feature in enumerate(spec.features)}
    linked = [feature.name for feature in spec.linked]
    followed = others.copy()
    for link in spec.links:
        rows = np.flatnonzero(_applies(spec, link, places, V, others))
        for name in link.then:
            i = places[name]
            followed[rows, i] = _replace(spec.features[i], link, V[rows, i], share[rows, linked.index(name)])
    return followed


def _applies(spec: Spec, link: Link, places: dict[str, int], V: Values, others: Values) -> np.ndarray:
    """Return to which counterfactuals a link applies (rows,)."""
    applies, differs = np.ones(len(V), np.bool_), np.zeros(len(V), np.bool_)
    for name in link.when:
        theirs = others[:, places[name]]
        matches = np.zeros(len(V), np.bool_)
        for low, high in matching_runs(link, spec.features[places[name]]):
            matches |= (low <= theirs) & (theirs <= high)
        applies &= matches
        differs |= theirs != V[:, places[name]]
    return applies & differs


def _replace(feature: Feature, link: Link, own: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return what a link makes of own values (rows,)."""
    change = link.then[feature.name]
    if feature.categories:
        replaced = own.copy()
        for category, new in change.items():
            codes = np.array([feature.categories.index(name) for name in ([new] if isinstance(new, str) else new)])
            rows = np.flatnonzero(own == feature.categories.index(category))
            replaced[rows] = codes[np.minimum((share[rows] * len(codes)).astype(np.int64), len(codes) - 1)]
        return replaced
    low, high = ends_of(change["range"] if "range" in change else change["offset"])
    if feature.kind == "continuous":
        chosen = low + share * (high - low)
    else:
        chosen = low + np.minimum(np.floor(share * (high - low + 1)), high - low)
    return np.asarray(np.clip(chosen if "range" in change else own + chosen, *feature.bounds))
