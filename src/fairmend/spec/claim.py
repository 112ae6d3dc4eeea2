"""[label], [claim] and [about]: the outcome, what similar people are owed, and which model it is.

Every field is checked when a `Label` or a `Claim` is created, so that the rest of fairmend can rely on it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, exact_number, shown, suggest
from fairmend.spec.toml import (
    as_list,
    as_number,
    as_value_text,
    first_repeated,
    read_toml,
    require_known_keys,
    require_one_of,
    to_table,
)

_SCORES = ("probability", "logit", "output")
_LONGEST = 2_000  # characters of a text
_Offer = TypeVar("_Offer")


@dataclass(frozen=True)
class Label:
    """The column that holds the outcome, and its positive value or its classes; without them, a number to predict.

    ``classes`` are the values of the label in the order of the network's outputs, if it has more than two.
    ``threshold`` is the probability of the positive class from which a person gets the positive prediction.
    ``score`` names a column with the scores that the model itself gave: the probability of the positive class, or for
    a number to predict the output. Commands compare the network with it before they rely on the spec.
    ``favourable`` is the class that is good for the person, if that is not the positive one: a lender's positive class
    may be "default". Selection rates and impact ratios are about it.
    """

    column: str
    positive: str | None = None
    threshold: float = 0.5
    score: str | None = None
    classes: tuple[str, ...] = ()
    favourable: str | None = None

    def __post_init__(self) -> None:
        """Validate every field, and store values of the label as text and the threshold as a float."""
        object.__setattr__(self, "classes", _classes(self))
        object.__setattr__(self, "positive", _positive(self))
        object.__setattr__(self, "threshold", _threshold(self))
        object.__setattr__(self, "favourable", _favourable(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the label as a TOML table, without the keys at their defaults."""
        return to_table(self)

    @property
    def is_number(self) -> bool:
        """Whether the outcome is a number to predict."""
        return self.positive is None and not self.classes

    @property
    def favourable_class(self) -> int | None:
        """The number of the class that is good for the person: of two, 1 by default; of more, None unless it is given.

        Of two classes, any value but the positive one means class 0.
        """
        if self.classes:
            return None if self.favourable is None else self.classes.index(self.favourable)
        return int(self.favourable in (None, self.positive))

    def name_class(self, number: int) -> str:
        """Return what a class of the network means: B, or "yes" and "not yes" of two classes."""
        if self.classes:
            return self.classes[number] if number < len(self.classes) else f"class {number}"
        if self.positive is None or number > 1:
            return f"class {number}"
        return self.positive if number else f"not {self.positive}"

    def name_negative(self, values: Iterable[object]) -> str:
        """Return what class 0 of two means: the other of the two values in the data, or "not yes" without just one."""
        others = {as_text(value) for value in values} - {self.positive}
        return others.pop() if len(others) == 1 else self.name_class(0)


def _positive(label: Label) -> str | None:
    """Return the positive value of a label as text, if it has one; raise an error for a wrong column or value."""
    if not isinstance(label.column, str) or not label.column:
        raise FairmendError(f"[label]: column must be the name of a column, got {label.column!r}")
    if label.score is not None and (not isinstance(label.score, str) or label.score in ("", label.column)):
        raise FairmendError(f"[label]: score must be the name of a column other than the label, got {label.score!r}")
    return None if label.positive is None else as_value_text(label.positive, "[label]: positive")


def _classes(label: Label) -> tuple[str, ...]:
    """Return the classes of a label as text; raise an error for wrong ones."""
    given = as_list(label.classes)
    if given is None:
        raise FairmendError(f"[label]: classes must be a list of label values, got {label.classes!r}")
    texts = tuple(as_value_text(value, "[label]: a class") for value in given)
    if not texts:
        return ()
    twice = first_repeated(texts)
    if twice is not None:
        raise FairmendError(f'[label]: class "{twice}" is listed twice. Remove one.')
    if len(texts) < 3:
        raise FairmendError(
            "[label]: classes is for three or more classes. Of two, set the positive one: positive = ..."
        )
    if label.positive is not None:
        raise FairmendError("[label]: positive is for two classes, and classes for more. Remove one of them.")
    return texts


def _threshold(label: Label) -> float:
    """Return the threshold of a label as a float; raise an error for a wrong one."""
    threshold = as_number(label.threshold, "[label]: threshold")
    if not 0 < threshold < 1:
        raise FairmendError(f"[label]: threshold must be a probability above 0 and below 1, got {threshold:g}")
    if threshold != 0.5 and label.positive is None:
        lacks = (
            f"has {len(label.classes)} classes. Remove" if label.classes else "has no positive value. Add it, or remove"
        )
        raise FairmendError(
            f'[label]: a threshold decides between two classes, but "{label.column}" {lacks} the threshold.'
        )
    return threshold


