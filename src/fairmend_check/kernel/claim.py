"""The claim of a certificate in English, written from its data: the sentence in the file is not evidence."""

from __future__ import annotations

import json
import re
from decimal import ROUND_FLOOR, Decimal

from fairmend_check.kernel.certificate import Certificate, ClaimedShares
from fairmend_check.kernel.scores import Score
from fairmend_check.kernel.spec import Effect, Feature, Runs, ScoreClaim, Spec
from fairmend_check.kernel.threshold import HALF

_MAX_CATEGORIES = 12
_SCORES = {
    "output": "each raw output of this model, before a closing sigmoid or softmax",
    "sigmoid": "the probability, which is the sigmoid of the output of this model",
    "softmax": "each probability, by the softmax of the outputs of this model",
}


def describe_claim(certificate: Certificate) -> str:
    """Return what the data of a certificate claims."""
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
            f"For {_who(certificate.count)} listed in this certificate, {_what(certificate)}.",
            *_links(certificate.spec),
            f"This holds in {where}, for these values: {_values(certificate.spec)}.",
            *_classes(certificate.spec),
        ]
    return " ".join(sentences)


def _describe_shares(certificate: Certificate, spec: Spec, claim: ClaimedShares) -> str:
    """Return a claim about shares of all people."""
    own = {name for link in spec.links for name, _ in link.when}
    left = [_quoted(feature.name) for feature in spec.features if feature.protected and feature.name not in own]
    aside = f", {_join(left)} aside," if left else ","
    counted = "each combination of values counts once"
    if not all(feature.whole or (feature.protected and feature.name not in own) for feature in spec.features):
        counted = "each combination of values counts once, and a range of a continuous feature by its length"
    parts = _predictions(spec, claim) if spec.claim is None else _scores(spec, spec.claim, certificate.outputs, claim)
    values = "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features)
    return " ".join(
        [
            f"Among all people{aside} where {counted}, {'; and '.join(parts)}.",
            *_links(spec),
            f"This holds in real arithmetic and in {certificate.arithmetic} inference, for these values: {values}.",
            *_classes(spec),
        ]
    )


def _predictions(spec: Spec, claim: ClaimedShares) -> list[str]:
    """Return what shares of people get which predictions."""
    parts, protected, at = [], _protected(spec), _at_threshold(spec)
    if claim.fair:
        keep = "everyone keeps" if claim.fair == 1 else f"at least {percent(claim.fair)} keep"
        parts.append(f"{keep} the same prediction of this model{at} whatever their {protected}{_also(spec)}")
    if claim.unfair:
        get = "everyone gets" if claim.unfair == 1 else f"at least {percent(claim.unfair)} get"
        of_model = "" if parts else f" of this model{at}"
        within = f", or if you also change {_join(_near(spec))}" if _near(spec) else ""
        parts.append(f"{get} another prediction{of_model} with some other {protected}{within}")
    return parts


def _scores(spec: Spec, of_spec: ScoreClaim, outputs: int, claim: ClaimedShares) -> list[str]:
    """Return for which shares of people scores differ by how much."""
    delta = _exact(of_spec.delta)
    near = f", and in {_join(_near(spec))}," if _near(spec) else ""
    people = f"two people who differ from them only in {_protected(spec)}{near}"
    scores, parts = f"the scores ({_SCORES[Score.of(of_spec, outputs).name]})", []
    if claim.fair:
        share = "everyone" if claim.fair == 1 else f"at least {percent(claim.fair)}"
        parts.append(f"for {share}, {scores} of any {people} differ by at most {delta}")
    if claim.unfair:
        share = "everyone" if claim.unfair == 1 else f"at least {percent(claim.unfair)}"
        some = "those of some two such people" if parts else f"{scores} of some {people}"
        parts.append(f"for {share}, {some} differ by more than {delta}")
    return parts


def percent(share: float) -> str:
    """Return a share in per cent, rounded down to four digits, and to more where it is close to nothing or all."""
    exact = Decimal(share) * 100
    near = min(exact, 100 - exact)
    if near <= 0:
        return f"{exact:.0f} %"
    digits = max(2, 3 - near.adjusted())
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR):f} %"


def _who(count: int) -> str:
    return "the input" if count == 1 else f"each of the {count} inputs"


def _what(certificate: Certificate) -> str:
    """Return what is the same, or nearly so, for similar people."""
    claim, protected, also = certificate.spec.claim, _protected(certificate.spec), _also(certificate.spec)
    if claim is None:
        at = _at_threshold(certificate.spec)
        return f"the prediction of this model{at} stays the same whatever its {protected}{also}"
    scores = _SCORES[Score.of(claim, certificate.outputs).name]
    differ = f"of any two people who are similar to it differ by at most {_exact(claim.delta)}"
    return f"the scores ({scores}) {differ}, whatever their {protected}{also}"


def _protected(spec: Spec) -> str:
    return _join([_quoted(feature.name) for feature in spec.features if feature.protected], "or")


def _at_threshold(spec: Spec) -> str:
    return "" if spec.threshold == HALF else f" at the threshold {_exact(spec.threshold)}"


def _near(spec: Spec) -> list[str]:
    """Return how much similar people may differ in features that are not protected."""
    return [
        f"{_quoted(feature.name)} by up to {_exact(feature.reach)}"
        for feature in spec.features
        if feature.varies and not feature.protected
    ]


def _also(spec: Spec) -> str:
    return f", even if you also change {_join(_near(spec))}" if _near(spec) else ""


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
    amount = _exact(effect.low) if effect.low == effect.high else f"{_exact(effect.low)} to {_exact(effect.high)}"
    if effect.kind == "range":
        return f"{name} becomes {amount}"
    return f"{name} changes by {amount}, within {_exact(feature.low)} to {_exact(feature.high)}"


def _runs(feature: Feature, runs: Runs) -> str:
    if feature.categories:
        return _join(
            [_quoted(feature.categories[i]) for low, high in runs for i in range(int(low), int(high) + 1)], "or"
        )
    return _join([_exact(low) if low == high else f"{_exact(low)} to {_exact(high)}" for low, high in runs], "or")


def _classes(spec: Spec) -> list[str]:
    """Return what the predictions are called."""
    if spec.claim is not None or spec.label is None or not spec.label.classes:
        return []
    return [f"The predictions are the classes {_join([_quoted(name) for name in spec.label.classes])}."]


def _values(spec: Spec) -> str:
    """Return the values of the varying features that the claim is about; it says nothing about others."""
    return "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features if feature.varies)


def _values_of(feature: Feature) -> str:
    names = dict(feature.names)
    if not feature.categories:
        called = ", ".join(f"{value} is {_quoted(name)}" for value, name in feature.names[:_MAX_CATEGORIES])
        return f"{_exact(feature.low)} to {_exact(feature.high)}{f' ({called})' if called else ''}"
    more = ", …" if len(feature.categories) > _MAX_CATEGORIES else ""
    shown = [
        f"{_quoted(value)} ({_quoted(names[value])})" if value in names else _quoted(value)
        for value in feature.categories[:_MAX_CATEGORIES]
    ]
    return ", ".join(shown) + more


def _quoted(name: str) -> str:
    """Return a name, in quotes if it is more than one word: "id, sex" must not look like two names."""
    return name if re.fullmatch(r"\w+([.+-]\w+)*", name) else json.dumps(name, ensure_ascii=False)


def _exact(number: float) -> str:
    """Return a number with all its digits, so that the sentence does not claim more than the data."""
    return str(int(number)) if int(number) == number else repr(number)


def _join(names: list[str], joint: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
