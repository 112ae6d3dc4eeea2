"""[claim]: what similar people are owed. Every field is checked when a `Claim` is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from fairmend.base.errors import FairmendError
from fairmend.base.text import exact_number
from fairmend.spec.label import Label
from fairmend.spec.toml import (
    as_number,
    require_one_of,
)

_SCORES = ("probability", "logit", "output")
_Offer = TypeVar("_Offer")


class ClaimWords(NamedTuple):
    """How sentences speak of a claim.

    ``answer`` is what is compared, in one word; ``brief`` is what titles add. People who are treated equally keep
    something; otherwise they get another one. ``rounding`` is what a proof in exact arithmetic alone leaves open.
    """

    answer: str
    sentence: str
    brief: str
    equal: str
    unequal: str
    keeps: str
    another: str
    changes: str
    rounding: str


@dataclass(frozen=True, repr=False)
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

    # What a kind says of itself; the rest of fairmend asks a claim, and not which kind it is.
    compares: ClassVar[str] = "class"  # "class" or "score": what is proven, audited and repaired
    stated: ClassVar[bool] = True  # in a spec: what no [claim] means is not
    certified_training: ClassVar[bool] = False  # makes the margin grow that the claim is about, if there is one

    def __new__(cls, kind: str = "class", delta: float | None = None, on: str | None = None) -> Claim:
        """Create a claim of the kind."""
        if cls is Claim:
            require_one_of(kind, tuple(_KINDS), "[claim]: kind")
            cls = _KINDS[kind]
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Refuse what only claims about scores have."""
        if self.delta is not None or self.on is not None:
            raise FairmendError('[claim]: delta and on need kind = "score". Change the kind, or remove them.')

    def __repr__(self) -> str:
        """Return how to create the claim."""
        return f"Claim({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    @property
    def is_score(self) -> bool:
        """Whether the claim is about scores instead of classes."""
        return self.compares == "score"

    @property
    def limit(self) -> float:
        """The largest difference that is allowed; 0 if similar people must get the same answer."""
        return self.delta or 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as a TOML table."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def words(self, at_threshold: str = "") -> ClaimWords:
        """Return how sentences speak of the claim; ``at_threshold`` follows what depends on the threshold."""
        raise NotImplementedError(self.kind)

    def choose(self, offers: Mapping[str, _Offer], what: str) -> _Offer:
        """Return the offer for what the claim compares, such as the class that proves it; refuse if there is none."""
        if self.compares not in offers:
            raise FairmendError(f"{what} is not possible for a claim about {self.words().answer}s. Remove [claim].")
        return offers[self.compares]

    def require_classes(self, what: str, way_out: str) -> None:
        """Raise an error unless the claim is about classes, which ``what`` compares."""
        raise FairmendError(f"{what}, but the spec claims {self.words().answer}s. {way_out}")


class ClassClaim(Claim):
    """Similar people get the same class."""

    stated = False
    certified_training = True

    def words(self, at_threshold: str = "") -> ClaimWords:
        """Return how sentences speak of the claim."""
        return ClaimWords(
            answer="prediction",
            sentence="Similar people get the same prediction.",
            brief="",
            equal="every similar person gets the same prediction",
            unequal="a similar person gets a different prediction",
            keeps=f"prediction{at_threshold}",
            another="a different prediction",
            changes="prediction",
            rounding="The margin is below the rounding errors of inference, which may change a prediction of the "
            "deployed model.",
        )

    def require_classes(self, what: str, way_out: str) -> None:
        """Do nothing: the claim is about classes."""


class ScoreClaim(Claim):
    """The scores of any two people in a neighbourhood differ by at most delta."""

    compares = "score"

    def __post_init__(self) -> None:
        """Validate every field, and store delta as a float."""
        if self.delta is None:
            raise FairmendError("[claim]: a claim about scores needs delta, the largest difference. Add delta = ...")
        if self.on is None:
            raise FairmendError(f"[claim]: a claim about scores needs on. Set it to one of {', '.join(_SCORES)}.")
        require_one_of(self.on, _SCORES, "[claim]: on")
        delta = as_number(self.delta, "[claim]: delta")
        if delta <= 0:
            raise FairmendError(f"[claim]: delta must be above 0, got {delta:g}")
        if self.on == "probability" and delta >= 1:
            raise FairmendError(f"[claim]: delta must be below 1, as probabilities differ by no more, got {delta:g}")
        object.__setattr__(self, "delta", delta)

    def words(self, at_threshold: str = "") -> ClaimWords:
        """Return how sentences speak of the claim; no threshold changes a score."""
        on, delta, exact = self.on, f"{self.limit:g}", exact_number(self.limit)
        return ClaimWords(
            answer="score",
            sentence=f"The scores ({on}) of any two people in a neighbourhood differ by at most {self.limit:.10g}.",
            brief=f"{on} within {delta}",
            equal=f"the scores ({on}) of similar people differ by at most {delta}",
            unequal=f"the scores ({on}) of two similar people differ by more than {delta}",
            keeps=f"{on} within a range of {exact}",
            another=f"another {on}, by more than {exact},",
            changes=f"score by more than {exact}",
            rounding="The rounding errors of inference may add to a difference of the deployed model's scores.",
        )


_KINDS: dict[str, type[Claim]] = {"class": ClassClaim, "score": ScoreClaim}


def validate_claim_for_label(claim: Claim, label: Label | None) -> None:
    """Raise an error for a claim about classes where the label is a number to predict, or the other way round."""
    if label is None:
        return
    if label.classes and claim.on == "output":
        raise FairmendError(
            f'[claim]: on = "output" is for a number to predict, but "{label.column}" has classes. Set on = "logit".'
        )
    if label.is_number and claim.on != "output":
        raise FairmendError(
            f'[label] has no positive value, so "{label.column}" is a number to predict. Add positive = ..., classes = '
            "[...] for more than two classes, or a "
            '[claim] with kind = "score", delta = ... and on = "output".'
        )
    if label.positive is not None and claim.on == "output":
        raise FairmendError(
            f'[claim]: on = "output" is for a number to predict, but "{label.column}" has a positive value. '
            'Set on = "logit", or remove positive from [label].'
        )
