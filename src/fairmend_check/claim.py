"""The claim of a certificate in English, written from its data: the sentence in the file is not evidence."""

from __future__ import annotations

import json
import re

from fairmend_check.certificate import Certificate
from fairmend_check.spec import Feature, Spec

_MAX_CATEGORIES = 12


def describe_claim(certificate: Certificate) -> str:
    """Return what the data of a certificate claims."""
    protected = _join([_quoted(feature.name) for feature in certificate.spec.features if feature.protected], "or")
    sentences = []
    if certificate.blind:
        ignored = _join([_quoted(feature.name) for feature, _ in certificate.blind], "or")
        sentences.append(f"For every input, the output of this model does not depend on {ignored}.")
    if certificate.regions:
        near = [
            f"{_quoted(feature.name)} by up to {_exact(feature.reach)}"
            for feature in certificate.spec.features
            if feature.varies and not feature.protected
        ]
        count = len(certificate.regions)
        who = "the input" if count == 1 else f"each of the {count} inputs"
        also = f", even if you also change {_join(near)}" if near else ""
        where = f"real arithmetic and in {certificate.arithmetic} inference"
        if certificate.arithmetic == "real":
            where = "exact real arithmetic only, not in inference"
        sentences += [
            f"For {who} listed in this certificate, the prediction of this model stays the same whatever its "
            f"{protected}{also}.",
            f"This holds in {where}, for these values: {_values(certificate.spec)}.",
        ]
    return " ".join(sentences)


def _values(spec: Spec) -> str:
    """Return the values of the varying features that the claim is about; it says nothing about others."""
    return "; ".join(f"{_quoted(feature.name)} {_values_of(feature)}" for feature in spec.features if feature.varies)


def _values_of(feature: Feature) -> str:
    if not feature.categories:
        return f"{_exact(feature.low)} to {_exact(feature.high)}"
    more = ", …" if len(feature.categories) > _MAX_CATEGORIES else ""
    return ", ".join(map(_quoted, feature.categories[:_MAX_CATEGORIES])) + more


def _quoted(name: str) -> str:
    """Return a name, in quotes if it is more than one word: "id, sex" must not look like two names."""
    return name if re.fullmatch(r"\w+([.+-]\w+)*", name) else json.dumps(name, ensure_ascii=False)


def _exact(number: float) -> str:
    """Return a number with all its digits, so that the sentence does not claim more than the data."""
    return str(int(number)) if int(number) == number else repr(number)


def _join(names: list[str], joint: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
