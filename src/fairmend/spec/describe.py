"""A spec in plain English: the values of a feature, what the model reads, and who is similar."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fairmend.base.text import listed, printable
from fairmend.spec.features import Feature
from fairmend.spec.links import ends_of

if TYPE_CHECKING:
    from fairmend.spec.spec import Spec


_MOST_CATEGORIES = 6  # shown by name


def describe_values(feature: Feature) -> str:
    """Return the values that a feature can take."""
    if feature.categories:
        text = ", ".join(map(_with_name(feature), feature.categories[:_MOST_CATEGORIES]))
        if len(feature.categories) > _MOST_CATEGORIES:
            text += f", … ({len(feature.categories)} categories)"
    else:
        text = f"{'whole numbers ' if feature.kind == 'integer' else ''}{feature.extent}"
        names = [f"{value} = {name}" for value, name in list((feature.names or {}).items())[:_MOST_CATEGORIES]]
        text += f" ({', '.join(names)})" if names else ""
    if feature.missing is None:
        return text
    replacement = feature.missing if isinstance(feature.missing, str) else f"{feature.missing:.10g}"
    return f"{text}; a missing value becomes {replacement}"


def _with_name(feature: Feature) -> Callable[[str], str]:
    names = feature.names or {}
    return lambda value: f"{value} = {names[value]}" if value in names else value


def describe_encoding(feature: Feature, digits: int | None = None) -> str:
    """Return what the model reads for a feature; scales in full, or with so many digits."""
    if feature.one_hot:
        columns = "" if feature.columns is None else f", the columns {listed(feature.columns, most=_MOST_CATEGORIES)}"
        return ("one-hot" if feature.dropped is None else f'one-hot, all 0 for "{feature.dropped}"') + columns
    base = "the number of the category" if feature.categories else "the value"
    if feature.scale is None:
        return base
    parameters = ", ".join(
        f"{name} {_in_full(number) if digits is None else f'{number:.{digits}g}'}"
        for name, number in feature.scale.items()
    )
    return f"{base}, scaled ({parameters})"


def describe_role(feature: Feature, linked: bool = False) -> str:
    """Return how similar people may differ in a feature; ``linked`` tells whether links set it."""
    if feature.protected:
        return "any value (protected)"
    if linked:
        return "the same value, or what a link says"
    if feature.bands is not None:
        return f"any value of the same band: {describe_bands(feature)}"
    if not feature.varies:
        return "the same value"
    return f"may differ by up to {feature.reach:.10g}"


def describe_bands(feature: Feature) -> str:
    """Return the bands of a feature: "bands of 500", "3 bands (from 0, 500 and 2000)" or "bands (a or b; c)"."""
    if feature.categories:
        names = [str(feature.show(category)) for category in feature.categories]
        groups = [listed([names[code] for code in group], "or", most=_MOST_CATEGORIES) for group in feature.groups]
        more = f"; … ({len(groups)} bands)" if len(groups) > _MOST_CATEGORIES else ""
        return f"bands ({'; '.join(groups[:_MOST_CATEGORIES])}{more})"
    ends = feature.lower_ends
    width = ends[1] - ends[0]
    if len(ends) > 2 and all(math.isclose(after - before, width) for before, after in pairwise(ends)):
        return f"bands of {width:.10g}, from {ends[0]:.10g}"
    return f"{len(ends):,} bands (from {listed([f'{end:.10g}' for end in ends], most=_MOST_CATEGORIES)})"


def describe_similarity(spec: Spec) -> str:
    """Return a sentence that says which people are similar."""
    protected = [feature.name for feature in spec.protected]
    tolerant = [
        f"{f.name} (by up to {f.reach:.10g})" for f in spec.features if f.reach and f.varies and not f.protected
    ]
    tolerant += [f"{f.name} (within its band)" for f in spec.banded]
    linked = [f"{f.name} (as a link says)" for f in spec.linked]
    return f"Two people are similar if they differ only in {listed(protected + tolerant + linked, 'or', most=None)}."


def describe_links(spec: Spec) -> list[str]:
    """Return a sentence for each link: "With sex Female: relationship Wife instead of Husband."."""
    sentences = []
    for link in spec.links:
        when = [f"{name} {_describe_condition(spec.feature(name), value)}" for name, value in link.when.items()]
        then = [text for name, change in link.then.items() for text in _describe_change(spec.feature(name), change)]
        sentences.append(printable(f"With {listed(when, most=None)}: {', '.join(then)}."))
    return sentences


def _describe_condition(feature: Feature, value: Any) -> str:
    if isinstance(value, str):
        return str(feature.show(value))
    if isinstance(value, list) and isinstance(value[0], str):
        return listed([str(feature.show(one)) for one in value], "or", most=None)
    low, high = ends_of(value)
    return str(feature.show(low)) if low == high and feature.names else _between(value)


def _describe_change(feature: Feature, change: Mapping[str, Any]) -> list[str]:
    """Return what a link does to a feature."""
    if feature.categories:
        return [
            f"{feature.name} {_describe_condition(feature, new)} instead of {feature.show(own)}"
            for own, new in change.items()
        ]
    if "range" in change:
        return [f"{feature.name} {_between(change['range'])}"]
    low, high = ends_of(change["offset"])
    if low >= 0:
        return [f"{feature.name} {_between([low, high])} more"]
    if high <= 0:
        return [f"{feature.name} {_between([-high, -low])} less"]
    return [f"{feature.name} between {-low:.10g} less and {high:.10g} more"]


def _between(value: Any) -> str:
    low, high = ends_of(value)
    return f"{low:.10g}" if low == high else f"{low:.10g} to {high:.10g}"


def describe_neighbourhood(spec: Spec) -> str:
    """Return a sentence that says how many people a neighbourhood has, as far as the spec determines it."""
    varying = spec.varying
    continuous = [f.name for f in varying if f.kind == "continuous"]
    count, exact = 1, True
    for feature in varying:
        if feature.kind == "continuous":
            continue
        count *= spec.most_values(feature)
        exact &= feature.protected or _has_equal_bands(feature)
    if continuous:
        boxes = f", for each of {count:,} combinations of the other values" if count > 1 else ""
        return f"Neighbourhoods are infinite: {listed(continuous, most=None)} can be any number in an interval{boxes}."
    if exact:
        return f"Each neighbourhood has {count:,} people."
    fewer = "" if spec.links else ", fewer in smaller bands" if spec.banded else ", fewer near the ends of a range"
    return f"Each neighbourhood has up to {count:,} people{fewer}."


def _has_equal_bands(feature: Feature) -> bool:
    """Return whether every band of a feature has the same number of values."""
    sizes = [len(group) for group in feature.groups]
    ends = [*feature.lower_ends, feature.bounds[1] + 1]
    sizes = sizes or [int(after - before) for before, after in pairwise(ends)]
    return feature.bands is not None and len(set(sizes)) == 1


def describe_difference(values: Iterable[tuple[str, object, object]]) -> str:
    """Return how a counterfactual differs from a person, given (feature, own value, other value) for each feature."""
    changes = [
        f"{name} {_distinguishable(other, own)} instead of {_distinguishable(own, other)}"
        for name, own, other in values
        if own != other
    ]
    return printable(", ".join(["the same person", *(changes or ["no difference"])]))


def _distinguishable(value: object, other: object) -> str:
    """Return a value with as many digits as it takes to distinguish it from the other."""
    if isinstance(value, float) and f"{value:.6g}" != f"{other:.6g}":
        return f"{value:.6g}"
    return str(value)


def _in_full(number: float) -> str:
    return repr(float(number)).removesuffix(".0")
