"""How the differences of scores are distributed over the audited inputs, for a claim about scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairmend.base.arrays import Floats, quantiles
from fairmend.spec import Claim


@dataclass(frozen=True, eq=False)
class ScoreSummary:
    """How far the scores of similar people differ.

    Attributes
    ----------
    claim : what the spec claims about scores
    differences : (inputs,), the largest difference in the neighbourhood of each input
    """

    claim: Claim
    differences: Floats = field(repr=False)

    @property
    def largest(self) -> float:
        """The largest difference within any neighbourhood."""
        return float(self.differences.max())

    @property
    def median(self) -> float:
        """The difference that half of the inputs do not exceed."""
        return quantiles(self.differences, [0.5])[0]

    @property
    def most(self) -> float:
        """The difference that 90 % of the inputs do not exceed."""
        return quantiles(self.differences, [0.9])[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "on": self.claim.on,
            "delta": self.claim.delta,
            "largest": self.largest,
            "median": self.median,
            "p90": self.most,
        }
