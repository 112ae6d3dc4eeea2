"""The model as a tester queries it: predictions and the most different neighbours, with a count of evaluations.

`ValueSpace` is where testers move: one value for each feature, in its own units, instead of encoded columns. A one-hot
group is one value, the number of its category, so that every move ends at a valid input. `follow_links` gives the
values of linked features that go with other values of protected ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.network import Model, Network
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, ends_of, matching_runs
from fairmend.spec.products import encode_column, most_in_band

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


Mask = npt.NDArray[np.bool_]

# Neighbourhoods up to this size are enumerated; of larger ones, a random part of this size is used.
MOST_NEIGHBOURS = 512
# Numbers in one buffer, and multiplications in one layer: small enough for the cache, and below the size at which BLAS
# starts threads, which slow each other down when other programs use the cores.
_NUMBERS, _PRODUCTS = 262_144, 500_000
_RUN = 65_536  # rows at once of a model that is only run


@dataclass(frozen=True, eq=False)
class Partners:
    """The most different neighbour of each row.

    Attributes
    ----------
    predictions : (rows,), the class of each row
    partner : (rows,), the number of the neighbour with another prediction at which the row's class trails most; without
        one, of the neighbour whose score differs most
    unequal : bool (rows,), whether the partner gets another prediction
    own, theirs : (rows,), by how much the row's class leads the best other class, at the row and at its partner; from
        the network's threshold on
    """

    predictions: Choices
    partner: Choices
    unequal: Mask
    own: npt.NDArray[np.float64]
    theirs: npt.NDArray[np.float64]


class Oracle:
    """A model and its neighbourhoods in the value space; counts every evaluation in `calls`.

    Neighbour number j of a row is the row with the j-th combination of protected values, moved by the j-th combination
    of offsets in the features that have a tolerance, and of places in bands. Linked features follow; where links allow
    several values, j selects one of them. A number means the same for every row.
    """

    def __init__(self, net: Model, spec: Spec, rng: np.random.Generator) -> None:
        self.net, self.spec, self.space = net, spec, ValueSpace(spec, net.dtype)
        self.calls = 0
        self._varying = [(i, f) for i, f in enumerate(spec.features) if f.varies]
        self._table = _choices(
            [*(_span(f) for _, f in self._varying), *(_linked_span(spec, f) for f in spec.linked)], rng
        )
        self._near = [not f.protected for _, f in self._varying]
        chain = net if isinstance(net, Network) and net.is_chain else None
        self._shared = None if chain is None or any(self._near) or spec.links else self._first_layer(chain)
        sizes = [f.bounds[1] - f.bounds[0] + 1 for _, f in self._varying]
        # Whether the table lists all protected values in order, so that a row is one of its own neighbours.
        self._complete = not any(self._near) and not spec.links and spec.finite and math.prod(sizes) == len(self._table)
        self._strides = np.array([math.prod(sizes[k + 1 :]) for k in range(len(sizes))])

    @property
    def network(self) -> Network:
        """The model, for testers that follow gradients."""
        assert isinstance(self.net, Network)
        return self.net

    def predict(self, V: Values) -> Choices:
        """Return the class of each row (rows,)."""
        return self.net.decide(self.logits(V))

    def logits(self, V: Values) -> FloatArray:
        """Return the logits (rows, outputs)."""
        self.calls += len(V)
        return self.net.logits(self.space.encode(V)).reshape(len(V), -1)

    def neighbours(self, V: Values, partner: Choices) -> Values:
        """Return the neighbours of V (rows, features) with these numbers (rows,)."""
        others = V.copy()
        for k, (i, feature) in enumerate(self._varying):
            choice = self._table[partner, k]
            others[:, i] = V[:, i] + choice if self._near[k] else choice
            if feature.bands:
                others[:, i] = move_in_bands(feature, V[:, i], choice)
        if self.spec.links:
            others = follow_links(self.spec, V, others, self._table[partner][:, len(self._varying) :])
        if any(self._near) or self.spec.links:
            others = self.space.clip(others)
        for i, feature in self._varying:
            if feature.kind == "continuous" and feature.bands:
                others[:, i] = self.space.stay_in_bands(i, V[:, i], others[:, i])
        return others

    @property
    def single_neighbour(self) -> bool:
        """Whether every row has exactly one neighbour other than itself."""
        return self._complete and len(self._table) == 2

    def find_partners(self, V: Values) -> Partners:
        """Find the most different neighbour of each row."""
        predictions, partner = np.zeros(len(V), np.int64), np.zeros(len(V), np.int64)
        unequal, mine, deepest = np.zeros(len(V), np.bool_), np.zeros(len(V)), np.zeros(len(V))
        step = max(1, self._rows_at_once() // len(self._table))
        for start in range(0, len(V), step):
            rows = slice(start, start + step)
            theirs = self._neighbour_logits(V[rows])
            own = theirs[np.arange(len(theirs)), self._own_numbers(V[rows])] if self._complete else self.logits(V[rows])
            predictions[rows] = self.net.decide(own)
            mine[rows] = lead(self.net.centre(own)[:, None, :], predictions[rows])[:, 0]
            leads = lead(self.net.centre(theirs), predictions[rows])
            differ = self.net.decide(theirs) != predictions[rows, None]
            # Neighbours with another prediction come first; among them, the one where the row's class trails most.
            distance = np.abs(leads - mine[rows, None])
            chosen = np.where(differ.any(axis=1), leads.argmin(axis=1), distance.argmax(axis=1))
            at = np.arange(len(chosen))
            partner[rows], unequal[rows], deepest[rows] = chosen, differ[at, chosen], leads[at, chosen]
        return Partners(predictions, partner, unequal, mine, deepest)

    def _rows_at_once(self) -> int:
        if not isinstance(self.net, Network):
            return _RUN
        largest = max(affine.weight.size for affine in self.net.affines)
        return min(_NUMBERS // max(self.net.widths), _PRODUCTS // largest)

    def _own_numbers(self, V: Values) -> Choices:
        """Return the number of each row among its own neighbours (rows,)."""
        varying = [i for i, _ in self._varying]
        return np.asarray((V[:, varying] - self.space.low[varying]) @ self._strides, dtype=np.int64)

    def _neighbour_logits(self, V: Values) -> FloatArray:
        """Return the logits of all neighbours (rows, neighbours, outputs)."""
        points = len(self._table)
        self.calls += len(V) * points
        if self._shared is None:
            others = self.neighbours(np.repeat(V, points, axis=0), np.tile(np.arange(points), len(V)))
            return self.net.logits(self.space.encode(others)).reshape(len(V), points, -1)
        # Neighbours differ in protected columns only, whose contribution to the first layer is the same for all rows.
        first = self.network.affines[0]
        X = self.space.encode(V)
        for _, f in self._varying:
            X[:, self.spec.columns(f.name)] = 0
        with np.errstate(over="ignore", invalid="ignore"):
            hidden = ((X @ first.weight.T + first.bias)[:, None, :] + self._shared).reshape(len(V) * points, -1)
            for activation, affine in zip(self.network.activations, self.network.affines[1:], strict=True):
                activation.apply(hidden)
                hidden = hidden @ affine.weight.T
                hidden += affine.bias
        return hidden.reshape(len(V), points, -1)

    def _first_layer(self, net: Network) -> FloatArray:
        """Return what each combination of protected values adds to the first layer (neighbours, units)."""
        V = np.tile(self.space.low, (len(self._table), 1))
        for k, (i, _) in enumerate(self._varying):
            V[:, i] = self._table[:, k]
        X = self.space.encode(V)
        columns = [c for _, f in self._varying for c in range(self.spec.width)[self.spec.columns(f.name)]]
        return np.asarray(X[:, columns] @ net.affines[0].weight[:, columns].T)


def lead(logits: FloatArray, predictions: Choices) -> npt.NDArray[np.float64]:
    """Return by how much each row's class (rows,) leads the best other class in logits (rows, points, outputs)."""
    if logits.shape[-1] == 1:
        return np.asarray(logits[..., 0] * (2.0 * predictions - 1)[:, None], dtype=np.float64)
    own = np.take_along_axis(logits, predictions[:, None, None], axis=2)[..., 0]
    others = np.where(np.arange(logits.shape[-1]) == predictions[:, None, None], -np.inf, logits).max(axis=2)
    return np.asarray(own - others, dtype=np.float64)


