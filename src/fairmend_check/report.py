"""The answer of the checker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Whether a certificate holds for a model file, and what it then says.

    Attributes
    ----------
    valid : whether everything claimed was confirmed
    reasons : why not; empty where it is valid
    claim : what the data of the certificate claims, in the checker's own words; empty where it could not be read
    regions : how many neighbourhoods are claimed
    covers_inference : whether the margins exceed the rounding errors of inference in the precision that the
        certificate names (in that of the model where it names none); None where that was not reached
    least_margin : the smallest margin over all neighbourhoods, as the checker itself found it; None without regions
    seconds : how long it took
    """

    valid: bool
    reasons: tuple[str, ...]
    claim: str
    regions: int
    covers_inference: bool | None
    least_margin: float | None
    seconds: float

    def __repr__(self) -> str:
        """The verdict, and the claim or the reasons."""
        if not self.valid:
            return f"CheckResult(INVALID: {'; '.join(self.reasons)})"
        margin = "" if self.least_margin is None else f", least margin {self.least_margin:.3g}"
        return f"CheckResult(VALID: {self.claim} {self.regions} regions{margin}, {self.seconds:.2f} s)"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}
