"""The model as a tester queries it: predictions and the most different neighbours, with a count of evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.network import Model, Network
from fairmend.searching.value_space import Choices, Values, ValueSpace, follow_links, move_in_bands
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.products import most_in_band

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
