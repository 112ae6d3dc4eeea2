"""Claim: what fairness demands of similar people: the same class, or scores that differ by at most delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairmend.spec.validation import validate_claim


@dataclass(frozen=True)
class Claim:
    """What a model owes similar people.

    A class claim says that the whole neighbourhood of a person gets one class. A score claim says that any two people
    of the neighbourhood have scores that differ by at most ``delta``; with several outputs, each of them.

    Attributes
    ----------
    kind : "class" or "score"
    delta : the largest difference allowed, above 0 (and below 1 for probabilities); score claims only
    on : the score: "probability", "logit" (the raw output of a classifier) or "output" (of a regression network)
    """

    kind: str = "class"
    delta: float | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        """Validate every field, and store delta as a float."""
        object.__setattr__(self, "delta", validate_claim(self))

    @property
    def is_score(self) -> bool:
        """Whether the claim is about scores instead of classes."""
        return self.kind == "score"

    @property
    def limit(self) -> float:
        """The largest difference of scores that a score claim allows."""
        if self.delta is None:
            raise ValueError("a claim about classes has no delta")
        return self.delta

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as a TOML table."""
        return {"kind": self.kind} | ({"delta": self.delta, "on": self.on} if self.is_score else {})
