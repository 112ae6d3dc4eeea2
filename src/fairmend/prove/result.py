"""The answer of certify: a verdict for each input, and witnesses: similar people who are treated unequally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.text import capitalized, condition_text, html_pairs, percent, printable
from fairmend.network import Model
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


# Witnesses: pairs of similar people that the network treats unequally.


@dataclass(frozen=True, eq=False)
class Witness:
    """An input x (width,) and a counterfactual, both encoded, with the different classes that the network predicted.

    Both classes are those of exact arithmetic as well. It is a ``tie`` if a score is within the rounding error of
    inference: another library, or another order of summation, may then predict one class for both.

    If the spec claims scores, x and other are the two people in the neighbourhood of the input whose ``scores`` differ
    by more than delta, in exact arithmetic as well; of a network with several outputs, those of ``output``. It is a
    ``tie`` if inference may round the difference to delta or less.

    ``classes`` is the number of the network's classes, by which the two classes are named.
    """

    x: FloatArray
    other: FloatArray
    answer: int | None
    other_answer: int | None
    tie: bool = False
    scores: tuple[float, float] | None = None
    output: int | None = None
    classes: int = 2

    def describe(self, spec: Spec, negative: str | None = None) -> str:
        """Return how the two differ, in the user's own values, and the class or score of each.

        ``negative`` is what class 0 of two means, if the data shows it.
        """
        tie = " (a tie: within the rounding error of inference)" if self.tie else ""
        if self.scores is not None:
            what = "score" if self.output is None else f"score {self.output}"
            scores = f"{what} {self.scores[1]:.5g} instead of {self.scores[0]:.5g}"
            return f"{spec.describe_pair(self.x, self.other)}: {scores}{tie}"
        answers = [answer for answer in (self.answer, self.other_answer) if answer is not None]
        own, other = (
            printable(spec.name_class(answer, self.classes) if answer or negative is None else negative)
            for answer in answers
        )
        return f"{spec.describe_pair(self.x, self.other)}: {other} instead of {own}{tie}"

    def as_dict(self, spec: Spec, negative: str | None = None) -> dict[str, Any]:
        """Return both as plain data, in the user's own values."""
        x, other = (spec.decode(row[None]).iloc[0].to_dict() for row in (self.x, self.other))
        return {
            "x": x,
            "other": other,
            "answer": self.answer,
            "other_answer": self.other_answer,
            "scores": None if self.scores is None else list(self.scores),
            "output": self.output,
            "tie": self.tie,
            "words": self.describe(spec, negative),
        }


def keep_ignored_features(net: Model, spec: Spec, X: FloatArray, other: FloatArray) -> FloatArray:
    """Return the counterfactuals ``other (k, width)`` with X's own values in every feature that the network ignores.

    The network ignores a feature if no weight lets it through to the output, so the scores stay the same.
    Otherwise a witness could show a change of a feature that the network provably does not depend on. Features of links
    stay as they are, because they change together.
    """
    used = net.read_columns
    ignored = np.zeros(spec.width, dtype=np.bool_)
    tied = {name for link in spec.links for name in (*link.when, *link.then)}
    for feature in spec.features:
        columns = spec.columns(feature.name)
        ignored[columns] = feature.name not in tied and not used[columns].any()
    return np.where(ignored, X, other)


_MEANING = (
    "FAIR is proven. UNFAIR has a witness, a similar person who is treated differently. UNKNOWN is neither, and "
    "to_frame() has the reasons."
)


_MEANING_RUN = (
    "FAIR: all similar people got one answer. UNFAIR has a witness, a similar person who got another one. UNKNOWN is "
    "neither, and to_frame() has the reasons."
)


class Verdict(Enum):
    """FAIR: proven in real arithmetic. UNFAIR: shown by a witness, confirmed in real arithmetic. UNKNOWN: neither.

    Of a model that is only run: what all similar people got when they were run.
    """

    FAIR = "fair"
    UNFAIR = "unfair"
    UNKNOWN = "unknown"


def decided_by(engine: str, runtime: str) -> str:
    """Return how verdicts were found: "engine branch", or "by enumeration in ONNX Runtime 1.31.1"."""
    return f"by enumeration in {runtime}" if runtime else f"engine {engine}"


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
    runtime : what ran a model that is only run, on every counterfactual; "" if FAIR is proven
    """

    verdicts: Sequence[Verdict]
    witnesses: Sequence[Witness | None]
    reasons: Sequence[str]
    engine: str
    seconds: float
    condition: str = ""
    runtime: str = ""

    def __len__(self) -> int:
        """Return the number of inputs."""
        return len(self.verdicts)

    def __repr__(self) -> str:
        """Return the number of each verdict, the engine and the time."""
        counts = ", ".join(f"{self.counts[verdict.value]:,} {verdict.name}" for verdict in Verdict)
        return (
            f"CertifyResult({len(self):,} inputs: {counts}; unfair rate {percent(self.unfair_rate, 2)}, "
            f"{self.how}, {self.seconds:.2f} s{condition_text(self.condition)})"
        )

    @property
    def how(self) -> str:
        """How it was decided: "engine branch", or "by enumeration in ONNX Runtime 1.31.1"."""
        return decided_by(self.engine, self.runtime)

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
        notes = [f"{capitalized(self.how)}, {self.seconds:.2f} s. {_MEANING_RUN if self.runtime else _MEANING}"]
        notes += [f"Condition: {self.condition}"] if self.condition else []
        return html_pairs(f"Verdicts on {len(self):,} inputs", rows, notes)

    def as_dict(self, spec: Spec, negative: str | None = None) -> dict[str, Any]:
        """Return the result as plain data, ready for JSON; ``negative`` is what class 0 of two means, if known."""
        return {
            "engine": self.engine,
            "runtime": self.runtime,
            "seconds": self.seconds,
            "inputs": len(self),
            "counts": self.counts,
            "unfair_rate": self.unfair_rate,
            "verdicts": [verdict.value for verdict in self.verdicts],
            "reasons": list(self.reasons),
            "witnesses": [witness and witness.as_dict(spec, negative) for witness in self.witnesses],
            "condition": self.condition,
        }
