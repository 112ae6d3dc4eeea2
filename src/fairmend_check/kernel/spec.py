"""The spec: the features of the inputs, and which inputs count as similar."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, only_keys, take
from fairmend_check.kernel.claim import HALF, Claim, ClassClaim, ScoreClaim

Runs = tuple[tuple[float, float], ...]  # first and last values, in order and apart from each other

MAX_BANDS = 10_000  # of a number
_EXACT = 2**53
_PARTS = ("table", "label", "claim", "feature", "link")
_KEYS = (
    "name", "kind", "range", "categories", "encoding", "scale", "protected", "tolerance", "dropped", "missing",
    "indicates", "names", "input", "bands", "columns",
)  # fmt: skip
_KINDS = ("continuous", "integer", "categorical", "as-is")
_KEYS_AS_IS = ("name", "kind", "missing", "input")  # no claim says more of a column that passes as it is
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Feature:
    """One feature with all defaults filled in; ``low`` and ``high`` of a category are those of its number.

    ``bands`` are the lower ends of the bands of a number, ``groups`` the bands of categories: people with values of the
    same band are similar. ``names`` are what people call the values; no claim depends on them, nor are they compared.
    ``columns`` are the names of the columns of data that is one-hot already. Of a column that passes ``as_is``, similar
    people have the same number, and claims about everyone hold for every number of float32.
    """

    name: str
    kind: str
    low: float
    high: float
    categories: tuple[str, ...]
    encoding: str
    scale: tuple[tuple[str, float], ...]
    protected: bool
    tolerance: float
    dropped: str | None
    missing: float | str | None
    indicates: str | None = None
    input: str | None = None
    names: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    bands: tuple[float, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def as_is(self) -> bool:
        """Whether the model reads the column as the data has it, and nothing else is said of its values."""
        return self.kind == "as-is"

    @property
    def one_hot(self) -> bool:
        """Whether it has one column for each category, except for a dropped one."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.categories) - (self.dropped is not None) if self.one_hot else 1

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers; categories count as such."""
        return self.kind in ("integer", "categorical")

    @property
    def reach(self) -> float:
        """How far the value of a neighbour may be from the value of the input."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies(self) -> bool:
        """Whether a neighbour can have another value."""
        return bool(self.bands or self.groups) or (self.reach > 0 and self.low < self.high)

    @cached_property
    def category_numbers(self) -> dict[str, float]:
        """The number of each category."""
        return {category: float(number) for number, category in enumerate(self.categories)}

    def runs_around(self, own: float) -> Runs:
        """Return the values, or the numbers of categories, of the band of an own one; not of a continuous feature."""
        for group in self.groups:
            numbers = [self.category_numbers[name] for name in group]
            if own in numbers:
                return _as_runs(numbers)
        ends = [*self.bands, self.high + 1]
        return tuple((low, end - 1) for low, end in pairwise(ends) if low <= own < end)

    @property
    def affine(self) -> tuple[float, float]:
        """Offset and factor: e(v) = (v - offset) / factor."""
        if not self.scale:
            return 0.0, 1.0
        (first, offset), (_, second) = self.scale
        return offset, second if first == "mean" else second - offset


@dataclass(frozen=True)
class Label:
    """The column with the outcome; ``positive`` is None for a number to predict, and for ``classes``, three or more.

    ``threshold`` is the probability of the positive class from which it is predicted.
    ``score`` names a column with the scores of the model. No claim depends on it, so it is not compared.
    ``favourable`` is the class that is good for a person, for reports. No claim depends on it either.
    """

    column: str
    positive: str | None = None
    threshold: float = HALF
    score: str | None = field(default=None, compare=False)
    classes: tuple[str, ...] = ()
    favourable: str | None = field(default=None, compare=False)


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
        return HALF if self.label is None else self.label.threshold

    @property
    def width(self) -> int:
        """Number of columns of all features."""
        return sum(feature.width for feature in self.features)

    @cached_property
    def varying(self) -> tuple[Feature, ...]:
        """The features in which similar people may differ: protected, with a tolerance or bands, or linked."""
        linked = {name for link in self.links for name, _ in link.then}
        return tuple(feature for feature in self.features if feature.varies or feature.name in linked)

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
    features = tuple(_feature(entry, f"{where}.feature[{i}]") for i, entry in enumerate(entries))
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
    if _most_parts(links, features) > MAX_PARTS:
        raise CheckError(f"{where}: links and bands divide a neighbourhood into more than {MAX_PARTS:,} parts")
    return Spec(features, label, claim, links, _id_column(content, where))


