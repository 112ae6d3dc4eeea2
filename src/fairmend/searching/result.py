"""The result of a search for unequal treatment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.text import html_pairs
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


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
        rows = [
            ("People found who are treated unequally (IDIs)", f"{self.count:,}"),
            ("Seeds that led to one", f"{self.starts:,} of {self.seeds:,}"),
            ("Model calls", f"{self.calls:,}"),
            ("Seconds", f"{self.seconds:.1f}"),
        ]
        return html_pairs(f"Search with {self.method}", rows)

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
