"""[label] and [about]: the column with the outcome and what its values mean, and which model it is.

Every field is checked when a `Label` is created, so that the rest of fairmend can rely on it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_repeated, shown, suggest
from fairmend.spec.toml import (
    as_list,
    as_number,
    as_value_text,
    read_toml,
    require_known_keys,
    to_table,
)

_LONGEST = 2_000  # characters of a text
_PROBABILITY = (0.0, 1.0)
_WIDEST = 2.0**30  # a range of scores


@dataclass(frozen=True)
class Label:
    """The column that holds the outcome, and its positive value or its classes; without them, a number to predict.

    ``classes`` are the values of the label in the order of the network's outputs, if it has more than two.
    ``threshold`` is the score from which a person gets the positive prediction: the probability of the positive class,
    or if the model rescales it to ``score_range``, such as (300, 850), a number of that range. By default it is the
    score of the probability 0.5.
    ``score`` names a column with the scores that the model itself gave, in the same unit, or for a number to
    predict the output. Commands compare the network with it before they rely on the spec.
    ``favourable`` is the class that is good for the person, if that is not the positive one: a lender's positive class
    may be "default". Selection rates and impact ratios are about it.
    """

    column: str
    positive: str | None = None
    threshold: float = None  # type: ignore[assignment]  # the middle of the range: `__post_init__` sets it
    score: str | None = None
    classes: tuple[str, ...] = ()
    favourable: str | None = None
    score_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        """Validate every field, and store values of the label as text and the threshold as a float."""
        object.__setattr__(self, "classes", _classes(self))
        object.__setattr__(self, "positive", _positive(self))
        object.__setattr__(self, "score_range", _score_range(self))
        object.__setattr__(self, "threshold", _threshold(self))
        object.__setattr__(self, "favourable", _favourable(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the label as a TOML table, without the keys at their defaults."""
        table = to_table(self)
        if self.threshold == _middle(self.score_range):
            del table["threshold"]
        return table

    @property
    def probability(self) -> float:
        """The probability at the threshold, as the nearest number."""
        low, high = map(Fraction, self.score_range)
        return float((Fraction(self.threshold) - low) / (high - low))

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
    low, high = label.score_range
    if label.threshold is None:
        return _middle(label.score_range)
    threshold = as_number(label.threshold, "[label]: threshold")
    if not low < threshold < high and (low, high) == _PROBABILITY:
        hint = ". Of scores in another unit, say which they are: score_range = [300, 850]" if threshold > 1 else ""
        raise FairmendError(f"[label]: threshold must be a probability above 0 and below 1, got {threshold:g}{hint}")
    if not low < threshold < high:
        raise FairmendError(f"[label]: threshold must be a score above {low:g} and below {high:g}, got {threshold:g}")
    if threshold != 0.5 and label.positive is None:
        lacks = (
            f"has {len(label.classes)} classes. Remove" if label.classes else "has no positive value. Add it, or remove"
        )
        raise FairmendError(
            f'[label]: a threshold decides between two classes, but "{label.column}" {lacks} the threshold.'
        )
    return threshold


def _score_range(label: Label) -> tuple[float, float]:
    """Return the scores of the probabilities 0 and 1; raise an error for a wrong range."""
    given = as_list(label.score_range)
    if given is None or len(given) != 2:
        raise FairmendError(f"[label]: score_range must be two numbers, such as [300, 850], got {label.score_range!r}")
    low, high = (as_number(end, "[label]: an end of score_range") for end in given)
    if not 1 / _WIDEST <= high - low <= _WIDEST:
        raise FairmendError(f"[label]: score_range must rise, from the lowest score to the highest, got {given!r}")
    if (low, high) != _PROBABILITY and label.positive is None:
        raise FairmendError(
            "[label]: score_range is for the scores of a positive value. Add positive = ..., or remove it"
        )
    return low, high


def _middle(ends: tuple[float, float]) -> float:
    """Return the score of the probability 0.5."""
    return ends[0] / 2 + ends[1] / 2


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