def first_difference(ours: Spec, theirs: Spec) -> str | None:
    """Describe the first difference in meaning between two specs; None if there is none."""
    if len(ours.features) != len(theirs.features):
        return f"{len(theirs.features)} features instead of {len(ours.features)}"
    for one, other in zip(ours.features, theirs.features, strict=True):
        for key in (key for key in fields(Feature) if key.compare):
            before, after = getattr(one, key.name), getattr(other, key.name)
            if before != after:
                return f'feature "{one.name}": {key.name} is {_shown(after)} instead of {_shown(before)}'
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


def _feature(entry: Any, where: str) -> Feature:
    name = take(entry, "name", str, where)
    where = f'feature "{name[:40]}" ({where})'
    only_keys(entry, _KEYS, where)
    kind = take(entry, "kind", str, where)
    if kind == "as-is":
        only_keys(entry, _KEYS_AS_IS, where)
    if kind not in _KINDS:
        raise CheckError(f"{where} has the unknown kind {kind[:40]}")
    encoding = maybe(entry, "encoding", str, where, "ordinal")
    protected = maybe(entry, "protected", bool, where, False)
    tolerance = maybe(entry, "tolerance", float, where, 0.0)
    if encoding not in ("ordinal", "one-hot") or (encoding == "one-hot" and kind != "categorical"):
        raise CheckError(f"{where} cannot have the encoding {encoding[:40]}")
    if tolerance < 0 or (tolerance > 0 and (protected or kind == "categorical")):
        raise CheckError(f"{where} cannot have a tolerance of {tolerance:g}")
    categories: tuple[str, ...] = ()
    if kind == "categorical":
        if "range" in entry:
            raise CheckError(f"{where} has categories, so it has no range")
        categories = tuple(json_reader.text(value, where) for value in take(entry, "categories", list, where))
        if not categories or len(set(categories)) != len(categories):
            raise CheckError(f"{where} needs distinct categories")
        low, high = 0.0, len(categories) - 1.0
    elif kind == "as-is":
        low, high = -_LARGEST, _LARGEST
    else:
        if "categories" in entry:
            raise CheckError(f"{where} has a range, so it has no categories")
        low, high = (float(end) for end in json_reader.numbers(entry.get("range"), 2, f"{where}.range"))
        if low > high:
            raise CheckError(f"{where} has an empty range")
    if kind == "integer":
        if not (low.is_integer() and high.is_integer()) or max(-low, high) > _EXACT:
            raise CheckError(f"{where} needs a range of whole numbers")
        low, high = int(low), int(high)
    if entry.get("protected") is True and low == high:
        raise CheckError(f"{where} is protected but has only one value, so nothing is claimed about it")
    scale = _scale(entry["scale"], where) if "scale" in entry else ()
    if scale and encoding == "one-hot":
        raise CheckError(f"{where} is one-hot and cannot have a scale")
    dropped = _category(entry["dropped"], categories, f"{where}.dropped") if "dropped" in entry else None
    if dropped is not None and (encoding != "one-hot" or len(categories) < 2):
        raise CheckError(f"{where} drops a category; only a one-hot feature with several categories can")
    columns = _one_hot_columns(entry, encoding, len(categories) - (dropped is not None), where)
    missing: float | str | None = None
    if "missing" in entry and kind == "categorical":
        missing = _category(entry["missing"], categories, f"{where}.missing")
    elif "missing" in entry:
        missing = take(entry, "missing", float, where)
        if not low <= missing <= high or (kind == "integer" and not missing.is_integer()):
            raise CheckError(f"{where} has a value for missing data that is not a possible value")
        missing = int(missing) if kind == "integer" else missing
    indicates = maybe(entry, "indicates", str, where)
    reader = maybe(entry, "input", str, where)
    names = tuple(_texts(entry["names"], f"{where}.names").items()) if "names" in entry else ()
    if not all(key in categories if categories else _is_whole(key, low, high) for key, _ in names):
        raise CheckError(f"{where}.names names something that is not one of its values")
    bands, groups = _bands(entry, kind, (low, high), categories, where)
    feature = Feature(
        name,
        kind,
        low,
        high,
        categories,
        encoding,
        scale,
        protected,
        tolerance,
        dropped,
        missing,
        indicates,
        reader,
        names,
        bands,
        groups,
        columns,
    )
    if not 0 < feature.affine[1] < math.inf:
        raise CheckError(f"{where} has a scale that is not positive")
    if (bands or groups) and (protected or tolerance):
        raise CheckError(f"{where} has bands, so it cannot be protected or have a tolerance")
    _require_edges(feature, where)
    return feature


