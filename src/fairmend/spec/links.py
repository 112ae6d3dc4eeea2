"""Links: features that change together with protected ones, such as `relationship` with `sex`.

A link applies to a counterfactual whose protected values match all of ``when``, unless the person has the same values
in all features of ``when``: people stay what they are. It then replaces the values of the features in ``then``.
Links are validated together with the features of their spec, which also puts them into their canonical form.
`products` says what they do to neighbourhoods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_repeated, suggest
from fairmend.spec.features import Feature
from fairmend.spec.toml import as_list, as_number, as_value_text

Run = tuple[float, float]  # the lowest and the highest of consecutive values, or codes of categories

MOST_LINKS = 1_000
"""A spec with more is refused before the work: every two links are compared."""

_EXAMPLE = 'Write when = {sex = "Female"} and then = {relationship = {Husband = "Wife"}}.'


@dataclass(frozen=True)
class Link:
    """A change of some features that goes with values of protected ones.

    Attributes
    ----------
    when : protected features, each with a category, a list of categories, a number or [lowest, highest]
    then : features that are neither protected nor tolerant. A categorical one has a mapping from its own category to
        another, or to a list of them; a category that is not named stays. A number has {"range": [lowest, highest]},
        which means every value between them, or {"offset": d} or {"offset": [least, most]}, which is added to the own
        value and cut off at the feature's range.
    """

    when: Mapping[str, Any] = field(hash=False)
    then: Mapping[str, Any] = field(hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {"when": deepcopy(dict(self.when)), "then": deepcopy(dict(self.then))}


def validate_links(links: Iterable[Link | Mapping[str, Any]], features: Sequence[Feature]) -> tuple[Link, ...]:
    """Return the links in their canonical form; raise an error for one that does not make sense.

    Canonical are: features and categories in the order of the spec, categories as text, a list of one category as that
    category, an interval of one number in ``when`` or ``offset`` as that number, and whole numbers as int.
    """
    given = as_list(links)
    if given is None:
        raise FairmendError(f"links must be a list of [[link]] tables, got {links!r}")
    if len(given) > MOST_LINKS:
        raise FairmendError(f"the spec has {len(given):,} links, and at most {MOST_LINKS:,} are possible. Join some.")
    known = {feature.name: feature for feature in features}
    parts = [_parts(link, f"link number {i + 1}", known) for i, link in enumerate(given)]
    _require_no_chain([(list(when), list(then)) for when, then in parts])
    checked = []
    for i, (when, then) in enumerate(parts):
        where = f"link number {i + 1}"
        _require_roles(when, then, known, where)
        in_order = [feature for feature in features if feature.name in when]
        conditions = {f.name: _condition(f, when[f.name], f'{where}: when "{f.name}"') for f in in_order}
        in_order = [feature for feature in features if feature.name in then]
        changes = {f.name: _change(f, then[f.name], f'{where}: then "{f.name}"') for f in in_order}
        checked.append(Link(conditions, changes))
    _require_unambiguous(checked, known)
    return tuple(checked)


def linked_names(links: Iterable[Link]) -> set[str]:
    """Return the features that links set."""
    return {name for link in links for name in link.then}


def matching_runs(link: Link, feature: Feature) -> list[Run]:
    """Return the values, or codes, of a feature in ``when`` to which a link applies."""
    value = link.when[feature.name]
    if feature.categories:
        return find_runs(feature, value)
    return [ends_of(value)]


_Matching = Callable[[float, float], frozenset[int]]  # the links that all values of a run match


def match_links(links: Sequence[Link], feature: Feature) -> tuple[list[float], _Matching]:
    """Return where the values, or codes, of a feature begin to match other links, and what tells the links of a run.

    The first of them is the lowest value. Of a continuous feature, the last is the highest; others have one more run.
    """
    runs = {i: matching_runs(link, feature) for i, link in enumerate(links) if feature.name in link.when}
    (low, high), all_runs = feature.bounds, [run for each in runs.values() for run in each]

    def matching(first: float, last: float) -> frozenset[int]:
        return frozenset(i for i, each in runs.items() if any(a <= first and last <= b for a, b in each))

    if feature.kind == "continuous":
        return sorted({low, high, *(end for run in all_runs for end in run)}), matching
    starts = {low, *(first for first, _ in all_runs), *(last + 1 for _, last in all_runs if last < high)}
    return sorted(starts), matching


def find_runs(feature: Feature, categories: str | Sequence[str]) -> list[Run]:
    """Return the codes of one or several categories as runs of consecutive ones."""
    names = [categories] if isinstance(categories, str) else categories
    runs: list[Run] = []
    for code in sorted((feature.categories or ()).index(name) for name in names):
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return runs


def most_linked_values(links: Iterable[Link], feature: Feature) -> int:
    """Return the most values that a link gives a feature that is not continuous; 1 if none sets it."""
    changes = [link.then[feature.name] for link in links if feature.name in link.then]
    return max((_count_values(feature, change) for change in changes), default=1)


def _count_values(feature: Feature, change: Mapping[str, Any]) -> int:
    if feature.categories:
        return max(1 if isinstance(value, str) else len(value) for value in change.values())
    low, high = ends_of(change["range"] if "range" in change else change["offset"])
    return int(high - low) + 1


def ends_of(value: float | list[float]) -> Run:
    """Return the ends of an interval, or a number twice."""
    return (value[0], value[1]) if isinstance(value, list) else (value, value)


# Validation


def _parts(link: object, where: str, known: Mapping[str, Feature]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``when`` and ``then`` of a link, which name features of the spec."""
    data = {"when": link.when, "then": link.then} if isinstance(link, Link) else link
    if not isinstance(data, Mapping):
        raise FairmendError(f"{where} must be a table with when and then, got {data!r}. {_EXAMPLE}")
    for key in data:
        if key not in ("when", "then"):
            raise FairmendError(f'{where} has an unknown key "{key}". The known keys are when, then')
    for key in ("when", "then"):
        if not isinstance(data.get(key), Mapping) or not data[key]:
            wrong = (
                f"must be a table that names at least one feature, got {data[key]!r}" if key in data else "is missing"
            )
            raise FairmendError(f"{where}: {key} {wrong}. {_EXAMPLE}")
        for name in data[key]:
            if name not in known:
                hint = suggest(str(name), known)
                raise FairmendError(f'{where}: {key} names "{name}", which is not a feature of the spec{hint}')
    return dict(data["when"]), dict(data["then"])


