"""What if?: the networks, the features and some people, so that the report's page can compute scores by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import short
from fairmend.evaluate.document import (
    AuditDocument,
    CarriedNetwork,
    CarriedTensor,
    LinkChange,
    LinkCondition,
    Page,
    RepairDocument,
    WhatIf,
    WhatIfFeature,
    WhatIfLink,
    WhatIfPerson,
)
from fairmend.evaluate.people import RowNumbers
from fairmend.network import Model, Network
from fairmend.network.description import describe_network, packed
from fairmend.prove.kernel_bounds import kernel_model, margins_of
from fairmend.spec import Spec
from fairmend.spec.features import Feature, scale_parameters
from fairmend.spec.links import Link, ends_of, find_runs, matching_runs
from fairmend.spec.own_values import shortest_values
from fairmend.spec.products import band_runs, encode_column
from fairmend_check.kernel.bounds import form_bounds, leads
from fairmend_check.kernel.claim import Threshold
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.rounding import Precision

MOST_WEIGHTS = 100_000
"""The page carries no larger network: two of this size take about 1 MB, and one score a fraction of a millisecond."""

MOST_FEATURES = 200
"""With more features, the page would have more controls than a person can use."""

MOST_CATEGORIES = 5_000
"""Of all features together: with more names, the page would be too large."""

WHAT_IF_ROWS = 20
"""Rows of the data that the page has, besides people of the table of pairs."""

_MOST_UNEQUAL = 20
_MOST_NAMED = 200
_PAGE_ROUNDINGS = 16  # of the page's own functions, in units of those of a library in float64
_LOG_ODDS = 1e-12  # what the page rounds in those of the threshold
_USEFUL = 0.1  # of a typical margin: with a larger bound, too many people would be called close to the threshold
_TYPICAL_ROWS = 1_000


AnyDocument = TypeVar("AnyDocument", AuditDocument, RepairDocument)


def add_what_if(
    document: AnyDocument,
    spec: Spec,
    X: FloatArray,
    before: Model,
    after: Model | None = None,
    *,
    people: Ints | None = None,
    numbers: RowNumbers | None = None,
    rows: int = WHAT_IF_ROWS,
    seed: int = 0,
) -> AnyDocument:
    """Return the document with all that its page needs to compute scores, or with the reason why it has not.

    X (inputs, width) holds inputs, among them those of the pairs; `people` (inputs,) are their places among all people,
    and `numbers` has the row of each, by default counted from 0. People to start from are those of the first pairs, and
    `rows` random inputs.
    """
    networks = [model for model in (before, after) if isinstance(model, Network)]
    reason = _reason_to_leave_out(spec, networks)
    page = document.page
    assert page is not None
    if reason or not isinstance(before, Network) or not (after is None or isinstance(after, Network)):
        reason = reason or "a page can compute a network, but this model is only run"
        return replace(document, page=replace(page, what_if_left_out=reason))
    kind = "Sample" if isinstance(document, AuditDocument) and document.sampled else "Row"
    described = WhatIf(
        features=[_feature(feature, spec, X) for feature in spec.features],
        links=[_link(link, spec.features) for link in spec.links],
        before=_carry(before, spec, X),
        after=None if after is None else _carry(after, spec, X),
        scores=_score_names(spec, before, document.class_names),
        regression=spec.regression,
        threshold=spec.threshold if before.outputs <= 2 and not spec.regression else None,
        people=_people(page, kind, spec, X, np.arange(len(X)) if people is None else people, numbers, rows, seed),
    )
    return replace(document, page=replace(page, what_if=described))


def _reason_to_leave_out(spec: Spec, networks: Sequence[Network]) -> str:
    """Return why a page cannot compute with these networks; empty if it can."""
    weights = max((network.weights for network in networks), default=0)
    if weights > MOST_WEIGHTS:
        return f"the network has {weights:,} weights, and a page carries at most {MOST_WEIGHTS:,}"
    if len(spec.features) > MOST_FEATURES:
        return f"there are {len(spec.features):,} features, and a page has controls for at most {MOST_FEATURES}"
    categories = sum(len(feature.categories or ()) for feature in spec.features)
    if categories > MOST_CATEGORIES:
        return f"the features have {categories:,} categories, and a page has room for at most {MOST_CATEGORIES:,}"
    return ""


def _carry(network: Network, spec: Spec, X: FloatArray) -> CarriedNetwork:
    described = describe_network(network, stored=False)
    described.steps[0].pop("inputs", None)  # names of a model's inputs
    error = None if spec.regression else _useful_error(network, spec, X)
    tensors = {key: CarriedTensor(**entry) for key, entry in packed(described.tensors).items()}
    return CarriedNetwork(network.dtype.name, described.steps, tensors, error)


def _useful_error(network: Network, spec: Spec, X: FloatArray) -> float | None:
    """Return `_margin_error`; None where it is too large to tell people apart, or where the kernel has no bound."""
    try:
        error = _margin_error(network, spec, X)
    except FairmendError:
        return None
    if not np.isfinite(error):
        return None
    logits = network.logits(X[:_TYPICAL_ROWS])
    _, margins = margins_of(network, logits, network.decide(logits))
    return error if error <= _USEFUL * (np.median(margins) if len(margins) else np.inf) else None


def _margin_error(network: Network, spec: Spec, X: FloatArray) -> float:
    """Return a bound of how far margins on the page and in any program that runs the network lie apart.

    It holds for all values that the page takes: those of the spec's ranges, and of X where there is no range. A margin
    is the lead of a class over another one, with one or two outputs over the log-odds of the threshold. The kernel
    bounds the error of both, and what a closing sigmoid or softmax may add to that of the program.
    """
    model = kernel_model(network)
    lower, upper = _whole_range(spec, network, X)
    several = network.outputs > 2
    forms = np.eye(network.outputs)[None] if several else leads(model, np.ones(1, np.int64))
    _, nodes = form_bounds(model, forms, lower, upper)
    own, page = Precision.of(network.dtype.name), Precision.of("float64")
    page = Precision(_PAGE_ROUNDINGS * page.u, page.largest, _PAGE_ROUNDINGS * page.tiny)
    errors = [output_errors(model, lower, upper, nodes, forms, thorough=True, kind=kind).max() for kind in (own, page)]
    closing = Threshold.of(spec.threshold, network.dtype.name, model.slack).closing(np.arange(2)).max()
    return float(sum(errors) * (2 if several else 1) + closing + _LOG_ODDS)


def _whole_range(spec: Spec, network: Network, X: FloatArray) -> tuple[Floats, Floats]:
    """Return the lowest and the highest number of each column that the page takes: each (1, width)."""
    ends = np.tile([[0.0], [1.0]], spec.width)
    for feature in spec.features:
        if not feature.one_hot:
            values = np.array(_ends(feature, spec, X), np.float64)
            ends[:, spec.columns(feature.name)] = np.sort(
                encode_column(feature, values, network.dtype).reshape(2, 1), axis=0
            )
    return ends[:1], ends[1:]


def _ends(feature: Feature, spec: Spec, X: FloatArray) -> tuple[float, float]:
    """Return the lowest and the highest value that the page takes; without a range, those of the people in X."""
    if not feature.as_is:
        return feature.bounds
    column = X[:, spec.columns(feature.name)]
    return (float(column.min()), float(column.max())) if len(column) else (0.0, 0.0)


def _feature(feature: Feature, spec: Spec, X: FloatArray) -> WhatIfFeature:
    categories, features = feature.categories or (), spec.features
    offset, factor = scale_parameters(feature.scale)
    low, high = _ends(feature, spec, X)
    missing = feature.missing
    return WhatIfFeature(
        name=short(feature.name),
        kind="continuous" if feature.as_is else feature.kind,
        low=float(low),
        high=float(high),
        categories=[short(feature.show(category)) for category in categories],
        one_hot=feature.one_hot,
        dropped=None if feature.dropped is None else categories.index(feature.dropped),
        offset=float(offset),
        factor=float(factor),
        protected=feature.protected,
        reach=0.0 if feature.protected else float(feature.reach),
        missing=None if missing is None else float(categories.index(str(missing)) if categories else missing),
        marks=next((number for number, other in enumerate(features) if other.name == feature.indicates), None),
        names=_names_of_numbers(feature),
        bands=_bands(feature),
    )


def _bands(feature: Feature) -> list[list[list[float]]]:
    """Return the runs of values of each band; a continuous one ends with the lower end of the next."""
    if feature.groups:
        return [[[float(a), float(b)] for a, b in runs] for runs in band_runs(feature)]
    if not feature.lower_ends:
        return []
    ends = [*feature.lower_ends, feature.bounds[1]]
    less = 1 if feature.kind == "integer" else 0
    *inner, last = pairwise(ends)
    return [*([[float(a), float(b - less)]] for a, b in inner), [list(map(float, last))]]


def _names_of_numbers(feature: Feature) -> dict[str, str]:
    """Return what the page calls each value of an integer that has names, if there are few enough to choose from."""
    low, high = feature.bounds
    if feature.kind != "integer" or feature.names is None or high - low >= _MOST_NAMED:
        return {}
    return {str(value): short(feature.show(value)) for value in range(int(low), int(high) + 1)}


def _link(link: Link, features: Sequence[Feature]) -> WhatIfLink:
    when, then = [], []
    for number, feature in enumerate(features):
        if feature.name in link.when:
            runs = [[float(low), float(high)] for low, high in matching_runs(link, feature)]
            when.append(LinkCondition(number, runs))
        if feature.name in link.then:
            then.append(_change(number, feature, link.then[feature.name]))
    return WhatIfLink(when, then)


def _change(number: int, feature: Feature, change: Mapping[str, Any]) -> LinkChange:
    if not feature.categories:
        how = "range" if "range" in change else "offset"
        return LinkChange(number, how, [float(end) for end in ends_of(change[how])], {})
    replaces = {
        str(feature.categories.index(own)): [
            code for low, high in find_runs(feature, new) for code in range(int(low), int(high) + 1)
        ]
        for own, new in change.items()
    }
    return LinkChange(number, "categories", [], replaces)


def _score_names(spec: Spec, network: Network, answers: Sequence[str]) -> list[str]:
    if spec.regression:
        name = short(spec.label.column) if spec.label is not None else "output"
        return [name] if network.outputs == 1 else [f"{name}, output {i}" for i in range(network.outputs)]
    if network.outputs <= 2:
        return [f"Probability of “{answers[1]}”"]
    return [answers[i] if i < len(answers) else f"class {i}" for i in range(network.outputs)]


def _people(
    page: Page,
    kind: str,
    spec: Spec,
    X: FloatArray,
    people: Ints,
    numbers: RowNumbers | None,
    rows: int,
    seed: int,
) -> list[WhatIfPerson]:
    """Return the people of the first pairs, then random ones in order; `kind` is what their numbers count."""
    named = RowNumbers() if numbers is None else numbers
    shown = named.numbers(people).tolist()
    place = {number: i for i, number in enumerate(shown)}
    pairs = [] if page.pairs is None else page.pairs.rows
    unequal = [place[pair.row] for pair in pairs[:_MOST_UNEQUAL]]
    others = np.setdiff1d(np.arange(len(X)), unequal)
    drawn = np.sort(np.random.default_rng(seed).choice(others, min(rows, len(others)), replace=False)).tolist()
    chosen = [*unequal, *drawn]
    ids = named.ids(people[chosen])
    return [
        WhatIfPerson(f"{kind} {shown[i]}" + (f", {short(name, 40)}" if name else ""), _values(spec, X[i]), i in unequal)
        for i, name in zip(chosen, ids, strict=True)
    ]


def _values(spec: Spec, x: FloatArray) -> list[float]:
    return [_value(feature, x[spec.columns(feature.name)]) for feature in spec.features]


def _value(feature: Feature, columns: FloatArray) -> float:
    """Return the value, or code, of one person's encoded columns (columns of the feature,)."""
    if feature.categories or feature.as_is:
        return float(feature.decode(columns[None])[0])
    return float(shortest_values(feature, columns[None])[0])