def _one_hot_columns(entry: dict[str, Any], encoding: str, count: int, where: str) -> tuple[str, ...]:
    """Return the columns of data that is one-hot already; none if it is not."""
    if "columns" not in entry:
        return ()
    given = take(entry, "columns", list, where)
    if encoding != "one-hot" or "missing" in entry:
        raise CheckError(f"{where}.columns needs the encoding one-hot, and no value for missing data")
    if len(given) != count or not all(type(name) is str and name for name in given):
        raise CheckError(
            f"{where}.columns must name a column for each of its {count} categories, without the dropped one"
        )
    return tuple(given)


def _bands(
    entry: dict[str, Any], kind: str, ends: tuple[float, float], categories: tuple[str, ...], where: str
) -> tuple[tuple[float, ...], tuple[tuple[str, ...], ...]]:
    """Return the lower ends of the bands of a number, or the groups of categories; both empty if there are no bands."""
    given = entry.get("bands")
    if "bands" not in entry:
        return (), ()
    where = f"{where}.bands"
    if kind != "categorical":
        return _lower_ends(given, *ends, kind == "integer", where), ()
    if type(given) is not list or not all(type(group) is list and group for group in given):
        raise CheckError(f"{where} must be a list of lists of categories")
    named = [[_category(value, categories, where) for value in group] for group in given]
    if sorted(name for group in named for name in group) != sorted(categories):
        raise CheckError(f"{where} must hold every category once")
    if len(named) in (1, len(categories)):
        raise CheckError(f"{where} must be several, and not one for each category")
    in_order = (tuple(sorted(group, key=categories.index)) for group in named)
    return (), tuple(sorted(in_order, key=lambda group: categories.index(group[0])))


def _lower_ends(given: Any, low: float, high: float, whole: bool, where: str) -> tuple[float, ...]:
    """Return the lower ends of bands, listed or at equal distances from the lowest value."""
    if type(given) is dict:
        only_keys(given, ("width",), where)
        width = take(given, "width", float, where)
        if not (width > 0 and (high - low) / width <= MAX_BANDS):
            raise CheckError(f"{where}.width must be above 0, for at most {MAX_BANDS:,} bands")
        # A continuous range does not begin another band with what rounding leaves at its end.
        least = 0.0 if whole else width * 1e-9
        ends = [low + number * width for number in range(int((high - low) / width) + 2)]
        ends = [end for end in ends if end <= high and (whole or end == low or high - end > least)]
    else:
        if type(given) is not list or len(given) > MAX_BANDS:
            raise CheckError(f"{where} must be a list of at most {MAX_BANDS:,} numbers")
        ends = json_reader.numbers(given, len(given), where).tolist()
    if len(ends) < 2 or ends[0] != low or ends[-1] > high or not all(a < b for a, b in pairwise(ends)):
        raise CheckError(f"{where} must be two lower ends or more that increase, from the lowest value, in the range")
    if whole and (not all(float(end).is_integer() for end in ends) or len(ends) == high - low + 1):
        raise CheckError(f"{where} must be whole numbers, and not every value")
    return tuple(int(end) if whole else float(end) for end in ends)


