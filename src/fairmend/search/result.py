"""What a search for unequal treatment came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairmend.arrays import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The individual discriminatory instances (IDIs) that a tester found.

    Attributes
    ----------
    idis : (count, width), inputs with a neighbour that gets another answer, confirmed; no two are equal in everything
        that is not protected
    others : (count, width), such a neighbour of each
    method : which tester
    seeds : how many seeds it started from, which may be fewer than asked for
    starts : how many seeds led to an IDI in the global phase
    calls : how often the search evaluated the network, gradients included; the confirmation is not counted
    exact : whether IDIs were confirmed by enumerating neighbourhoods; else by their neighbour in `others` alone
    seconds : how long it took
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
        """How many IDIs."""
        return len(self.idis)

    def __repr__(self) -> str:
        """How many, from how much."""
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
