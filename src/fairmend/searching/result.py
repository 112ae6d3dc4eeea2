"""The result of a search for unequal treatment.

The instances that a search discovers: without duplicates, and confirmed independently of the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.auditing.neighbours import ExhaustiveScan, can_enumerate
from fairmend.base.arrays import FloatArray
from fairmend.base.text import html_pairs
from fairmend.network import Model, Network
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.searching.oracle import Choices, Oracle, Values
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


FOUND = "Found to be treated unequally"
"""The name of the row that says how many were found."""


def search_rows(method: str, count: int, starts: int, seeds: int, calls: int, seconds: float) -> list[tuple[str, str]]:
    """Return the figures of a search as text, with their names, as the terminal and a notebook show them."""
    return [
        ("Tester", method),
        (FOUND, f"{count:,}"),
        ("Seeds with a result", f"{starts:,} of {seeds:,}"),
        ("Model calls", f"{calls:,}"),
        ("Seconds", f"{seconds:.2f}"),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The individual discriminatory instances (IDIs) that a tester found.

    Attributes
    ----------
    idis : (count, width), the confirmed IDIs; no two of them are equal in all unprotected features
    others : (count, width), a neighbour of each with another prediction
    method : the tester
    seeds : the number of seeds, which may be smaller than the number that you asked for
    starts : the number of seeds that led to an IDI in the global phase
    calls : how often the search evaluated the network, gradients included, the confirmation excluded
    exact : whether neighbourhoods were enumerated to confirm the IDIs, or only the neighbours in `others` evaluated
    seconds : the duration of the search
    """

    idis: FloatArray = field(repr=False)
    others: FloatArray = field(repr=False)
    method: str
    seeds: int
    starts: int
    calls: int
    exact: bool
    seconds: float

    @property
    def count(self) -> int:
        """The number of IDIs."""
        return len(self.idis)

    def __repr__(self) -> str:
        """Say how many IDIs were found, with how much work."""
        return (
            f"SearchResult({self.method}: {self.count:,} IDIs, from {self.starts:,} of {self.seeds:,} seeds, "
            f"{self.calls:,} model calls, {self.seconds:.1f} s)"
        )

    def to_frame(self, spec: Spec) -> pd.DataFrame:
        """Return the IDIs in the user's own values, two rows each: the IDI, then the neighbour it differs from."""
        import pandas as pd

        both = np.stack([self.idis, self.others], axis=1).reshape(2 * self.count, -1)
        numbers = pd.DataFrame(
            {"idi": np.repeat(np.arange(1, self.count + 1), 2), "counterfactual": [False, True] * self.count}
        )
        return pd.concat([numbers, spec.decode(both).reset_index(drop=True)], axis=1)

    def _repr_html_(self) -> str:
        """Show in a notebook how many IDIs were found, with how much work."""
        rows = search_rows(self.method, self.count, self.starts, self.seeds, self.calls, self.seconds)
        return html_pairs("Search for unequal treatment", rows)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, without the inputs themselves."""
        return {
            "method": self.method,
            "count": self.count,
            "seeds": self.seeds,
            "starts": self.starts,
            "calls": self.calls,
            "exact": self.exact,
            "seconds": self.seconds,
        }


# The number of rows that are collected before duplicates are removed.
_PENDING = 200_000
_BLOCK = 16_384


class DiscoveredInstances:
    """The IDIs so far with their partners. Of rows that are equal in all unprotected features, the first is kept."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        features = len(oracle.space.features)
        self._values, self._partners = np.zeros((0, features)), np.zeros(0, np.int64)
        self._keys = np.zeros(0, np.uint64)
        self._pending: list[tuple[Values, Choices]] = []
        self._rows = 0

    def add(self, V: Values, partners: Choices) -> None:
        """Add rows that get another prediction than the neighbours with these numbers."""
        if len(V):
            self._pending.append((V.copy(), partners.copy()))
            self._rows += len(V)
        if self._rows >= _PENDING:
            self._merge()

    def _merge(self) -> None:
        if not self._pending:
            return
        V = np.concatenate([values for values, _ in self._pending])
        keys, first = np.unique(self._oracle.space.keys(V), return_index=True)
        new = np.sort(first[~np.isin(keys, self._keys, assume_unique=True)])
        partners = np.concatenate([numbers for _, numbers in self._pending])
        self._values = np.concatenate([self._values, V[new]])
        self._partners = np.concatenate([self._partners, partners[new]])
        self._keys = np.concatenate([self._keys, self._oracle.space.keys(V[new])])
        self._pending, self._rows = [], 0

    def confirmed(
        self, progress: Callable[[int, int], None] | None = None
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]]:
        """Return the confirmed IDIs (k, width), for each a neighbour with another prediction, and their keys (k,)."""
        self._merge()
        net, spec, space = self._oracle.net, self._oracle.spec, self._oracle.space
        kept: list[tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]]] = []
        for start in range(0, len(self._values), _BLOCK):
            V = self._values[start : start + _BLOCK]
            X = space.encode(V)
            others = space.encode(self._oracle.neighbours(V, self._partners[start : start + _BLOCK]))
            sure = confirm(net, spec, X, others)
            kept.append((X[sure], others[sure], self._keys[start : start + _BLOCK][sure]))
            if progress is not None:
                progress(start + len(V), len(self._values))
        none = space.encode(self._values[:0])
        idis, neighbours, keys = zip(*kept, strict=True) if kept else ((none,), (none,), (self._keys,))
        return np.concatenate(idis), np.concatenate(neighbours), np.concatenate(keys)


def confirm(net: Model, spec: Spec, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Return for which rows of X (rows, width) unequal treatment is confirmed (rows,).

    The given neighbour must lie in the neighbourhood, and rounding must not be able to explain the different
    predictions: close to the threshold, a prediction depends on which rows are evaluated together. A model that is only
    run must give them again. Finite neighbourhoods are enumerated as well; for others, the given neighbour is the
    proof.
    """
    sure = _in_neighbourhood(spec, X, others) & _surely_different(net, X, others)
    if sure.any() and can_enumerate(spec):
        rows = np.flatnonzero(sure)
        sure[rows] = ExhaustiveScan(net, spec).scan(X[rows]).unequal
    return sure


def _in_neighbourhood(spec: Spec, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether each of others lies in the neighbourhood of its row of X."""
    if len(X) == 0:
        return np.zeros(0, np.bool_)
    spec.as_inputs(others, X.dtype)  # raises if one is not a valid input
    return spec.are_similar(X, others)


def _surely_different(net: Model, X: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether two rows get different predictions, of a network for every order of summation."""
    if not isinstance(net, Network):
        return np.asarray(net.predict(X) != net.predict(others))
    sides = []
    for side in (X, others):
        logits = net.centre(net.logits(side)).astype(np.float64).reshape(len(side), -1)
        # Twice: both this evaluation and any later one may be off by that much.
        error = 2 * KernelBounds(net).output_error(side, side) + 4 * float(np.finfo(np.float64).eps) * abs(net.offset)
        predictions = net.predict(side)
        if logits.shape[1] == 1:
            sure = np.abs(logits[:, 0]) > error[:, 0]
        else:
            rows = np.arange(len(side))
            rivals = logits + error
            rivals[rows, predictions] = -np.inf
            sure = (logits - error)[rows, predictions] > rivals.max(axis=1)
        sides.append((predictions, sure))
    (first, first_sure), (second, second_sure) = sides
    return np.asarray((first != second) & first_sure & second_sure)
