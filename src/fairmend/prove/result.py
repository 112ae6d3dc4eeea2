"""The result of `certify`: a verdict for each input, with a witness or a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from fairmend.base.text import condition_text, html_pairs, percent
from fairmend.prove.witness import Witness
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CertifyResult", "Verdict", "Witness"]


_MEANING = (
    "FAIR is proven. UNFAIR has a witness, a similar person who is treated differently. UNKNOWN is neither, and "
    "to_frame() has the reasons."
)


class Verdict(Enum):
    """FAIR: proven in real arithmetic. UNFAIR: shown by a witness, confirmed in real arithmetic. UNKNOWN: neither."""

    FAIR = "fair"
    UNFAIR = "unfair"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False, repr=False)
class CertifyResult:
    """The verdict on each input, in order.

    Attributes
    ----------
    verdicts : one per input
    witnesses : for each UNFAIR input the pair that shows it, else None
    reasons : for each UNKNOWN input the reason, else ""
    engine : the engine that decided: "enumerate", "branch" or "milp"
    seconds : the time that it took
    condition : what must be true of the program that runs the model, if its file leaves that open, else ""
    """

    verdicts: Sequence[Verdict]
    witnesses: Sequence[Witness | None]
    reasons: Sequence[str]
    engine: str
    seconds: float
    condition: str = ""

    def __len__(self) -> int:
        """Return the number of inputs."""
        return len(self.verdicts)

    def __repr__(self) -> str:
        """Return the number of each verdict, the engine and the time."""
        counts = ", ".join(f"{self.counts[verdict.value]:,} {verdict.name}" for verdict in Verdict)
        return (
            f"CertifyResult({len(self):,} inputs: {counts}; unfair rate {percent(self.unfair_rate, 2)}, "
            f"engine {self.engine}, {self.seconds:.2f} s{condition_text(self.condition)})"
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of inputs that are "fair", "unfair" and "unknown"."""
        return {verdict.value: sum(v is verdict for v in self.verdicts) for verdict in Verdict}

    @property
    def unfair_rate(self) -> float:
        """The share of UNFAIR inputs, 0 to 1 (CUR in the paper); a lower bound if some inputs are UNKNOWN."""
        return self.counts["unfair"] / len(self)

    def to_frame(self, spec: Spec | None = None) -> pd.DataFrame:
        """Return one row for each input: verdict and reason, and with the spec the witness in words."""
        import pandas as pd

        columns: dict[str, list[str]] = {
            "verdict": [verdict.value for verdict in self.verdicts],
            "reason": list(self.reasons),
        }
        if spec is not None:
            columns["witness"] = ["" if witness is None else witness.describe(spec) for witness in self.witnesses]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """Show the number of each verdict in a notebook."""
        rows = [(verdict.name, f"{self.counts[verdict.value]:,}") for verdict in Verdict]
        notes = [f"Engine {self.engine}, {self.seconds:.2f} s. {_MEANING}"]
        notes += [f"Condition: {self.condition}"] if self.condition else []
        return html_pairs(f"Verdicts on {len(self):,} inputs", rows, notes)

    def as_dict(self, spec: Spec, negative: str | None = None) -> dict[str, Any]:
        """Return the result as plain data, ready for JSON; ``negative`` is what class 0 of two means, if known."""
        return {
            "engine": self.engine,
            "seconds": self.seconds,
            "inputs": len(self),
            "counts": self.counts,
            "unfair_rate": self.unfair_rate,
            "verdicts": [verdict.value for verdict in self.verdicts],
            "reasons": list(self.reasons),
            "witnesses": [witness and witness.as_dict(spec, negative) for witness in self.witnesses],
            "condition": self.condition,
        }
