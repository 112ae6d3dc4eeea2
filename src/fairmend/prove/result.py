"""What `certify` says of each input, and the pair that shows it where the input is treated unequally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fairmend.arrays import FloatArray
from fairmend.spec import Spec


class Verdict(Enum):
    """FAIR is proven, in real arithmetic; UNFAIR is shown by a witness; UNKNOWN is neither, with a reason."""

    FAIR = "fair"
    UNFAIR = "unfair"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Witness:
    """An input x (width,) and a neighbour, both encoded, that the network itself was seen to answer differently."""

    x: FloatArray
    other: FloatArray
    answer: int
    other_answer: int

    def describe(self, spec: Spec) -> str:
        """Return in the user's own values how the two differ, and what each is answered."""
        return f"{spec.describe_pair(self.x, self.other)}: class {self.other_answer} instead of {self.answer}"

    def as_dict(self, spec: Spec) -> dict[str, Any]:
        """Return both as plain data, in the user's values."""
        x, other = (spec.decode(row[None]).iloc[0].to_dict() for row in (self.x, self.other))
        return {
            "x": x,
            "other": other,
            "answer": self.answer,
            "other_answer": self.other_answer,
            "words": self.describe(spec),
        }


@dataclass(frozen=True, eq=False, repr=False)
class CertifyResult:
    """The verdict on every input, in order.

    Attributes
    ----------
    verdicts : one per input
    witnesses : for each UNFAIR input the pair that shows it, else None
    reasons : for each UNKNOWN input why, else ""
    engine : which engine decided: "enumerate", "branch" or "milp"
    seconds : how long it took
    """

    verdicts: Sequence[Verdict]
    witnesses: Sequence[Witness | None]
    reasons: Sequence[str]
    engine: str
    seconds: float

    def __len__(self) -> int:
        """How many inputs there are."""
        return len(self.verdicts)

    def __repr__(self) -> str:
        """How many of each, and how that was found."""
        counts = ", ".join(f"{self.counts[verdict.value]} {verdict.name}" for verdict in Verdict)
        return (
            f"CertifyResult({len(self)} inputs: {counts}; unfair rate {self.unfair_rate:.2%}, "
            f"engine {self.engine}, {self.seconds:.2f} s)"
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many inputs are "fair", "unfair" and "unknown"."""
        return {verdict.value: sum(v is verdict for v in self.verdicts) for verdict in Verdict}

    @property
    def unfair_rate(self) -> float:
        """The paper's CUR, 0 to 1: the share of inputs shown to be UNFAIR; a lower bound where some are UNKNOWN."""
        return self.counts["unfair"] / len(self)

    def as_dict(self, spec: Spec) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold."""
        return {
            "engine": self.engine,
            "seconds": self.seconds,
            "inputs": len(self),
            "counts": self.counts,
            "unfair_rate": self.unfair_rate,
            "verdicts": [verdict.value for verdict in self.verdicts],
            "reasons": list(self.reasons),
            "witnesses": [witness and witness.as_dict(spec) for witness in self.witnesses],
        }
