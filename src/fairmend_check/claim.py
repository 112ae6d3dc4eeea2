"""The claim of a certificate in English, written from its data: the sentence in the file is not evidence."""

from __future__ import annotations

from fairmend_check.certificate import Certificate
from fairmend_check.spec import Feature, Spec

_MAX_CATEGORIES = 12


def describe_claim(certificate: Certificate) -> str:
    """Return what the data of a certificate claims."""
    protected = _join([feature.name for feature in certificate.spec.features if feature.protected], "or")
    sentences = []
    if certificate.blind is not None:
        sentences.append(f"For every input, the output of this model does not depend on {protected}.")
    if certificate.regions:
        near = [f"{f.name} by up to {f.tolerance:g}" for f in certificate.spec.features if f.tolerance > 0 and f.varies]
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
    """Return the values of the protected features that the claim is about; it says nothing about others."""
    return "; ".join(f"{feature.name} {_values_of(feature)}" for feature in spec.features if feature.protected)


def _values_of(feature: Feature) -> str:
    if not feature.categories:
        return f"{feature.low:.12g} to {feature.high:.12g}"
    more = ", …" if len(feature.categories) > _MAX_CATEGORIES else ""
    return ", ".join(feature.categories[:_MAX_CATEGORIES]) + more


def _join(names: list[str], joint: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
