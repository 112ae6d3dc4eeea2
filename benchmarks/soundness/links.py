"""The neighbourhoods of specs with links, listed one by one from docs/certificate.md. All features are finite."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.soundness.cases import rounded_by, scale_of
from fairmend import Feature, Spec

Option = tuple[int, np.ndarray]  # a value, or the place of a category, and the numbers in the columns of the feature


def linked_points(spec: Spec, X: np.ndarray) -> np.ndarray:
    """Return all neighbours of each input, (inputs, neighbours, width); shorter lists repeat their first one."""
    found = [_neighbours(spec, x) for x in X]
    most = max(map(len, found))
    return np.array([points + points[:1] * (most - len(points)) for points in found])


def _neighbours(spec: Spec, x: np.ndarray) -> list[np.ndarray]:
    own = {feature.name: _own(feature, x[spec.columns(feature.name)]) for feature in spec.features}
    free = [_reach(feature, own[feature.name], x.dtype) for feature in spec.features]
    found = []
    for chosen in product(*free):
        values = dict(zip(own, chosen, strict=True))
        options = [_linked(spec, feature, values, own, x.dtype) or [values[feature.name]] for feature in spec.features]
        found += [np.concatenate([numbers for _, numbers in each]) for each in product(*options)]
    return found


def _linked(
    spec: Spec, feature: Feature, values: dict[str, Option], own: dict[str, Option], dtype: Any
) -> list[Option] | None:
    """Return the options that a link gives a feature; None if no link sets it."""
    for link in spec.links:
        if feature.name not in link.then:
            continue
        named = [each for each in spec.features if each.name in link.when]
        matches = all(_matches(each, values[each.name][0], link.when[each.name]) for each in named)
        if matches and any(values[each.name][0] != own[each.name][0] for each in named):
            return _changed(feature, own[feature.name], link.then[feature.name], dtype)
    return None


def _own(feature: Feature, numbers: np.ndarray) -> Option:
    numbers = numbers.astype(np.float64)
    if feature.one_hot:
        return _category(feature, numbers), numbers
    offset, factor = scale_of(feature)
    lowest, highest = _range(feature)
    return int(np.rint(np.clip(numbers[0] * factor + offset, lowest, highest))), numbers


def _category(feature: Feature, numbers: np.ndarray) -> int:
    codes = [tuple(_encode(feature, place, np.float64)) for place in range(len(feature.categories))]
    return codes.index(tuple(numbers))


def _range(feature: Feature) -> tuple[int, int]:
    return feature.range if feature.range is not None else (0, len(feature.categories) - 1)


def _reach(feature: Feature, own: Option, dtype: Any) -> list[Option]:
    lowest, highest = _range(feature)
    reach = highest - lowest if feature.protected else int(feature.tolerance)
    if reach < 1:
        return [own]
    if not feature.one_hot:
        reach += int(rounded_by(feature, own[1][0].astype(dtype), own[0], reach))
    values = range(max(lowest, own[0] - reach), min(highest, own[0] + reach) + 1)
    return [own, *((value, _encode(feature, value, dtype)) for value in values)]


def _encode(feature: Feature, value: int, dtype: Any) -> np.ndarray:
    if feature.one_hot:
        row = np.eye(len(feature.categories))[value]
        return row if feature.dropped is None else np.delete(row, feature.categories.index(feature.dropped))
    offset, factor = scale_of(feature)
    return np.array([(value - offset) / factor]).astype(dtype).astype(np.float64)


def _matches(feature: Feature, value: int, condition: Any) -> bool:
    if feature.categories:
        return feature.categories[value] in (condition if isinstance(condition, list | tuple) else (condition,))
    low, high = condition if isinstance(condition, list | tuple) else (condition, condition)
    return bool(low <= value <= high)


def _changed(feature: Feature, own: Option, change: Any, dtype: Any) -> list[Option] | None:
    if feature.categories:
        name = feature.categories[own[0]]
        if name not in change:
            return None
        names = change[name] if isinstance(change[name], list | tuple) else [change[name]]
        values = [feature.categories.index(each) for each in names]
    else:
        lowest, highest = _range(feature)
        least, most = change["offset"] if isinstance(change["offset"], list | tuple) else [change["offset"]] * 2
        off = int(rounded_by(feature, own[1][0].astype(dtype), own[0], max(-least, most)))
        values = [min(max(own[0] + step, lowest), highest) for step in range(least - off, most + off + 1)]
    return [(value, _encode(feature, value, dtype)) for value in values]