def _favourable(label: Label) -> str | None:
    """Return the favourable value of a label as text, if it is given; raise an error for one that is no class."""
    if label.favourable is None:
        return None
    text = as_value_text(label.favourable, "[label]: favourable")
    if label.is_number:
        raise FairmendError("[label]: favourable names a class, but the label has neither positive nor classes.")
    if label.classes and text not in label.classes:
        hint = suggest(text, label.classes)
        raise FairmendError(f'[label]: favourable must be one of the classes, got "{text}"{hint}')
    return text


class ClaimWords(NamedTuple):
    """How sentences speak of a claim.

    ``answer`` is what is compared, in one word; ``brief`` is what titles add. People who are treated equally keep
    something, which stays the same for a certificate; otherwise they get another one. ``rounding`` is what a proof in
    exact arithmetic alone leaves open.
    """

    answer: str
    sentence: str
    brief: str
    equal: str
    unequal: str
    keeps: str
    stays: str
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
        return self.kind == "score"

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
        """Return the offer for this kind of claim, such as the class that proves it; refuse if there is none."""
        if self.kind not in offers:
            raise FairmendError(f"{what} is not possible for a claim about {self.words().answer}s. Remove [claim].")
        return offers[self.kind]

    def require_classes(self, what: str, way_out: str) -> None:
        """Raise an error unless the claim is about classes, which ``what`` compares."""
        raise FairmendError(f"{what}, but the spec claims {self.words().answer}s. {way_out}")

    def name_outcomes(self, label: Label | None) -> tuple[str, ...]:
        """Return the values that are compared, if the label lists them."""
        return ()


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
            stays=f"the prediction of this model{at_threshold} stays the same whatever its",
            another="a different prediction",
            changes="prediction",
            rounding="The margin is below the rounding errors of inference, which may change a prediction of the "
            "deployed model.",
        )

    def require_classes(self, what: str, way_out: str) -> None:
        """Do nothing: the claim is about classes."""

    def name_outcomes(self, label: Label | None) -> tuple[str, ...]:
        """Return the classes of the label."""
        return () if label is None else label.classes


class ScoreClaim(Claim):
    """The scores of any two people in a neighbourhood differ by at most delta."""

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
            stays=f"the scores ({on}) of any two people who are similar to it differ by at most {exact}, whatever "
            "their",
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


@dataclass(frozen=True)
class About:
    """What the top of a report says about the model; nothing that is proven depends on it.

    A text that is not given is empty.

    Attributes
    ----------
    name, version : of the model
    owner, contact : who answers for it, and how to reach them
    purpose : what it decides, and about whom
    approved_by, date : the sign-off: who approved the model, and when
    """

    name: str = ""
    version: str = ""
    owner: str = ""
    purpose: str = ""
    contact: str = ""
    approved_by: str = ""
    date: str = ""

    def updated(self, other: About) -> About:
        """Return these texts, replaced by those that `other` gives."""
        return replace(self, **other.to_dict())

    def to_dict(self) -> dict[str, str]:
        """Return the texts that are given."""
        return {key: text for key, text in asdict(self).items() if text}


def as_about(given: About | Mapping[str, Any] | None, where: str = "[about]") -> About:
    """Return a table as `About`; refuse unknown keys and values that are not texts."""
    if given is None or isinstance(given, About):
        return given or About()
    if not isinstance(given, Mapping):
        raise FairmendError(f'{where} must be a table of keys and values, such as owner = "Credit risk", got {given!r}')
    require_known_keys(given, [key.name for key in fields(About)], where)
    return About(**{key: _as_text(value, f"{where}: {key}") for key, value in given.items()})


def load_about(path: str | os.PathLike[str]) -> About:
    """Return the file of --about: the keys of [about] at its top level, or in a table [about]."""
    data = read_toml(path, "the file of --about")
    tables = data.get("about")
    nested = isinstance(tables, Mapping) and len(data) == 1
    try:
        return as_about(tables if nested else data, "the file")
    except FairmendError as error:
        raise FairmendError(f"{path}: {error}") from error


def _as_text(value: object, where: str) -> str:
    """Return a text; a date may also be written as TOML writes one, without quotes."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, str):
        raise FairmendError(f'{where} must be a text, got {value!r}. Write "{shown(value)}", in quotes.')
    if len(value) > _LONGEST:
        raise FairmendError(f"{where} has {len(value):,} characters. Write at most {_LONGEST:,}.")
    return value.strip()
