"""The result of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairmend_check.printable import printable


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Whether a certificate holds for a model file, and what it claims.

    Attributes
    ----------
    valid : whether every claim of the certificate was confirmed
    reasons : why the certificate is not valid; empty if it is
    claim : what the data of the certificate claims, in the checker's own words; empty if the data cannot be read
    regions : number of neighbourhoods that the certificate makes a claim about
    covers_inference : whether every margin exceeds the rounding errors of inference in the model's precision, or every
        difference of scores keeps within its limit despite them; None if the check did not get that far
    least_margin : the smallest margin over all neighbourhoods, as computed by the checker; None without regions, and
        for a claim about scores
    seconds : duration of the check
    condition : what must be true of the program that runs the model, if the file leaves that open (a state dict names
        neither the order of its layers nor their activations); empty if the file fixes it
    largest_difference : for a claim about scores, a bound of the difference between two scores of any neighbourhood,
        in inference if ``covers_inference``, else in exact arithmetic; None for a claim about classes
    """

    valid: bool
    reasons: tuple[str, ...]
    claim: str
    regions: int
    covers_inference: bool | None
    least_margin: float | None
    seconds: float
    condition: str = ""
    largest_difference: float | None = None

    def __repr__(self) -> str:
        """Return the verdict with the claim, or with the reasons."""
        if not self.valid:
            return f"CheckResult(INVALID: {printable('; '.join(self.reasons))})"
        margin = "" if self.least_margin is None else f", least margin {self.least_margin:.3g}"
        if self.largest_difference is not None:
            margin = f", largest difference {self.largest_difference:.3g}"
        regions = f" {self.regions:,} regions{margin}," if self.regions else ""
        condition = f" Condition: {printable(self.condition)}" if self.condition else ""
        return f"CheckResult(VALID: {printable(self.claim)}{condition}{regions} {self.seconds:.2f} s)"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}