def _require_edges(feature: Feature, where: str) -> None:
    """Refuse bands that a model cannot tell apart: float32 holds the same number for values on both sides of an edge.

    Whole numbers must be the ones that are nearest to what their encodings mean, or an input has a wrong band.
    """
    edges = [(after - 1 if feature.whole else before, after) for before, after in pairwise(feature.bands)]
    if feature.groups and not feature.one_hot:
        of = {name: number for number, group in enumerate(feature.groups) for name in group}
        pairs = enumerate(pairwise(feature.categories))
        edges = [(float(number), number + 1.0) for number, (one, other) in pairs if of[one] != of[other]]
    if edges:
        values, (offset, factor) = np.array(edges, np.float64), feature.affine
        with np.errstate(all="ignore"):
            encoded = ((values - offset) / factor).astype(np.float32)
            decoded = np.rint(encoded.astype(np.float64) * factor + offset)
        if not (encoded[:, 0] < encoded[:, 1]).all() or (feature.whole and not (decoded == values).all()):
            raise CheckError(f"{where} has bands that float32 cannot tell apart")


def _is_whole(text: str, low: float, high: float) -> bool:
    """Return whether a text is a whole number from low to high, as Python writes it."""
    return re.fullmatch("0|-?[1-9][0-9]{0,15}", text) is not None and low <= int(text) <= high


def _label(content: dict[str, Any], where: str) -> Label:
    entry, where = take(content, "label", dict, where), f"{where}.label"
    only_keys(entry, ("column", "positive", "threshold", "score", "classes", "favourable"), where)
    number = "positive" not in entry
    given = maybe(entry, "classes", list, where, [])
    classes = tuple(json_reader.text(value, where) for value in given)
    if classes and ("positive" in entry or len(set(classes)) != len(classes) or len(classes) < 3):
        raise CheckError(f"{where}.classes must be three or more distinct values, without a positive one")
    label = Label(
        take(entry, "column", str, where),
        None if number else json_reader.text(entry.get("positive"), where),
        maybe(entry, "threshold", float, where, HALF),
        maybe(entry, "score", str, where),
        classes,
        json_reader.text(entry["favourable"], where) if "favourable" in entry else None,
    )
    if not 0 < label.threshold < 1:
        raise CheckError(f"{where}.threshold is {label.threshold!r}; it must be above 0 and below 1")
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


def _texts(entry: Any, where: str) -> dict[str, str]:
    """Return a table of texts."""
    if type(entry) is not dict or not all(type(value) is str for value in entry.values()):
        raise CheckError(f"{where} must be a table of texts")
    return dict(entry)


def _claim(entry: Any, where: str) -> Claim:
    kind = take(entry, "kind", str, where)
    only_keys(entry, ("kind", "delta", "on") if kind == "score" else ("kind",), where)
    if kind == "class":
        return CLASS_CLAIM
    if kind != "score":
        raise CheckError(f"{where} has the unknown kind {kind[:40]}")
    delta, on = take(entry, "delta", float, where), take(entry, "on", str, where)
    if on not in ("probability", "logit", "output"):
        raise CheckError(f"{where}.on is {on[:40]!r}; it must be probability, logit or output")
    if not 0 < delta < (1 if on == "probability" else math.inf):
        raise CheckError(f"{where}.delta is {delta!r}; it must be above 0, and below 1 for probabilities")
    return ScoreClaim(on=on, delta=delta)


def _scale(entry: Any, where: str) -> tuple[tuple[str, float], ...]:
    for keys in (("mean", "std"), ("min", "max")):
        if type(entry) is dict and set(entry) == set(keys):
            return tuple((key, take(entry, key, float, f"{where}.scale")) for key in keys)
    raise CheckError(f"{where} needs a scale of mean and std, or of min and max")


def _category(value: Any, categories: tuple[str, ...], where: str) -> str:
    text = json_reader.text(value, where)
    if text not in categories:
        raise CheckError(f"{where} is not one of the categories")
    return text


