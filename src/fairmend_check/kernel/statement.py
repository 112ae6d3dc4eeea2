"""The sentences that are printed, from the data of a certificate: what stands in the file is no evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

import numpy as np

from fairmend_check.kernel.certificate import Certificate, ClaimedShares, ClassCertificate
from fairmend_check.kernel.claim import HALF, ClassClaim, ScoreClaim, closing_units, in_full
from fairmend_check.kernel.classes import Axis, Table, ignored_features, table_of
from fairmend_check.kernel.entry import Entry
from fairmend_check.kernel.features import Feature, Runs
from fairmend_check.kernel.links import Effect
from fairmend_check.kernel.model import SECOND, Model
from fairmend_check.kernel.rescaling import PROBABILITY
from fairmend_check.kernel.rounding import Precision
from fairmend_check.kernel.spec import Spec

_MAX_CATEGORIES = 12
# What a program predicts of a file that does not compute probabilities, by how the file ends.
_DECISIONS = {
    "": "class 1 if the output is at least 0, or its sigmoid at least 0.5",
    f"{SECOND}log_softmax": "class 1 if the exponential of the output is at least 0.5",
}
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
            f"{_of_inputs(certificate.spec, certificate.outputs)}.",
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
        if all([f.name for f in port.features] == [port.name] for port in entry.ports):
            inputs = ", ".join(_quoted(port.name) for port in entry.ports)
            said.append(f"the inputs of the model hold the features of the same names, in this order: {inputs}.")
        else:
            held = [f"{_quoted(p.name)} holds {_join([_quoted(f.name) for f in p.features])}" for p in entry.ports]
            said.append(f"the inputs of the model hold these features, in this order: {'; '.join(held)}.")
    names = {port.owners[column][0].name for at, port in enumerate(entry.ports) for column in entry.read_columns(at)}
    scaled = [feature for feature in spec.features if feature.scale and feature.name in names]
    if scaled:
        which = _join([_quoted(feature.name) for feature in scaled])
        said.append(f"the program encodes {which} as the spec does, {_scalings(scaled)}.")
    return " ".join(sentence if not at else sentence[0].upper() + sentence[1:] for at, sentence in enumerate(said))


def describe_condition(certificate: Certificate, network: Model) -> str:
    """Return what a program must do with the file: compute the model, and what the file leaves out after it."""
    spec, found = certificate.spec, network.condition
    if not (certificate.count or certificate.shares):
        return found
    left = about = ""
    (low, high), rescaled = spec.score_range, spec.score_range != PROBABILITY
    if isinstance(spec.claim, ScoreClaim):
        left = "compute probabilities" if spec.claim.on == "probability" and not network.closed else ""
    elif spec.label is not None and (spec.label.threshold != HALF or rescaled):
        second = "" if network.outputs == 1 else ", the second one,"
        at, kind = in_full(spec.label.threshold), "score" if rescaled else "probability"
        left = f"decide at {at}"
        about = f"a program that predicts class 1 if the {kind}{second} is at least {at}: "
    if not left and isinstance(spec.claim, ClassClaim) and network.closing in _DECISIONS:
        first, closing = f"{found} The" if found else "the", network.closing
        how = "the class with the largest output" if network.outputs > 1 and not closing else _DECISIONS[closing]
        found = f"{first} file does not decide. The claim is about a program that predicts {how}."
    if left:
        score = "sigmoid 1 / (1 + exp(-z)) of the output z" if network.outputs == 1 else "softmax of the outputs"
        if rescaled:
            score = f"score {in_full(low)} + {in_full(high - low)} p in {network.dtype}, where p is the {score}"
        units = closing_units(network.outputs)
        error = f"computed with an error of at most {units * Precision.of(network.dtype).u:.2g}"
        exactly = "in exact arithmetic" if certificate.arithmetic == "real" else error
        first = f"{found} The" if found else "the"
        found = f"{first} file does not {left}. The claim is about {about}the {score}, {exactly}."
    if network.closed and rescaled and spec.claim.on == "probability":
        first = f"{found} A" if found else "a"
        found = f"{first} score s of the file stands for the probability (s - {in_full(low)}) / {in_full(high - low)}."
    scaled = [feature for feature in spec.features if feature.scale]
    if scaled:
        first = f"{found} The" if found else "the"
        found = (
            f"{first} program encodes numbers as the spec does, {_scalings(scaled)}, in double precision, and rounds "
            f"once to {network.dtype}. A pipeline that computes in float32 may feed the network other numbers."
        )
    return found


def _scalings(features: Sequence[Feature]) -> str:
    """Return how these features are scaled, each way once."""
    kinds = dict.fromkeys(feature.scale[0][0] for feature in features)
    ways = ["(value - mean) / std" if kind == "mean" else "(value - min) / (max - min)" for kind in kinds]
    return " or ".join(ways)


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
    parts = _of_shares(spec, certificate.outputs, claim.fair, claim.unfair)
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


def _of_inputs(spec: Spec, outputs: int) -> str:
    """Return what is the same, or nearly so, for people who are similar to an input."""
    near = _near(spec)
    whatever = f"{_protected(spec)}{f', even if you also change {near}' if near else ''}"
    if isinstance(spec.claim, ClassClaim):
        return f"the prediction of this model{_decided(spec)} stays the same whatever its {whatever}"
    differ = f"of any two people who are similar to it differ by at most {spec.claim.amount}"
    return f"{spec.claim.subject(outputs)} {differ}, whatever their {whatever}"


def _of_shares(spec: Spec, outputs: int, fair: float, unfair: float) -> list[str]:
    """Return what holds for these shares of all people."""
    protected, near, parts = _protected(spec), _near(spec), []
    if isinstance(spec.claim, ClassClaim):
        of_model = f" of this model{_decided(spec)}"
        if fair:
            also = f", even if you also change {near}" if near else ""
            keep = f"{_share(fair)} keep{'s' if fair == 1 else ''} the same prediction"
            parts.append(f"{keep}{of_model} whatever their {protected}{also}")
        if unfair:
            also = f", or if you also change {near}" if near else ""
            get = f"{_share(unfair)} get{'s' if unfair == 1 else ''} another prediction"
            parts.append(f"{get}{'' if parts else of_model} with some other {protected}{also}")
        return parts
    two = f"two people who differ from them only in {protected}{f', and in {near},' if near else ''}"
    scores, delta = spec.claim.subject(outputs), spec.claim.amount
    if fair:
        parts.append(f"for {_share(fair)}, {scores} of any {two} differ by at most {delta}")
    if unfair:
        some = "those of some two such people" if parts else f"{scores} of some {two}"
        parts.append(f"for {_share(unfair)}, {some} differ by more than {delta}")
    return parts


def _share(share: float) -> str:
    return "everyone" if share == 1 else f"at least {percent(share)}"


def _protected(spec: Spec) -> str:
    return _join([_quoted(feature.name) for feature in spec.features if feature.protected], "or")


def _decided(spec: Spec) -> str:
    """Return at which threshold the model decides, if the spec names one."""
    if spec.label is None or spec.threshold == HALF:
        return ""
    low, high = spec.score_range
    unit = "" if (low, high) == PROBABILITY else f" of scores from {in_full(low)} to {in_full(high)}"
    return f" at the threshold {in_full(spec.label.threshold)}{unit}"


def _near(spec: Spec) -> str:
    """Return how much similar people may differ in features that are not protected; empty if not at all."""
    near = [
        f"{_quoted(feature.name)} within its band"
        if feature.bands or feature.groups
        else f"{_quoted(feature.name)} by up to {in_full(feature.reach)}"
        for feature in spec.features
        if feature.varies_by_itself and not feature.protected
    ]
    return _join(near) if near else ""


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
    amount = in_full(effect.low) if effect.low == effect.high else f"{in_full(effect.low)} to {in_full(effect.high)}"
    if effect.kind == "range":
        return f"{name} becomes {amount}"
    return f"{name} changes by {amount}, within {in_full(feature.low)} to {in_full(feature.high)}"


def _runs(feature: Feature, runs: Runs) -> str:
    if feature.categories:
        return _join(
            [_quoted(feature.categories[i]) for low, high in runs for i in range(int(low), int(high) + 1)], "or"
        )
    return _join([in_full(low) if low == high else f"{in_full(low)} to {in_full(high)}" for low, high in runs], "or")


def _classes(spec: Spec) -> list[str]:
    """Return what the predictions are called."""
    if not isinstance(spec.claim, ClassClaim) or spec.label is None or not spec.label.classes:
        return []
    return [f"The predictions are the classes {_join([_quoted(name) for name in spec.label.classes])}."]


def _values(spec: Spec) -> str:
    """Return the values of the varying features that the claim is about; it says nothing about others."""
    return "; ".join(
        f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features if feature.varies_by_itself
    )


def _values_of(feature: Feature) -> str:
    names = dict(feature.names)
    if feature.as_is:
        return "any number"
    if not feature.categories:
        called = ", ".join(f"{value} is {_quoted(name)}" for value, name in feature.names[:_MAX_CATEGORIES])
        more = ", …" if len(feature.bands) > _MAX_CATEGORIES else ""
        bands = (
            f" in bands from {', '.join(map(in_full, feature.bands[:_MAX_CATEGORIES]))}{more}" if feature.bands else ""
        )
        return f"{in_full(feature.low)} to {in_full(feature.high)}{f' ({called})' if called else ''}{bands}"
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


def percent(share: float) -> str:
    """Return a share in per cent, rounded down to four digits, and to more where it is close to nothing or all."""
    part = Decimal(share) * 100
    near = min(part, 100 - part)
    if near <= 0:
        return f"{part:.0f} %"
    digits = max(2, 3 - near.adjusted())
    return f"{part.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR):f} %"
