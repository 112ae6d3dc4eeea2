"""What if?, between result.json and the page: what the page's script reads, and what makes it unusable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import CarriedNetwork, WhatIf, WhatIfFeature, WhatIfLink
from fairmend.network.description import unpacked
from fairmend.network.formats.torch.steps import replay

_PRECISIONS = ("float32", "float64")
_KINDS = ("continuous", "integer", "categorical")
_STEPS = {"input", "affine", "scale", "function", "sum", "concatenate", "columns", "lookup"}  # without batch norms
_STEPS |= {"product", "softmax", "normalise"}


def what_if_data(what_if: WhatIf, answers: Sequence[str]) -> str:
    """Return what the page's script reads, as JSON in ASCII; `answers` are the names of the classes."""
    return json.dumps({**asdict(what_if), "answers": answers}, separators=(",", ":"))


def what_if_problems(what_if: WhatIf, repaired: bool) -> Iterator[str]:
    """Yield what the script could not compute with, although each field by itself is valid."""
    features = what_if.features
    for number, feature in enumerate(features):
        if not _is_valid(feature) or feature.marks not in {None, *range(len(features))} - {number}:
            yield f"what_if.features[{number}]: its values and its encoding do not fit"
    for number, link in enumerate(what_if.links):
        if not _link_fits(link, features):
            yield f"what_if.links[{number}]: does not fit the features"
    if (what_if.after is not None) != repaired:
        yield "what_if.after: must be given for a repair, and only then"
    width = sum(_width(feature) for feature in features)
    outputs = 2 if not what_if.regression and len(what_if.scores) == 1 else len(what_if.scores)
    for name, network in (("before", what_if.before), ("after", what_if.after)):
        if network is not None and not _runs(network, width, {outputs, len(what_if.scores)}):
            yield f"what_if.{name}: not a network that reads {width} columns and gives these scores"
        error = None if network is None else network.margin_error
        if error is not None and (error < 0 or what_if.regression):
            yield f"what_if.{name}.margin_error: must not be negative, and is null for a regression network"
    single = len(what_if.scores) == 1 and not what_if.regression
    if (what_if.threshold is not None) != single or (single and not 0 < (what_if.threshold or 0) < 1):
        yield "what_if.threshold: must be between 0 and 1 for a single probability, and null otherwise"
    for number, person in enumerate(what_if.people):
        if len(person.values) != len(features) or not all(map(_has_value, features, person.values)):
            yield f"what_if.people[{number}]: its values do not fit the features"


def _is_valid(feature: WhatIfFeature) -> bool:
    codes = (0, len(feature.categories) - 1)
    categorical = feature.kind == "categorical"
    return (
        feature.kind in _KINDS
        and categorical == bool(feature.categories)
        and (not categorical or (feature.low, feature.high) == codes)
        and (categorical or not feature.one_hot)
        and (feature.dropped is None or (feature.one_hot and feature.dropped in range(len(feature.categories))))
        and feature.low <= feature.high
        and feature.factor != 0
        and feature.reach >= 0
        and all(run and len(run) == 2 and run[0] <= run[1] for band in feature.bands for run in band)
        and (feature.missing is None or _has_value(feature, feature.missing))
        and (not feature.names or (feature.kind == "integer" and _names_every_value(feature)))
    )


def _names_every_value(feature: WhatIfFeature) -> bool:
    count = len(feature.names)
    values = range(int(feature.low), int(feature.low) + count)
    return feature.high - feature.low + 1 == count and all(str(value) in feature.names for value in values)


def _has_value(feature: WhatIfFeature, value: float) -> bool:
    return feature.low <= value <= feature.high and (feature.kind == "continuous" or value == round(value))


def _width(feature: WhatIfFeature) -> int:
    return len(feature.categories) - (feature.dropped is not None) if feature.one_hot else 1


def _link_fits(link: WhatIfLink, features: list[WhatIfFeature]) -> bool:
    known = range(len(features))
    for condition in link.when:
        if condition.feature not in known or any(len(run) != 2 for run in condition.runs):
            return False
    for change in link.then:
        if change.feature not in known:
            return False
        codes = range(len(features[change.feature].categories))
        by_category = change.how == "categories"
        if by_category != bool(codes) or by_category != bool(change.replaces):
            return False
        if any(code not in codes for new in change.replaces.values() for code in new):
            return False
        if not by_category and (change.how not in ("range", "offset") or len(change.ends) != 2):
            return False
    return True


def _runs(network: CarriedNetwork, width: int, outputs: set[int]) -> bool:
    """Return whether the steps are a network that reads so many columns, of kinds that the script computes."""
    known = all(step.get("kind") in _STEPS and not _names_more(step) for step in network.steps)
    if not known or any(tensor.dtype != network.precision for tensor in network.tensors.values()):
        return False
    try:
        built = replay(
            network.steps, unpacked({key: asdict(tensor) for key, tensor in network.tensors.items()}), "what_if"
        )
    except (FairmendError, ValueError, KeyError, TypeError):  # steps or numbers that do not fit
        return False
    same = network.precision in _PRECISIONS and built.dtype == network.precision and built.closing == "none"
    return same and built.inputs == width and built.outputs in outputs


def _names_more(step: dict[str, Any]) -> bool:
    """Return whether a step has its numbers in a way that only a state dict needs."""
    return bool(step.get("transposed")) or isinstance(step.get("parameters"), str)