# Links: what else is different about a person with another protected value, such as `relationship` with `sex`.
#
# A link applies to the counterfactuals whose protected values are those of its `when`. Their values of the features in
# its `then` replace those of the person. Values are numbers here; a category is its number, from 0.

MAX_NAMES = 10_000  # of features and categories in all links
MAX_PARTS = 100_000  # into which links and bands may divide a neighbourhood


@dataclass(frozen=True)
class Effect:
    """What a link does to a feature: it maps own categories to others, sets a number to a range, or adds an offset."""

    kind: str  # "map", "range" or "offset"
    categories: tuple[tuple[float, Runs], ...] = ()
    low: float = 0.0
    high: float = 0.0

    def values(self, feature: Feature, own: float) -> Runs | None:
        """Return the values that replace the own one; None if it stays."""
        if self.kind == "map":
            return dict(self.categories).get(own)
        if self.kind == "range":
            return ((self.low, self.high),)
        low, high = (min(max(own + by, feature.low), feature.high) for by in (self.low, self.high))
        return ((low, high),)


@dataclass(frozen=True)
class Link:
    """The protected values that a link applies to, and its effects, by the names of features.

    ``given`` is the link as it was written, of which the digest of a spec is made.
    """

    when: tuple[tuple[str, Runs], ...]
    then: tuple[tuple[str, Effect], ...]
    given: Mapping[str, Any] = field(compare=False, hash=False, repr=False)


def read_links(content: dict[str, Any], features: tuple[Feature, ...], where: str) -> tuple[Link, ...]:
    """Return the links of a spec; refuse those that have no effect, or two that contradict each other."""
    if "link" not in content:
        return ()
    entries = take(content, "link", list, where)
    if not entries or _count(entries) > MAX_NAMES:
        raise CheckError(f"{where}.link must name 1 to {MAX_NAMES:,} features and categories")
    by_name = {feature.name: feature for feature in features}
    links = tuple(_link(entry, by_name, f"{where}.link[{i}]") for i, entry in enumerate(entries))
    for (i, one), (j, other) in combinations(enumerate(links), 2):
        both = dict(one.then).keys() & dict(other.then).keys()
        if both and not _exclude_each_other(dict(one.when), dict(other.when)):
            raise CheckError(
                f'{where}.link[{i}] and link[{j}] are ambiguous: both can apply to a person and set "{min(both)[:40]}"'
            )
    return links


def _most_parts(links: Sequence[Link], given: Sequence[Feature]) -> int:
    """Return a bound of the number of products that a neighbourhood is the union of."""
    features = {feature.name: feature for feature in given}
    ends: dict[str, set[float]] = {}  # by protected feature: where its values are cut; the own value cuts twice more
    choices: dict[str, int] = {}  # by linked feature: the most runs of values to choose from
    for link in links:
        for name, condition in link.when:
            after = 1 if features[name].whole else 0
            ends.setdefault(name, set()).update(*((low, high + after) for low, high in condition))
        for name, effect in link.then:
            choices[name] = max([choices.get(name, 1), *(len(targets) for _, targets in effect.categories)])
    cells = [
        min(len(features[name].categories) or 10**15, len(cuts) + 3 if features[name].whole else 2 * len(cuts) + 2)
        for name, cuts in ends.items()
    ]
    scattered = [
        max(len(feature.runs_around(feature.category_numbers[group[0]])) for group in feature.groups)
        for feature in given
        if feature.groups
    ]
    return math.prod(cells) * math.prod(choices.values()) * math.prod(scattered)


