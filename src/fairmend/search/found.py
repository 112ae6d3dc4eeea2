"""What a search has found: once each, and confirmed by looking at the neighbours again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import ExhaustiveScan, can_enumerate
from fairmend.bounds.inference import inference_error
from fairmend.network import Network
from fairmend.search.oracle import Oracle
from fairmend.search.values import Choices, Values
from fairmend.spec import Spec

# So many rows wait before duplicates among them are looked for.
_WAITING = 200_000
_BLOCK = 16_384


class Found:
    """The unequal rows so far with their partners; equal ones, but for protected features, once: the first of them."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        features = len(oracle.space.features)
        self._values, self._partners = np.zeros((0, features)), np.zeros(0, np.int64)
        self._keys = np.zeros(0, np.uint64)
        self._waiting: list[tuple[Values, Choices]] = []
        self._rows = 0

    def add(self, V: Values, partners: Choices) -> None:
        """Take in rows that are unequal to the neighbours with these numbers."""
        if len(V):
            self._waiting.append((V.copy(), partners.copy()))
            self._rows += len(V)
        if self._rows >= _WAITING:
            self._merge()

    def _merge(self) -> None:
        if not self._waiting:
            return
        V = np.concatenate([values for values, _ in self._waiting])
        keys, first = np.unique(self._oracle.space.keys(V), return_index=True)
        new = np.sort(first[~np.isin(keys, self._keys, assume_unique=True)])
        partners = np.concatenate([numbers for _, numbers in self._waiting])
        self._values = np.concatenate([self._values, V[new]])
        self._partners = np.concatenate([self._partners, partners[new]])
        self._keys = np.concatenate([self._keys, self._oracle.space.keys(V[new])])
        self._waiting, self._rows = [], 0

    def confirmed(self, progress: Callable[[int, int], None] | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the inputs (k, width) that are unequal beyond doubt, and for each a neighbour with another answer."""
        self._merge()
        net, spec, space = self._oracle.net, self._oracle.spec, self._oracle.space
        kept: list[tuple[FloatArray, FloatArray]] = []
        for start in range(0, len(self._values), _BLOCK):
            V = self._values[start : start + _BLOCK]
            X = space.encode(V)
            others = space.encode(self._oracle.neighbours(V, self._partners[start : start + _BLOCK]))
            sure = confirm(net, spec, X, others)
            kept.append((X[sure], others[sure]))
            if progress is not None:
                progress(start + len(V), len(self._values))
        nobody = space.encode(self._values[:0])
        idis, neighbours = zip(*kept, strict=True) if kept else ((nobody,), (nobody,))
        return np.concatenate(idis), np.concatenate(neighbours)


def confirm(net: Network, spec: Spec, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Return for whom of X (rows, width) unequal treatment is confirmed (rows,).

    The named neighbour must lie in the neighbourhood, and the answers of both must be further apart than rounding can
    explain: an answer on the edge depends on which rows are asked about together. Where neighbourhoods are finite,
    they are enumerated besides; where not, that one neighbour is the proof.
    """
    sure = _inside(spec, X, others) & _apart(net, X, others)
    if sure.any() and can_enumerate(spec):
        rows = np.flatnonzero(sure)
        sure[rows] = ExhaustiveScan(net, spec).scan(X[rows]).unequal
    return sure


def _inside(spec: Spec, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each of others lies in a piece of the neighbourhood of its row of X."""
    if len(X) == 0:
        return np.zeros(0, np.bool_)
    regions = spec.regions(X, X.dtype)
    spec.as_inputs(others, X.dtype)  # and is somebody at all
    candidate = others[regions.owner]
    within = ((regions.lower <= candidate) & (candidate <= regions.upper)).all(axis=1)
    return np.bincount(regions.owner[within], minlength=len(X)) > 0


def _apart(net: Network, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether two rows get different answers from every order of summation."""
    sides = []
    for side in (X, others):
        logits = net.logits(side).astype(np.float64).reshape(len(side), -1)
        # Twice: what was computed is off by as much as what will be.
        error = 2 * inference_error(net, side, side)
        answers = net.predict(side)
        if logits.shape[1] == 1:
            sure = np.abs(logits[:, 0]) > error[:, 0]
        else:
            rows = np.arange(len(side))
            rivals = logits + error
            rivals[rows, answers] = -np.inf
            sure = (logits - error)[rows, answers] > rivals.max(axis=1)
        sides.append((answers, sure))
    (first, first_sure), (second, second_sure) = sides
    return np.asarray((first != second) & first_sure & second_sure)
