"""The result of a search for unequal treatment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairmend.arrays import FloatArray


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