def _link(entry: Any, features: Mapping[str, Feature], where: str) -> Link:
    when, then = (take(entry, key, dict, where) for key in ("when", "then"))
    only_keys(entry, ("when", "then"), where)
    if not when or not then:
        raise CheckError(f"{where} is empty: it needs both when and then")
    for key, names in (("when", when), ("then", then)):
        unknown = [name for name in names if name not in features]
        if unknown:
            raise CheckError(f'{where}.{key} names the unknown feature "{unknown[0][:40]}"')
    for name in when:
        if not features[name].protected:
            raise CheckError(f'{where}.when names "{name[:40]}", which is not protected')
    for name in then:
        if features[name].as_is:
            raise CheckError(f'{where}.then names "{name[:40]}", which passes as it is; links set values of a range')
        if features[name].protected or features[name].varies or features[name].tolerance:
            raise CheckError(
                f'{where}.then names "{name[:40]}", which is protected or has a tolerance or bands; links cannot chain'
            )
    conditions = {name: _condition(value, features[name], f"{where}.when.{name[:40]}") for name, value in when.items()}
    effects = {name: _effect(value, features[name], f"{where}.then.{name[:40]}") for name, value in then.items()}
    return Link(tuple(sorted(conditions.items())), tuple(sorted(effects.items())), {"when": when, "then": then})


def _count(entry: Any) -> int:
    parts = [*entry, *entry.values()] if type(entry) is dict else entry if type(entry) is list else []
    return 1 + sum(map(_count, parts))


def _exclude_each_other(one: Mapping[str, Runs], other: Mapping[str, Runs]) -> bool:
    """Return whether no person can match both conditions."""
    return any(all(b < c or d < a for a, b in one[name] for c, d in other[name]) for name in one.keys() & other.keys())


def _condition(value: Any, feature: Feature, where: str) -> Runs:
    if feature.categories:
        return _categories(value, feature, where)
    ends = value if type(value) is list else [value, value]
    low, high = json_reader.numbers(ends, 2, where).tolist()
    return (_within(low, high, feature, where, feature.low, feature.high),)


def _effect(value: Any, feature: Feature, where: str) -> Effect:
    if type(value) is not dict or not value:
        raise CheckError(f"{where} must be an object that is not empty")
    if feature.categories:
        own = [_number_of(name, feature, where) for name in value]
        targets = [_categories(entry, feature, where) for entry in value.values()]
        if len(set(own)) != len(own) or all(runs == ((i, i),) for i, runs in zip(own, targets, strict=True)):
            raise CheckError(f"{where} has no effect, or names a category twice")
        return Effect("map", tuple(sorted(zip(own, targets, strict=True))))
    (key,) = value if len(value) == 1 else ("",)
    if key not in ("range", "offset"):
        raise CheckError(f"{where} must have either a range or an offset")
    ends = [value[key]] * 2 if key == "offset" and type(value[key]) is not list else value[key]
    low, high = json_reader.numbers(ends, 2, f"{where}.{key}").tolist()
    if key == "range":
        return Effect("range", (), *_within(low, high, feature, where, feature.low, feature.high))
    low, high = _within(low, high, feature, where, -math.inf, math.inf)
    if low == high == 0:
        raise CheckError(f"{where} has no effect")
    return Effect("offset", (), low, high)


def _within(
    low: float, high: float, feature: Feature, where: str, lowest: float, highest: float
) -> tuple[float, float]:
    """Return the first and the last possible value from low to high."""
    if feature.whole:
        low, high = math.ceil(low), math.floor(high)
    low, high = float(max(low, lowest)), float(min(high, highest))
    if low > high:
        raise CheckError(f'{where} holds no possible value of "{feature.name[:40]}"')
    return low, high


def _categories(value: Any, feature: Feature, where: str) -> Runs:
    """Return the numbers of one category or of a list of them, as runs."""
    entries = value if type(value) is list else [value]
    runs = _as_runs([_number_of(entry, feature, where) for entry in entries])
    if not runs:
        raise CheckError(f"{where} names no category")
    return runs


def _as_runs(numbers: Sequence[float]) -> Runs:
    """Return whole numbers as runs of consecutive ones."""
    runs: list[tuple[float, float]] = []
    for number in sorted(set(numbers)):
        joins = runs and runs[-1][1] == number - 1
        runs.append((runs.pop()[0], number) if joins else (number, number))
    return tuple(runs)


def _number_of(value: Any, feature: Feature, where: str) -> float:
    text = json_reader.text(value, where)
    if text not in feature.category_numbers:
        raise CheckError(f'{where} names "{text[:40]}", which is not a category of "{feature.name[:40]}"')
    return feature.category_numbers[text]