def _require_no_chain(links: Sequence[tuple[list[str], list[str]]]) -> None:
    """Raise an error if a link sets a feature on which a link depends."""
    follows: dict[str, list[str]] = {}
    for when, then in links:
        for name in when:
            follows.setdefault(name, []).extend(then)
    for start in follows:
        circle = _find_path(follows, start, start)
        if circle:
            shown = " → ".join(f'"{name}"' for name in circle)
            raise FairmendError(f"the links form a circle: {shown}. Remove one of them.")
    for number, (_, then) in enumerate(links, 1):
        for other, (when, _) in enumerate(links, 1):
            both = [name for name in then if name in when]
            if both:
                raise FairmendError(
                    f'link number {number} sets "{both[0]}", on which link number {other} depends. Links cannot chain: '
                    "name all features that change in one link."
                )


def _find_path(follows: Mapping[str, list[str]], start: str, end: str) -> list[str]:
    """Return the features on a path along links from start to end; empty if there is none."""
    paths, seen = [[start]], set[str]()
    while paths:
        path = paths.pop(0)
        for name in follows.get(path[-1], ()):
            if name == end:
                return [*path, name]
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []


def _require_roles(when: Iterable[str], then: Iterable[str], known: Mapping[str, Feature], where: str) -> None:
    for name in when:
        if not known[name].protected:
            raise FairmendError(
                f'{where}: when names "{name}", which is not protected. A link depends on protected features only.'
            )
    for name in (*when, *(each for each in then if known[each].categories)):
        if not known[name].tells_apart:
            raise FairmendError(
                f'{where} depends on "{name}", whose values float32 cannot tell apart. Give the feature a smaller '
                "range, or another scale."
            )
    for name in then:
        if known[name].protected:
            raise FairmendError(f'{where}: then names "{name}", which is protected, so it takes all its values anyway.')
        if known[name].tolerance:
            raise FairmendError(f'{where}: then names "{name}", which has a tolerance. Remove one of the two.')
        if known[name].bands:
            raise FairmendError(f'{where}: then names "{name}", which has bands. Remove one of the two.')


def _condition(feature: Feature, value: object, where: str) -> object:
    """Return the values of a protected feature to which a link applies."""
    if feature.categories:
        return _category_or_list(feature, value, where)
    ends = as_list(value)
    if ends is not None and len(ends) != 2:
        raise FairmendError(f"{where} must be a number or [lowest, highest], got {value!r}")
    low, high = _interval(feature, ends if ends is not None else [value, value], where)
    return low if low == high else [low, high]


