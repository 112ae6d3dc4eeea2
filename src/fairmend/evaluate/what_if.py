"""What if?: the networks, the features and some people, so that the report's page can compute scores by itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.text import short
from fairmend.evaluate.document import (
    AuditDocument,
    CarriedNetwork,
    CarriedNode,
    LinkChange,
    LinkCondition,
    Page,
    RepairDocument,
    StepRounding,
    WhatIf,
    WhatIfFeature,
    WhatIfLink,
    WhatIfPerson,
)
from fairmend.evaluate.people import RowNumbers
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Network,
    Node,
    Scale,
    Sum,
)
from fairmend.network.folding import Fold, Line
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.spec import Spec
from fairmend.spec.features import Feature, scale_parameters
from fairmend.spec.links import Link, ends_of, find_runs, matching_runs
from fairmend.spec.products import encode_column
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
_BESIDE = 8  # roundings of several steps besides their products and norms
_TINIES = 16  # numbers too small to be normal that may be lost on the way


AnyDocument = TypeVar("AnyDocument", AuditDocument, RepairDocument)


def add_what_if(
    document: AnyDocument,
    spec: Spec,
    X: FloatArray,
    before: Network,
    after: Network | None = None,
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
    reason = _reason_to_leave_out(spec, [network for network in (before, after) if network is not None])
    page = document.page
    assert page is not None
    if reason:
        return replace(document, page=replace(page, what_if_left_out=reason))
    kind = "Sample" if isinstance(document, AuditDocument) and document.sampled else "Row"
    described = WhatIf(
        features=[_feature(feature, spec.features) for feature in spec.features],
        links=[_link(link, spec.features) for link in spec.links],
        before=_carry(before),
        after=None if after is None else _carry(after),
        scores=_score_names(spec, before, document.class_names),
        regression=spec.regression,
        threshold=spec.threshold if before.outputs <= 2 and not spec.regression else None,
        people=_people(page, kind, spec, X, np.arange(len(X)) if people is None else people, numbers, rows, seed),
    )
    return replace(document, page=replace(page, what_if=described))


def _reason_to_leave_out(spec: Spec, networks: Sequence[Network]) -> str:
    """Return why a page cannot compute with these networks; empty if it can."""
    weights = max(network.weights for network in networks)
    if weights > MOST_WEIGHTS:
        return f"the network has {weights:,} weights, and a page carries at most {MOST_WEIGHTS:,}"
    if len(spec.features) > MOST_FEATURES:
        return f"there are {len(spec.features):,} features, and a page has controls for at most {MOST_FEATURES}"
    categories = sum(len(feature.categories or ()) for feature in spec.features)
    if categories > MOST_CATEGORIES:
        return f"the features have {categories:,} categories, and a page has room for at most {MOST_CATEGORIES:,}"
    if not all(np.isfinite(_error_at_zero(network)) for network in networks):
        return "scalings in a row multiply or divide by more than other programs can hold in one number of float32"
    return ""


def _error_at_zero(network: Network) -> float:
    """Return the error of inference at 0; infinite if scalings multiply or divide too far."""
    row = np.zeros((1, network.inputs))
    return float(KernelBounds(network).output_error(row, row).max())


def _carry(network: Network) -> CarriedNetwork:
    pairs = zip(network.nodes, network.widths, strict=True)
    return CarriedNetwork(network.dtype.name, [_carry_node(node, width) for node, width in pairs])


def _carry_node(node: Node, width: int) -> CarriedNode:
    operation = node.operation
    plain = CarriedNode(operation.kind, list(node.sources), width)
    if isinstance(operation, Affine):
        rounding = None if operation.fold is None else _folded_rounding(operation.fold)
        return replace(plain, weight=_base64(operation.weight), bias=_base64(operation.bias), rounding=rounding)
    if isinstance(operation, Scale):
        factor, shift = _base64(operation.factor), _base64(operation.shift)
        rounding = _scale_rounding(operation.line, Precision.of(operation.factor.dtype.name).u)
        return replace(plain, weight=factor, bias=shift, rounding=rounding)
    if isinstance(operation, Lookup):
        return replace(plain, weight=_base64(operation.table))
    if isinstance(operation, Columns):
        return replace(plain, columns=list(operation.indices))
    if isinstance(operation, Activation):
        numbers = (operation.slope,) if operation.name == "leaky_relu" else operation.parameters
        return replace(plain, parameters=list(numbers))
    assert isinstance(operation, Input | Sum | Concatenate), operation.kind
    return plain


def _folded_rounding(fold: Fold) -> StepRounding:
    """Return the numbers in the bound of the error of inference that do not depend on the inputs."""
    inner, outer = fold.lines()
    weight, bias = np.abs(fold.weight.astype(np.float64)), fold.bias_size
    entering, leaving = float(inner.reach.max()), float(outer.reach.max())
    beside = (1 + entering) * (1 + leaving) * float((1 + weight.sum(axis=1) + bias).max())
    reach = beside * (1 + entering) * (1 + weight.shape[1] + float(inner.size.sum())) + float(outer.size.max())
    norms = sum(line.all_roundings(Precision.of(fold.weight.dtype.name).u) for line in (inner, outer))
    return StepRounding(
        roundings=weight.shape[1] + norms + fold.extra_roundings + _BESIDE,
        constants=_base64((weight @ inner.size + bias) * np.abs(outer.factor) + outer.size),
        reach=_TINIES * reach,
    )


def _scale_rounding(line: Line, unit: float) -> StepRounding:
    """Return the same for norms that no affine layer takes in."""
    reach = (1 + float(line.reach.max())) * (1 + float(line.size.max()))
    return StepRounding(line.all_roundings(unit) + _BESIDE, _base64(line.size), _TINIES * reach)


def _base64(numbers: FloatArray) -> str:
    return base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).decode("ascii")


def _feature(feature: Feature, features: Sequence[Feature]) -> WhatIfFeature:
    categories = feature.categories or ()
    offset, factor = scale_parameters(feature.scale)
    low, high = feature.bounds
    missing = feature.missing
    return WhatIfFeature(
        name=short(feature.name),
        kind=feature.kind,
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
    )


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
    if feature.one_hot:
        return float(feature.category_of(columns[None])[0])
    value = float(feature.nearest(columns)[0])
    if feature.kind != "continuous":
        return value
    # The user wrote 34.7, and float32 holds 34.70000076: the shortest number that means the same is what was written.
    shortened = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    low, high = feature.bounds
    same = (short for short in shortened if low <= short <= high and _encodes_to(feature, short, columns))
    return next(same, value)


def _encodes_to(feature: Feature, value: float, columns: FloatArray) -> bool:
    return bool(encode_column(feature, np.array([value]), columns.dtype)[0] == columns[0])
