"""The spec: the features of the inputs, and which inputs count as similar."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, only_keys, take
from fairmend_check.kernel.claim import CLAIMS, HALF, Claim, ClassClaim
from fairmend_check.kernel.features import Feature, read_feature
from fairmend_check.kernel.links import Link, most_parts, read_links

_MOST_RANGE = 2.0**30  # of the width of a range of scores
MAX_PARTS = 100_000  # into which links and bands may divide a neighbourhood
_PARTS = ("table", "label", "claim", "feature", "link")


@dataclass(frozen=True)
class Label:
    """The column with the outcome; ``positive`` is None for a number to predict, and for ``classes``, three or more.

    ``threshold`` is the score from which the positive class is predicted. Scores are probabilities of that class, or
    run from the first to the second number of ``score_range``, which stand for the probabilities 0 and 1.
    ``score`` names a column with the scores of the model. No claim depends on it, so it is not compared.
    ``favourable`` is the class that is good for a person, for reports. No claim depends on it either.
    """

    column: str
    positive: str | None = None
    threshold: float = HALF
    score: str | None = field(default=None, compare=False)
    classes: tuple[str, ...] = ()
    favourable: str | None = field(default=None, compare=False)
    score_range: tuple[float, float] = (0.0, 1.0)

    @property
    def probability(self) -> float:
        """The probability at the threshold, as the nearest number."""
        low, high = map(Fraction, self.score_range)
        return float((Fraction(self.threshold) - low) / (high - low))


CLASS_CLAIM = ClassClaim()
"""The claim of a spec that states none."""


@dataclass(frozen=True)
class Spec:
    """The features in the order of the model's inputs, and what else a spec can hold."""

    features: tuple[Feature, ...]
    label: Label | None
    claim: Claim = CLASS_CLAIM
    links: tuple[Link, ...] = ()
    id_column: str | None = field(default=None, compare=False)

    @property
    def threshold(self) -> float:
        """The probability of class 1 from which it is predicted."""
        return HALF if self.label is None else self.label.probability

    @property
    def score_range(self) -> tuple[float, float]:
        """The scores that stand for the probabilities 0 and 1."""
        return (0.0, 1.0) if self.label is None else self.label.score_range

    @property
    def width(self) -> int:
        """Number of columns of all features."""
        return sum(feature.width for feature in self.features)

    @cached_property
    def varying(self) -> tuple[Feature, ...]:
        """The features in which similar people may differ: protected, with a tolerance or bands, or linked."""
        linked = {name for link in self.links for name, _ in link.then}
        return tuple(feature for feature in self.features if feature.varies_by_itself or feature.name in linked)

    @cached_property
    def places(self) -> dict[str, tuple[Feature, int]]:
        """Each feature with its first column, by name."""
        return {feature.name: (feature, start) for feature, start in self.columns()}

    def columns(self) -> list[tuple[Feature, int]]:
        """Return each feature with its first column."""
        starts, start = [], 0
        for feature in self.features:
            starts.append((feature, start))
            start += feature.width
        return starts


def read_spec(content: dict[str, Any], where: str) -> Spec:
    """Return the spec in plain data; refuse one with parts that do not fit together."""
    only_keys(content, _PARTS, where)
    entries = take(content, "feature", list, where)
    features = tuple(read_feature(entry, f"{where}.feature[{i}]") for i, entry in enumerate(entries))
    if len({feature.name for feature in features}) != len(features):
        raise CheckError(f"{where} has two features of the same name")
    named = [name for feature in features for name in feature.columns]
    if len(set(named)) != len(named) or {feature.name for feature in features} & set(named):
        raise CheckError(f"{where} names a column twice, in columns or as a feature")
    if not any(feature.protected for feature in features):
        raise CheckError(f"{where} protects no feature")
    label = _label(content, where) if "label" in content else None
    claim = _claim(content["claim"], f"{where}.claim") if "claim" in content else CLASS_CLAIM
    if label and label.positive is None and not label.classes and claim.on != "output":
        raise CheckError(f'{where}.label has no positive value, so the claim must be about scores, on "output"')
    links = read_links(content, features, where)
    if most_parts(links, features) > MAX_PARTS:
        raise CheckError(f"{where}: links and bands divide a neighbourhood into more than {MAX_PARTS:,} parts")
    return Spec(features, label, claim, links, _id_column(content, where))


