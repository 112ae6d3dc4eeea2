"""What if?, between report.json and the page: what the page's script reads, and what makes it unusable."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from fairmend.errors import FairmendError
from fairmend.evaluate.document import (
    CarriedLayer,
    CarriedNetwork,
    Document,
    FoldedRounding,
    WhatIf,
    WhatIfFeature,
    WhatIfLink,
)
from fairmend.network.activations import Activation

__all__ = ["what_if_data", "what_if_problems"]

_PRECISIONS = ("float32", "float64")
_KINDS = ("continuous", "integer", "categorical")


def what_if_data(document: Document) -> str:
    """Return what the page's script reads, as JSON in ASCII; empty if there is nothing."""
    if document.what_if is None:
        return ""
    return json.dumps({**asdict(document.what_if), "answers": document.answers}, separators=(",", ":"))


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
    if network.precision not in _PRECISIONS or network.inputs != width or not network.layers:
        return False
    inputs = network.inputs
    for layer in network.layers:
        sizes = [(layer.weight, layer.outputs * inputs), (layer.bias, layer.outputs)]
        if not _is_activation(layer) or not all(_holds(text, network.precision, size) for text, size in sizes):
            return False
        if layer.folded is not None and not _rounds(layer.folded, layer.outputs):
            return False
        inputs = layer.outputs
    return inputs in outputs


def _is_activation(layer: CarriedLayer) -> bool:
    try:
        Activation(layer.activation, layer.slope, tuple(layer.parameters)).width([layer.outputs])
    except FairmendError:
        return False
    return True


def _rounds(folded: FoldedRounding, outputs: int) -> bool:
    return folded.roundings > 0 and folded.underflow >= 0 and _holds(folded.constants, "float64", outputs)


def _holds(text: str, precision: str, size: int) -> bool:
    """Return whether a base64 text holds so many finite numbers."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    kind = np.dtype(precision).newbyteorder("<")
    return len(content) == size * kind.itemsize > 0 and bool(np.isfinite(np.frombuffer(content, kind)).all())
