"""Decide who is treated unequally without listing all neighbours: random neighbours first, then branch and bound.

What random neighbours show is real. The other inputs go to the engine "branch" of `certify`, which proves equal
treatment over whole neighbourhoods, however large, or finds a neighbour that the random ones missed. An input that
rounding error or the time limit leaves open is unknown, so the number of unequal inputs is then a range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from fairmend.auditing.comparisons import WidestPairs, WorstNeighbours, comparison_of
from fairmend.auditing.neighbours import RandomScan
from fairmend.base.arrays import FloatArray
from fairmend.network import Model, Network
from fairmend.prove.certify import certify
from fairmend.prove.result import Verdict
from fairmend.spec import Spec

_MOST_NUMBERS = 4_000_000  # in the boxes of one neighbourhood


def can_branch(net: Model, spec: Spec) -> TypeGuard[Network]:
    """Return whether a model has bounds, and the boxes of a neighbourhood fit into memory.

    One-hot features multiply their number.
    """
    return isinstance(net, Network) and spec.most_pieces * spec.width <= _MOST_NUMBERS


class BranchScan:
    """Decides every input, except those that rounding error or the time limit leaves open."""

    def __init__(self, net: Network, spec: Spec, per_row: int, seed: int, device: str = "cpu") -> None:
        """Prepare the scan; bounds are computed on the device."""
        self._net, self._spec, self._device = net, spec, device
        self._random, self._comparison = RandomScan(net, spec, per_row, seed), comparison_of(net, spec.claim)

    def scan(
        self,
        X: FloatArray,
        seconds: float | None = None,
        progress: Callable[[int], None] | None = None,
        *,
        seed: int | None = None,
    ) -> WorstNeighbours:
        """Return which of X (inputs, width) are treated unequally; `progress` is called with the number decided.

        The random neighbours are those of the seed; without one, each call draws new ones.
        """
        return self._decide(X, self._random.scan(X, seed), seconds, progress)

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst pair that was found for each of X (inputs, width); another one may be worse."""
        return self._decide(X, self._random.worst(X))

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two of many random neighbours of each of X whose scores differ most; `on` names the score."""
        return self._random.widest(X, on)

    def _decide(
        self,
        X: FloatArray,
        found: WorstNeighbours,
        seconds: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> WorstNeighbours:
        """Return what random neighbours `found`, completed by branch and bound."""
        rows = np.flatnonzero(~found.unequal)
        if len(rows) == 0:
            return replace(found, unknown=np.zeros(len(X), np.bool_))
        done = len(X) - len(rows)
        report = None if progress is None else lambda _, decided, __: progress(done + decided)
        proofs = certify(
            self._net, self._spec, X[rows], "branch", time_limit=seconds, device=self._device, progress=report
        )
        unequal, gap, unknown = found.unequal.copy(), found.gap.copy(), np.zeros(len(X), np.bool_)
        first, other = found.first.copy(), found.other.copy()
        unknown[rows] = [verdict is Verdict.UNKNOWN for verdict in proofs.verdicts]
        pairs = [(row, witness) for row, witness in zip(rows.tolist(), proofs.witnesses, strict=True) if witness]
        for row, witness in pairs:
            unequal[row], first[row], other[row] = True, witness.x, witness.other
        if pairs:
            gap[[row for row, _ in pairs]] = self._comparison.gaps([witness for _, witness in pairs])
        return replace(found, unequal=unequal, gap=gap, first=first, other=other, unknown=unknown)