def _change(feature: Feature, change: object, where: str) -> dict[str, Any]:
    """Return what becomes of a feature to which a link applies."""
    if not isinstance(change, Mapping) or not change:
        example = '{Husband = "Wife"}' if feature.categories else "{range = [lowest, highest]} or {offset = number}"
        raise FairmendError(f"{where} must be a table such as {example}, got {change!r}")
    if feature.categories:
        mapping = _mapping(feature, change, where)
        if all(value == own for own, value in mapping.items()):
            raise FairmendError(f"{where} changes nothing: every category stays. Remove it.")
        return mapping
    if feature.as_is:
        raise FairmendError(
            f'{where}: kind = "as-is" says nothing about its values, so a link cannot set it. Give it a range.'
        )
    if len(change) != 1 or next(iter(change)) not in ("range", "offset"):
        raise FairmendError(f"{where} is a number and needs either range or offset, got {dict(change)!r}")
    if feature.bounds[0] == feature.bounds[1]:
        raise FairmendError(f"{where} changes nothing: the feature has only one value. Remove it.")
    if "range" in change:
        ends = as_list(change["range"])
        if ends is None or len(ends) != 2:
            raise FairmendError(f"{where}: range must be [lowest, highest], got {change['range']!r}")
        return {"range": list(_interval(feature, ends, f"{where}: range"))}
    return {"offset": _offset(feature, change["offset"], f"{where}: offset")}


def _mapping(feature: Feature, change: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return the categories that replace each own one, in the order of the spec."""
    texts = {_category(feature, own, where): value for own, value in change.items()}
    if len(texts) != len(change):
        raise FairmendError(f"{where} names a category twice. Remove one.")
    return {
        own: _category_or_list(feature, texts[own], f'{where}, "{own}"')
        for own in feature.categories or ()
        if own in texts
    }


def _category_or_list(feature: Feature, value: object, where: str) -> str | list[str]:
    listed = as_list(value)
    if listed is None:
        return _category(feature, value, where)
    if not listed:
        raise FairmendError(f"{where} is an empty list. Name at least one category.")
    texts = [_category(feature, each, where) for each in listed]
    twice = first_repeated(texts)
    if twice is not None:
        raise FairmendError(f'{where}: category "{twice}" is listed twice. Remove one.')
    in_order = [category for category in feature.categories or () if category in texts]
    return in_order[0] if len(in_order) == 1 else in_order


def _category(feature: Feature, value: object, where: str) -> str:
    text = as_value_text(value, f"{where}: a category")
    categories = feature.categories or ()
    if text not in categories:
        raise FairmendError(
            f'{where}: "{text}" is not one of the categories of "{feature.name}"{suggest(text, categories)}'
        )
    return text


def _interval(feature: Feature, ends: Sequence[object], where: str) -> tuple[float, float]:
    """Return the lowest and highest of some possible values of a number."""
    low, high = (as_number(end, where) for end in ends)
    if low > high:
        raise FairmendError(f"{where} needs lowest <= highest, got [{low:.10g}, {high:.10g}]")
    for end in (low, high):
        if not feature.bounds[0] <= end <= feature.bounds[1]:
            raise FairmendError(f'{where}: {end:.10g} is outside the range {feature.extent} of "{feature.name}"')
    if feature.kind == "continuous":
        return low, high
    if math.ceil(low) > math.floor(high):
        raise FairmendError(f"{where}: no whole number lies from {low:.10g} to {high:.10g}")
    if not (low.is_integer() and high.is_integer()):
        raise FairmendError(
            f'{where} needs whole numbers, as "{feature.name}" is an integer, got {low:.10g}, {high:.10g}'
        )
    return int(low), int(high)


def _offset(feature: Feature, value: object, where: str) -> float | list[float]:
    """Return a number that is added to the own value, or the least and the most of several."""
    ends = as_list(value)
    if ends is not None and len(ends) != 2:
        raise FairmendError(f"{where} must be a number or [least, most], got {value!r}")
    least, most = (as_number(end, where) for end in (ends if ends is not None else [value, value]))
    if least > most:
        raise FairmendError(f"{where} needs least <= most, got [{least:.10g}, {most:.10g}]")
    if least == most == 0:
        raise FairmendError(f"{where} 0 changes nothing. Remove it.")
    if feature.kind == "integer":
        if not (least.is_integer() and most.is_integer()):
            raise FairmendError(f'{where} must be whole, as "{feature.name}" is an integer, got {value!r}')
        least, most = int(least), int(most)
    return least if least == most else [least, most]


def _require_unambiguous(links: Sequence[Link], known: Mapping[str, Feature]) -> None:
    """Raise an error for two links that can apply together and set the same feature."""
    for second, other in enumerate(links, 1):
        for first, link in enumerate(links[: second - 1], 1):
            both = [name for name in other.then if name in link.then]
            if both and not _exclude_each_other(link, other, known):
                raise FairmendError(
                    f'links number {first} and {second} are ambiguous: both can set "{both[0]}" for the same person. '
                    "Make their when exclude each other, or join them."
                )


def _exclude_each_other(link: Link, other: Link, known: Mapping[str, Feature]) -> bool:
    return any(
        all(high < low2 or high2 < low for low, high in runs for low2, high2 in matching_runs(other, known[name]))
        for name, runs in ((name, matching_runs(link, known[name])) for name in link.when if name in other.when)
    )
