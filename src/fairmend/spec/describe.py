"""A spec in words: what a feature is, what the model reads of it, and who counts as similar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairmend.spec.features import Feature

if TYPE_CHECKING:
    from fairmend.spec import Spec

_NAMED = 6


def values_words(feature: Feature) -> str:
    """Return which values a feature can take."""
    if feature.categories:
        shown = ", ".join(feature.categories[:_NAMED])
        words = shown if len(feature.categories) <= _NAMED else f"{shown}, … ({len(feature.categories)} categories)"
    else:
        low, high = feature.bounds
        words = f"{'whole numbers ' if feature.kind == 'integer' else ''}{low:.10g} to {high:.10g}"
    if feature.missing is None:
        return words
    stands_in = feature.missing if isinstance(feature.missing, str) else f"{feature.missing:.10g}"
    return f"{words}; missing is {stands_in}"


def reading_words(feature: Feature) -> str:
    """Return how the model reads it."""
    if feature.one_hot:
        return "one-hot" if feature.dropped is None else f'one-hot, "{feature.dropped}" is all 0'
    base = "number of the category" if feature.categories else "the value"
    if feature.scale is None:
        return base
    first, second = feature.scale.values()
    names = "mean, std" if "mean" in feature.scale else "min, max"
    return f"{base}, scaled ({names} = {_in_full(first)}, {_in_full(second)})"


def role_words(feature: Feature) -> str:
    """Return how similar people may differ in it."""
    if feature.protected:
        return "may differ at will (protected)"
    if not feature.varies:
        return "are equal"
    return f"may differ by {feature.reach:.10g}"


def similar_words(spec: Spec) -> str:
    """Return in a sentence who counts as similar."""
    free = [feature.name for feature in spec.protected]
    near = [f"{f.name} by at most {f.reach:.10g}" for f in spec.features if f.varies and not f.protected]
    words = f"Two people count as similar if they differ in nothing but {_listed(free)}"
    return f"{words}, and in {_listed(near)}." if near else f"{words}."


def neighbourhood_words(spec: Spec) -> str:
    """Return how many people are similar to one, as far as the spec alone says it."""
    varying = [f for f in spec.features if f.varies]
    continuous = [f.name for f in varying if f.kind == "continuous"]
    count, exact = 1, True
    for feature in varying:
        if feature.kind == "continuous":
            continue
        low, high = feature.bounds
        values = int(high - low) + 1
        count *= values if feature.protected else min(values, 2 * math.floor(feature.reach) + 1)
        exact &= feature.protected
    if continuous:
        boxes = f", for each of {count:,} combinations of the rest" if count > 1 else ""
        return f"A neighbourhood is a box, without a count: {_listed(continuous)} may be any number in it{boxes}."
    if exact:
        return f"Every neighbourhood holds {count:,} people, oneself among them."
    return f"A neighbourhood holds up to {count:,} people, oneself among them; near the ends of a range, fewer."


def _in_full(number: float) -> str:
    return repr(float(number)).removesuffix(".0")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
