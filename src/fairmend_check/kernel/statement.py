"""The sentence that is printed, from the data of a certificate: what stands in the file is no evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from fairmend_check.kernel.certificate import Certificate, ClaimedShares, ClassCertificate
from fairmend_check.kernel.claim import HALF, ClassClaim, SimilarPeople, exact
from fairmend_check.kernel.classes import Axis, Table, ignored_features, table_of
from fairmend_check.kernel.entry import Entry
from fairmend_check.kernel.rescaling import PROBABILITY
from fairmend_check.kernel.spec import Effect, Feature, Runs, Spec

_MAX_CATEGORIES = 12
_MAX_CLASSES, _MAX_LISTED = 12, 10_000  # of linked values in words, and to look for these


def describe_claim(certificate: Certificate | ClassCertificate) -> str:
    """Return what the data of a certificate claims."""
    if isinstance(certificate, ClassCertificate):
        return _describe_classes(certificate)
    sentences = []
    if certificate.blind:
        ignored = _join([_quoted(feature.name) for feature, _ in certificate.blind], "or")
        sentences.append(
            f"For every input within the ranges of the spec, the output of this model does not depend on {ignored}."
        )
        if not certificate.count:
            values = "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature, _ in certificate.blind)
            sentences.append(f"The values of these features are: {values}.")
    if certificate.shares:
        return _describe_shares(certificate, certificate.spec, certificate.shares)
    if certificate.count:
        where = f"real arithmetic and in {certificate.arithmetic} inference"
        if certificate.arithmetic == "real":
            where = "exact real arithmetic only, not in inference"
        sentences += [
            f"For {_who(certificate.count)} listed in this certificate, "
            f"{certificate.spec.claim.of_inputs(_similar(certificate.spec), certificate.outputs)}.",
            *_links(certificate.spec),
            f"This holds in {where}, for these values: {_values(certificate.spec)}.",
            *_classes(certificate.spec),
        ]
    return " ".join(sentences)


def _describe_classes(certificate: ClassCertificate) -> str:
    """Return the claim that the output depends on the class alone, and what the classes are."""
    spec, entry, said = certificate.spec, certificate.entry, []
    ignored = ignored_features(spec, entry)
    if ignored:
        said.append(f"it does not depend on {_join([_quoted(feature.name) for feature in ignored], 'or')}")
    banded = [feature for feature in spec.varying if (feature.bands or feature.groups) and feature not in ignored]
    said += [f"{_quoted(feature.name)} counts by its band" for feature in banded]
    tables = [table_of(spec, entry, each, "") for each in entry.lookups]
    said += [words for table in tables if isinstance(table, Table) for words in _merged(table)]
    values = "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.varying)
    return " ".join(
        [
            "For every row within the ranges of the spec, the output of this model depends on the row only through its "
            f"class{': ' if said else ''}{'; '.join(said)}.",
            *_links(spec),
            f"Similar people get the same output, bit for bit, for these values: {values}.",
        ]
    )


def describe_encoding(spec: Spec, entry: Entry) -> str:
    """Return what the claim about classes takes for granted: where the features are, and how those are encoded that
    the entry looks up."""
    said = []
    if len(entry.ports) > 1:
        read = [f"{_quoted(port.name)} reads {_join([_quoted(f.name) for f in port.features])}" for port in entry.ports]
        said.append(f"the inputs of the model hold these features, in this order: {'; '.join(read)}.")
    names = {port.owners[column][0].name for at, port in enumerate(entry.ports) for column in entry.read_columns(at)}
    scaled = [feature for feature in spec.features if feature.scale and feature.name in names]
    if scaled:
        which = _join([_quoted(feature.name) for feature in scaled])
        said.append(f"the program encodes {which} as the spec does, {' or '.join(scalings(scaled))}.")
    return " ".join(sentence if not at else sentence[0].upper() + sentence[1:] for at, sentence in enumerate(said))


def scalings(features: Sequence[Feature]) -> list[str]:
    """Return how these features are scaled, each way once."""
    kinds = dict.fromkeys(feature.scale[0][0] for feature in features)
    return ["(value - mean) / std" if kind == "mean" else "(value - min) / (max - min)" for kind in kinds]


def _merged(table: Table) -> list[str]:
    """Return which values of linked features a look-up takes for one, with which protected values if these count."""
    if not table.thens or len(table.axes) != table.whens + table.thens or table.rows.size > _MAX_LISTED:
        return []
    rows, axes, whens = table.rows, list(table.axes), 0
    for axis in table.axes[: table.whens]:
        if (rows == rows.take([0], axis=whens)).all():
            rows, axes = np.asarray(rows.take(0, axis=whens)), [each for each in axes if each is not axis]
        else:
            whens += 1
    people: dict[int, list[str]] = {}
    owns: dict[int, set[tuple[int, ...]]] = {}
    for cells in np.ndindex(*rows.shape):
        parts = [_cell(axis, cell) for axis, cell in zip(axes, cells, strict=True)]
        with_ = f" with {_join(parts[:whens])}" if whens else ""
        people.setdefault(int(rows[cells]), []).append(f"{_join(parts[whens:])}{with_}")
        owns.setdefault(int(rows[cells]), set()).add(cells[whens:])
    merged = [f"{_join(people[row])} are one class" for row, own in owns.items() if len(own) > 1]
    more = [f"and {len(merged) - _MAX_CLASSES:,} more such classes"] if len(merged) > _MAX_CLASSES else []
    return [*merged[:_MAX_CLASSES], *more]


def _cell(axis: Axis, cell: int) -> str:
    """Return the values of a cell of a feature, with its name."""
    runs: list[tuple[float, float]] = []
    for value in axis.values[axis.cells == cell].tolist():
        joins = runs and runs[-1][1] == value - 1
        runs.append((runs.pop()[0], value) if joins else (value, value))
    return f"{_quoted(axis.feature.name)} {_runs(axis.feature, tuple(runs))}"


def _describe_shares(certificate: Certificate, spec: Spec, claim: ClaimedShares) -> str:
    """Return a claim about shares of all people."""
    own = {name for link in spec.links for name, _ in link.when}
    left = [_quoted(feature.name) for feature in spec.features if feature.protected and feature.name not in own]
    aside = f", {_join(left)} aside," if left else ","
    counted = "each combination of values counts once"
    if not all(feature.whole or (feature.protected and feature.name not in own) for feature in spec.features):
        counted = "each combination of values counts once, and a range of a continuous feature by its length"
    parts = spec.claim.of_shares(_similar(spec), certificate.outputs, claim.fair, claim.unfair)
    values = "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features)
    return " ".join(
        [
            f"Among all people{aside} where {counted}, {'; and '.join(parts)}.",
            *_links(spec),
            f"This holds in real arithmetic and in {certificate.arithmetic} inference, for these values: {values}.",
            *_classes(spec),
        ]
    )


def _who(count: int) -> str:
    return "the input" if count == 1 else f"each of the {count} inputs"


def _similar(spec: Spec) -> SimilarPeople:
    """Return who is similar, in words."""
    protected = _join([_quoted(feature.name) for feature in spec.features if feature.protected], "or")
    near = _near(spec)
    decided = "" if spec.threshold == HALF else f" at the threshold {_threshold(spec)}"
    return SimilarPeople(protected, _join(near) if near else "", decided)


def _threshold(spec: Spec) -> str:
    """Return the threshold in its own unit, with the range of the scores unless they are probabilities."""
    assert spec.label is not None
    low, high = spec.score_range
    unit = "" if (low, high) == PROBABILITY else f" of scores from {exact(low)} to {exact(high)}"
    return f"{exact(spec.label.threshold)}{unit}"


def _near(spec: Spec) -> list[str]:
    """Return how much similar people may differ in features that are not protected."""
    return [
        f"{_quoted(feature.name)} within its band"
        if feature.bands or feature.groups
        else f"{_quoted(feature.name)} by up to {exact(feature.reach)}"
        for feature in spec.features
        if feature.varies and not feature.protected
    ]


def _links(spec: Spec) -> list[str]:
    """Return the links in one sentence."""
    by_name = {feature.name: feature for feature in spec.features}
    clauses = []
    for link in spec.links:
        another = _join([_quoted(name) for name, _ in link.when], "or")
        values = _join([f"{_quoted(name)} is {_runs(by_name[name], runs)}" for name, runs in link.when])
        effects = _join([_effect(by_name[name], effect) for name, effect in link.then])
        clauses.append(f"with another {another}, where {values}, {effects}")
    return [f"Linked features change too: {'; '.join(clauses)}."] if clauses else []


def _effect(feature: Feature, effect: Effect) -> str:
    name = _quoted(feature.name)
    if effect.kind == "map":
        changes = [f"{_runs(feature, ((own, own),))} becomes {_runs(feature, runs)}" for own, runs in effect.categories]
        return f"{name} {_join(changes)}"
    amount = exact(effect.low) if effect.low == effect.high else f"{exact(effect.low)} to {exact(effect.high)}"
    if effect.kind == "range":
        return f"{name} becomes {amount}"
    return f"{name} changes by {amount}, within {exact(feature.low)} to {exact(feature.high)}"


def _runs(feature: Feature, runs: Runs) -> str:
    if feature.categories:
        return _join(
            [_quoted(feature.categories[i]) for low, high in runs for i in range(int(low), int(high) + 1)], "or"
        )
    return _join([exact(low) if low == high else f"{exact(low)} to {exact(high)}" for low, high in runs], "or")


def _classes(spec: Spec) -> list[str]:
    """Return what the predictions are called."""
    if not isinstance(spec.claim, ClassClaim) or spec.label is None or not spec.label.classes:
        return []
    return [f"The predictions are the classes {_join([_quoted(name) for name in spec.label.classes])}."]


def _values(spec: Spec) -> str:
    """Return the values of the varying features that the claim is about; it says nothing about others."""
    return "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features if feature.varies)


def _values_of(feature: Feature) -> str:
    names = dict(feature.names)
    if feature.as_is:
        return "any number"
    if not feature.categories:
        called = ", ".join(f"{value} is {_quoted(name)}" for value, name in feature.names[:_MAX_CATEGORIES])
        more = ", …" if len(feature.bands) > _MAX_CATEGORIES else ""
        bands = (
            f" in bands from {', '.join(map(exact, feature.bands[:_MAX_CATEGORIES]))}{more}" if feature.bands else ""
        )
        return f"{exact(feature.low)} to {exact(feature.high)}{f' ({called})' if called else ''}{bands}"
    more = ", …" if len(feature.categories) > _MAX_CATEGORIES else ""
    shown = [
        f"{_quoted(value)} ({_quoted(names[value])})" if value in names else _quoted(value)
        for value in feature.categories[:_MAX_CATEGORIES]
    ]
    groups = [_join([_quoted(name) for name in group[:_MAX_CATEGORIES]]) for group in feature.groups[:_MAX_CATEGORIES]]
    cut = any(len(each) > _MAX_CATEGORIES for each in (feature.groups, *feature.groups))
    bands = f" in the bands {' | '.join(groups)}{' …' if cut else ''}" if groups else ""
    return ", ".join(shown) + more + bands


def _quoted(name: str) -> str:
    """Return a name, in quotes if it is more than one word: "id, sex" must not look like two names."""
    return name if re.fullmatch(r"\w+([.+-]\w+)*", name) else json.dumps(name, ensure_ascii=False)


def _join(names: list[str], joint: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
