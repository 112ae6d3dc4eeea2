"""How the differences of scores are distributed over the audited inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairmend.arrays import Floats
from fairmend.spec import Claim

__all__ = ["ScoreCollector", "ScoreSummary"]

_MOST_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class ScoreSummary:
    """How far the scores of similar people differ.

    Attributes
    ----------
    claim : what the spec claims about scores
    largest : the largest difference within any neighbourhood
    differences : (inputs,), the largest difference in the neighbourhood of each of the first million inputs
    """

    claim: Claim
    largest: float
    differences: Floats = field(repr=False)

    @property
    def median(self) -> float:
        """The difference that half of the inputs do not exceed."""
        return float(np.quantile(self.differences, 0.5))

    @property
    def most(self) -> float:
        """The difference that 90 % of the inputs do not exceed."""
        return float(np.quantile(self.differences, 0.9))

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "on": self.claim.on,
            "delta": self.claim.delta,
            "largest": self.largest,
            "median": self.median,
            "p90": self.most,
        }


class ScoreCollector:
    """Collects the differences of a stream of inputs."""

    def __init__(self, claim: Claim) -> None:
        """Start without inputs."""
        self._claim = claim
        self._parts: list[Floats] = []
        self._left, self._largest = _MOST_ROWS, 0.0

    def add(self, differences: Floats) -> None:
        """Add the largest difference in the neighbourhood of each of the next inputs (k,)."""
        self._largest = max(self._largest, float(differences.max(initial=0.0)))
        if self._left:
            self._parts.append(differences[: self._left].copy())
            self._left -= len(self._parts[-1])

    def summary(self) -> ScoreSummary:
        """Return the figures of all inputs so far."""
        return ScoreSummary(self._claim, self._largest, np.concatenate(self._parts))