_WIDENED = ". A repair that widened the range to hold all rows wrote the spec that it used, as spec.toml"
_HINTS = {"low": _WIDENED, "high": _WIDENED}


def first_difference(ours: Spec, theirs: Spec) -> str | None:
    """Describe the first difference in meaning between two specs; None if there is none."""
    if len(ours.features) != len(theirs.features):
        return f"{len(theirs.features)} features instead of {len(ours.features)}"
    for one, other in zip(ours.features, theirs.features, strict=True):
        for key in (key for key in fields(Feature) if key.compare):
            before, after = getattr(one, key.name), getattr(other, key.name)
            if before != after:
                changed = f"{key.name} is {_shown(after)} instead of {_shown(before)}"
                return f'feature "{one.name}": {changed}{_HINTS.get(key.name, "")}'
    if ours.threshold != theirs.threshold:
        return f"the threshold is {theirs.threshold!r} instead of {ours.threshold!r}"
    if ours.label != theirs.label:
        return f"the label is {_named(theirs.label)} instead of {_named(ours.label)}"
    if ours.claim != theirs.claim:
        return f"the claim is {theirs.claim} instead of {ours.claim}"
    if set(ours.links) != set(theirs.links):
        return "the links are others"
    return None


def _named(label: Label | None) -> str:
    if label is None:
        return "none"
    values = f"the classes {_shown(label.classes)}" if label.classes else f"the positive value {label.positive!r}"
    return f"{label.column!r} with {values}"


def _shown(value: Any) -> str:
    """Return a value as in a spec file, and "none" for what is left out."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple) and isinstance(value[0], tuple) and not isinstance(value[0][-1], str):
        return f"{{{', '.join(f'{name} = {number}' for name, number in value)}}}"
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, tuple) else str(value)


def _label(content: dict[str, Any], where: str) -> Label:
    entry, where = take(content, "label", dict, where), f"{where}.label"
    only_keys(entry, ("column", "positive", "threshold", "score", "classes", "favourable", "score_range"), where)
    number = "positive" not in entry
    given = maybe(entry, "classes", list, where, [])
    classes = tuple(json_reader.text(value, where) for value in given)
    if classes and ("positive" in entry or len(set(classes)) != len(classes) or len(classes) < 3):
        raise CheckError(f"{where}.classes must be three or more distinct values, without a positive one")
    given_ends = entry.get("score_range", [0.0, 1.0])
    ends = tuple(json_reader.numbers(given_ends, 2, f"{where}.score_range").tolist())
    if not 1 / _MOST_RANGE <= ends[1] - ends[0] <= _MOST_RANGE or (number and ends != (0.0, 1.0)):
        raise CheckError(f"{where}.score_range must be two rising numbers, of a label with a positive value")
    label = Label(
        take(entry, "column", str, where),
        None if number else json_reader.text(entry.get("positive"), where),
        maybe(entry, "threshold", float, where, ends[0] / 2 + ends[1] / 2),
        maybe(entry, "score", str, where),
        classes,
        json_reader.text(entry["favourable"], where) if "favourable" in entry else None,
        (ends[0], ends[1]),
    )
    if not ends[0] < label.threshold < ends[1] or not 0 < label.probability < 1:
        raise CheckError(
            f"{where}.threshold is {label.threshold!r}; it must be above {ends[0]:g} and below {ends[1]:g}"
        )
    if number and label.threshold != HALF:
        raise CheckError(f"{where} has a threshold, but no positive value")
    return label


def _id_column(content: dict[str, Any], where: str) -> str | None:
    if "table" not in content:
        return None
    entry = take(content, "table", dict, where)
    only_keys(entry, ("id", "ranges"), f"{where}.table")
    if entry.get("ranges", "guessed") != "guessed":  # where ranges come from is nothing to the claim
        raise CheckError(f'{where}.table.ranges can only be "guessed"')
    found: str | None = maybe(entry, "id", str, f"{where}.table")
    return found


def _claim(entry: Any, where: str) -> Claim:
    kind = take(entry, "kind", str, where)
    if kind not in CLAIMS:
        raise CheckError(f"{where} has the unknown kind {kind[:40]}")
    only_keys(entry, ("kind", *CLAIMS[kind].KEYS), where)
    return CLAIMS[kind].read(entry, where)
