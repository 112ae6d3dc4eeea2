"""Links: what else is different about a person with another protected value, such as `relationship` with `sex`.

A link applies to the counterfactuals whose protected values are those of its `when`. Their values of the features in
its `then` replace those of the person. Values are numbers here; a category is its number, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, take
from fairmend_check.kernel.features import Feature, Runs, as_runs

MAX_NAMES = 10_000  # of features and categories in all links


@dataclass(frozen=True)
class Effect:
    """What a link does to a feature: it maps own categories to others, sets a number to a range, or adds an offset."""

    kind: str  # "map", "range" or "offset"
    categories: tuple[tuple[float, Runs], ...] = ()
    low: float = 0.0
    high: float = 0.0

    def values(self, feature: Feature, own: float, error: float = 0.0) -> Runs | None:
        """Return the values that replace the own one, which may be off by an error; None if it stays."""
        if self.kind == "map":
            return dict(self.categories).get(own)
        if self.kind == "range":
            return ((self.low, self.high),)
        ends = own + (self.low - error), own + (self.high + error)
        low, high = (min(max(end, feature.low), feature.high) for end in ends)
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


def most_parts(links: Sequence[Link], given: Sequence[Feature]) -> int:
    """Return a bound of the number of products that a neighbourhood is the union of.

    c cuts make at most c + 1 cells of whole numbers, and the own value two more (`neighbourhood._cells`). Of a
    continuous feature, they make c + 1 cells and c points, beside the own value: 2 c + 2. There are no more cells than
    categories.
    """
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
    for name in (*when, *(name for name in then if features[name].categories)):
        if not features[name].tells_apart:  # or the own value, which a link depends on, may be another one
            raise CheckError(f'{where} depends on "{name[:40]}", whose values float32 cannot tell apart')
    for name in then:
        if features[name].as_is:
            raise CheckError(f'{where}.then names "{name[:40]}", which passes as it is; links set values of a range')
        if features[name].protected or features[name].varies_by_itself or features[name].tolerance:
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
    runs = as_runs([_number_of(entry, feature, where) for entry in entries])
    if not runs:
        raise CheckError(f"{where} names no category")
    return runs


def _number_of(value: Any, feature: Feature, where: str) -> float:
    text = json_reader.text(value, where)
    if text not in feature.category_numbers:
        raise CheckError(f'{where} names "{text[:40]}", which is not a category of "{feature.name[:40]}"')
    return feature.category_numbers[text]
