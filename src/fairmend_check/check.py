"""Does a certificate hold for a model file? Every rule of docs/certificate.md, from the files to the verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from fairmend_check.certificate import Certificate, Region, read_certificate, read_region
from fairmend_check.model import Model, weights_digest, with_activations_of
from fairmend_check.model_file import read_model
from fairmend_check.refused import Refused
from fairmend_check.regions import check_coverage, prove
from fairmend_check.report import CheckResult
from fairmend_check.spec import Spec, first_difference, read_spec_file

MAX_REASONS = 20


def check(
    certificate: str | PathLike[str], model: str | PathLike[str], spec: str | PathLike[str] | None = None
) -> CheckResult:
    """Check a certificate against a model file, and against a spec file where one is named.

    Whatever the files hold, the answer is a report: what cannot be confirmed is not valid, and the reasons say why.
    """
    started = time.perf_counter()
    answer = _Answer()
    try:
        _check(answer, Path(certificate), Path(model), None if spec is None else Path(spec))
    except Refused as error:
        answer.reasons.append(str(error))
    except MemoryError:
        answer.reasons.append("the certificate or the model needs more memory than there is")
    except Exception as error:  # a checker that fails has confirmed nothing
        answer.reasons.append(f"it could not be checked ({type(error).__name__}: {str(error)[:200]})")
    return CheckResult(
        valid=not answer.reasons,
        reasons=tuple(_shortened(answer.reasons)),
        claim=answer.claim,
        regions=answer.regions,
        covers_inference=answer.covers_inference,
        least_margin=answer.least_margin,
        seconds=time.perf_counter() - started,
    )


class _Answer:
    """What is known so far."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.claim = ""
        self.regions = 0
        self.covers_inference: bool | None = None
        self.least_margin: float | None = None


def _check(answer: _Answer, certificate: Path, model: Path, spec: Path | None) -> None:
    claimed = read_certificate(certificate)
    answer.regions = len(claimed.regions)
    answer.claim = claim_of(claimed)
    if spec is not None:
        answer.reasons += _spec_reasons(claimed, spec)
    network, named = _matching_model(claimed, model)
    if not named:
        between = network.between[0].name
        answer.claim += f" The model's file holds weights only: all this holds if {between} stands between its layers."
    if claimed.arithmetic == "float32" and network.dtype == "float64":
        raise Refused("certificate.arithmetic is float32, but the model's weights are float64 and would be rounded")
    if claimed.blind is not None:
        answer.reasons += _global_reasons(claimed.blind, claimed.spec, network)
    answer.covers_inference = True  # what does not depend on a column does not in floating point either
    if claimed.regions:
        regions = [read_region(entry, number, network) for number, entry in enumerate(claimed.regions)]
        claimed.regions.clear()  # the parsed JSON is many times larger than the arrays
        _check_regions(answer, claimed, network, regions)


def _check_regions(answer: _Answer, claimed: Certificate, network: Model, regions: list[Region]) -> None:
    answer.covers_inference = None
    missing = check_coverage(network, claimed.spec, regions)
    if missing:
        answer.reasons += missing
        return
    precision = network.dtype if claimed.arithmetic == "real" else claimed.arithmetic
    proven = prove(network, claimed.spec, regions, precision)
    least = float(proven.margin.min())
    answer.least_margin = least if np.isfinite(least) else None
    answer.covers_inference = bool(proven.covers.all())
    for number, (region, margin) in enumerate(zip(regions, proven.margin, strict=True)):
        if not margin >= region.margin:
            found = f"{margin:.9g}" if np.isfinite(margin) else "no bound"
            answer.reasons.append(
                f"regions[{number}]: the margin of class {region.label} is claimed to be at least {region.margin:.9g}, "
                f"and only {found} can be confirmed"
            )
    if claimed.arithmetic != "real":
        answer.reasons += [
            f"regions[{number}]: the margin does not exceed the rounding errors of {precision} inference"
            for number in np.flatnonzero(~proven.covers)
        ]


def _matching_model(claimed: Certificate, path: Path) -> tuple[Model, bool]:
    """Return the model in the file, if it is the one the certificate is about, and whether it names its activations."""
    network, file_sha256 = read_model(path)
    named = network.activations is not None or len(network.weights) == 1
    network = with_activations_of(network, claimed.weights_sha256)
    if weights_digest(network) != claimed.weights_sha256:
        raise Refused(f"model {path.name}: its weights are not those the certificate is about (weights_sha256 differs)")
    if claimed.file_sha256 not in (None, file_sha256):
        raise Refused(f"model {path.name}: it is not the file the certificate is about (file_sha256 differs)")
    for what, here, there in (
        ("inputs", network.inputs, claimed.inputs),
        ("outputs", network.outputs, claimed.outputs),
        ("dtype", network.dtype, claimed.dtype),
    ):
        if here != there:
            raise Refused(f"certificate.model.{what} is {there}, and the model has {here}")
    return network, named


def _spec_reasons(claimed: Certificate, path: Path) -> list[str]:
    other = read_spec_file(path, claimed.spec_sha256)
    difference = None if other is None else first_difference(claimed.spec, other)
    return [] if difference is None else [f"spec {path.name}: not the spec of the certificate: {difference}"]


def _global_reasons(columns: Sequence[int], spec: Spec, network: Model) -> list[str]:
    wanted = spec.protected_columns()
    if sorted(columns) != sorted(wanted):
        return [
            f"certificate.global.columns are {sorted(columns)[:20]}, and those of the protected features are "
            f"{sorted(wanted)[:20]}"
        ]
    used = [column for column in sorted(columns) if np.any(network.weights[0][:, column] != 0)]
    return [f"certificate.global: the model does depend on column {column}" for column in used]


def claim_of(claimed: Certificate) -> str:
    """Say what the data of a certificate claims; its own sentence is not evidence of anything."""
    protected = _listed([feature.name for feature in claimed.spec.features if feature.protected])
    sentences = []
    if claimed.blind is not None:
        sentences.append(f"For every input, the output of this model does not depend on {protected}.")
    if claimed.regions:
        near = [f"{f.name} by up to {f.tolerance:g}" for f in claimed.spec.features if f.tolerance > 0 and f.varies]
        count = len(claimed.regions)
        who = "the input" if count == 1 else f"each of the {count} inputs"
        also = f", even if you also change {_listed(near)}" if near else ""
        where = "" if claimed.arithmetic == "real" else f" and in {claimed.arithmetic} inference"
        sentences.append(
            f"For {who} listed here, the prediction of this model stays the same whatever its {protected}{also}. "
            f"This holds in real arithmetic{where}, for these values: {_values(claimed.spec)}."
        )
    return " ".join(sentences)


def _values(spec: Spec) -> str:
    """Say which values of protected features were looked at: a claim is about no others."""
    shown = []
    for feature in (f for f in spec.features if f.protected):
        if feature.categories:
            words = ", ".join(feature.categories[:12]) + (", …" if len(feature.categories) > 12 else "")
        else:
            words = f"{feature.low:.12g} to {feature.high:.12g}"
        shown.append(f"{feature.name} {words}")
    return "; ".join(shown)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _shortened(reasons: list[str]) -> list[str]:
    more = len(reasons) - MAX_REASONS
    return reasons if more <= 0 else [*reasons[:MAX_REASONS], f"and {more:,} more reasons of this kind"]