class _Span(NamedTuple):
    """The first and the last choice in a feature, whether choices are 1 apart, and their unit."""

    low: float
    high: float
    whole: bool
    unit: float = 1.0


def _choices(spans: list[_Span], rng: np.random.Generator) -> Values:
    """Return what neighbours choose in each feature (neighbours, features): all combinations or a random part."""
    units = np.array([span.unit for span in spans])
    finite = all(span.whole for span in spans)
    if finite and math.prod(int(span.high - span.low) + 1 for span in spans) <= MOST_NEIGHBOURS:
        listed = product(*(np.arange(span.low, span.high + 1) for span in spans))
        return np.asarray(np.array(list(listed), dtype=np.float64) * units)
    columns = []
    for low, high, whole, _ in spans:
        drawn = rng.uniform(low, high, MOST_NEIGHBOURS)
        columns.append(rng.integers(int(low), int(high) + 1, MOST_NEIGHBOURS) if whole else drawn)
    table = np.stack(columns, axis=1).astype(np.float64)
    # Scores tend to differ most at the ends of the ranges.
    corners = np.array(list(product(*[(span.low, span.high) for span in spans[:6]])), dtype=np.float64)
    table[: len(corners), : corners.shape[1]] = corners
    return np.asarray(table * units)


def _span(f: Feature) -> _Span:
    """Return the protected values or the offsets of a feature, or the places in a band."""
    if f.bands:
        return _Span(0.0, 1.0, False) if f.kind == "continuous" else _Span(0, most_in_band(f) - 1, True)
    length = f.bounds[1] - f.bounds[0]
    low, high = f.bounds if f.protected else (-min(f.reach, length), min(f.reach, length))
    return _Span(low, high, f.kind != "continuous")


def _linked_span(spec: Spec, f: Feature) -> _Span:
    """Return the shares by which `follow_links` selects a value of a linked feature."""
    if f.kind == "continuous":
        return _Span(0.0, 1.0, False)
    values = spec.most_values(f)
    return _Span(0.5, values - 0.5, True, 1 / values)  # the middle of each share: no rounding can change the choice
