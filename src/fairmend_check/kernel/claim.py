"""A claim: the margin of a class at a threshold, how far apart scores are, and the sentence that is printed.

The prediction is class 1 if the probability, the sigmoid of one output or the softmax of two, is at least t. In exact
arithmetic the *lead* of class 1, the output or the second minus the first, is then at least log(t / (1 - t)). A claim
about scores is about the outputs, or their sigmoid or softmax, of any two similar people. The sentence is written from
the data: what stands in the file is not evidence.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.certificate import Certificate, ClaimedShares, ClassCertificate
from fairmend_check.kernel.classes import Axis, Table, ignored_features, table_of
from fairmend_check.kernel.entry import Entry
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.rounding import GENEROUS, LIBRARY, TINY, Array, Precision, down, gamma, up
from fairmend_check.kernel.spec import HALF, Effect, Feature, Runs, ScoreClaim, Spec

CLOSING_UNITS = 16  # a sigmoid or softmax is accurate to so many units of 1
_DIGITS, _SLIP = Context(prec=60), 1e-50


@dataclass(frozen=True)
class Threshold:
    """A threshold of a model that computes in a floating-point format.

    ``low`` and ``high`` enclose log(t / (1 - t)). ``below`` and ``above`` are how far from it a computed lead of class
    1 must be for a computed probability to be on the same side of t, also of t rounded to the format.
    """

    low: float
    high: float
    below: float
    above: float

    @staticmethod
    def of(threshold: float, dtype: str) -> Threshold:
        """Return the threshold t, 0 < t < 1, for "float32" or "float64"."""
        kind = np.finfo(dtype)
        unit = float(kind.eps) / 2
        if threshold == HALF:
            return Threshold(0.0, 0.0, 4 * CLOSING_UNITS * unit, 4 * CLOSING_UNITS * unit)
        exact, rounded = Fraction(threshold), Fraction(float(np.dtype(dtype).type(threshold)))
        error = CLOSING_UNITS * Fraction(unit) + Fraction(float(kind.tiny))
        low, high = enclose_log_odds(exact)
        least, most = min(exact, rounded) - error, max(exact, rounded) + error
        below = math.nextafter(high - enclose_log_odds(least)[0], math.inf) if least > 0 else math.inf
        above = math.nextafter(enclose_log_odds(most)[1] - low, math.inf) if most < 1 else math.inf
        return Threshold(low, high, below, above)

    def margins(self, leads: Array, classes: np.ndarray) -> Array:
        """Return lower bounds of the margins of classes 0 and 1, from lower bounds of their leads over each other."""
        if self.low == self.high:
            return leads
        return down(leads - np.where(classes == 1, self.high, -self.low))

    def closing(self, classes: np.ndarray) -> Array:
        """Return what a closing sigmoid or softmax may take from the margins of these classes."""
        return np.where(classes == 1, self.above, self.below)


def enclose_log_odds(p: Fraction) -> tuple[float, float]:
    """Return numbers below and above log(p / (1 - p)).

    Division and `ln` of decimal numbers are correctly rounded, here to 60 digits. The odds are off by less than a
    relative 1e-59, so the result, which is below 1000 in size, is off by less than _SLIP before it becomes a float.
    """
    odds = p / (1 - p)
    nearest = float(_DIGITS.ln(_DIGITS.divide(Decimal(odds.numerator), Decimal(odds.denominator))))
    return math.nextafter(nearest - _SLIP, -math.inf), math.nextafter(nearest + _SLIP, math.inf)


MAX_PROBABILITIES = 100  # of one model: the bounds of a softmax need memory for the cube of their number

_SIGMOID = function_of(Activation("sigmoid"))


@dataclass(frozen=True)
class Score:
    """A score of a model with this number of outputs: each raw output, its sigmoid, or each softmax of several."""

    name: str  # "output", "sigmoid" or "softmax"
    outputs: int

    @staticmethod
    def of(claim: ScoreClaim, outputs: int) -> Score:
        """Return the score that a claim is about; refuse a softmax of too many outputs."""
        if claim.on == "probability" and outputs > MAX_PROBABILITIES:
            raise CheckError(f"claims about more than {MAX_PROBABILITIES} probabilities cannot be checked")
        return Score("output" if claim.on != "probability" else "sigmoid" if outputs == 1 else "softmax", outputs)

    @property
    def forms(self) -> Array:
        """The linear forms of the outputs (forms, outputs) whose lower bounds `from_forms` needs.

        For a softmax these are all z_j - z_k, else z_k and -z_k.
        """
        each = np.eye(self.outputs)
        if self.name == "softmax":
            return np.asarray((each[:, None] - each[None]).reshape(-1, self.outputs))
        return np.concatenate([each, -each])

    def from_forms(self, least: Array) -> tuple[Array, Array]:
        """Return bounds of the scores over boxes (boxes, outputs), from lower bounds of the forms (boxes, forms)."""
        if self.name == "softmax":
            return _softmax(least.reshape(-1, self.outputs, self.outputs))
        return least[:, : self.outputs], -least[:, self.outputs :]

    def from_outputs(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Do the same from bounds of the outputs (boxes, outputs)."""
        if self.name != "softmax":
            return low, high
        return _softmax(down(low[:, :, None] - high[:, None, :]))

    def in_inference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> tuple[Array, Array]:
        """Return bounds of the scores that a program computes (boxes, outputs), from those that `from_forms` gives.

        ``error`` is that of each raw output in inference, where a probability is rounded as well; ``kind``
        is None for exact arithmetic. A softmax of outputs that are off by e is off by at most e / 2: the sizes of its
        derivatives, p (1 - p) and p q for each of the other probabilities q, add up to 2 p (1 - p).
        """
        with np.errstate(all="ignore"):
            if kind is not None and self.name != "softmax":
                low, high = down(low - error), up(high + error)
            if self.name == "sigmoid":
                low, high = _SIGMOID.value_range(low, high)
            if kind is None or self.name == "output":
                return low, high
            rounding = np.full((1, 1), 16 * kind.u + kind.tiny)
            if self.name == "softmax":
                rounding = rounding + 0.5 * error.max(axis=1, keepdims=True)
            return down(low - GENEROUS * rounding), up(high + GENEROUS * rounding)

    def difference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> Array:
        """Return how far apart two scores can be (inputs,), from bounds of the scores as `in_inference` takes them."""
        low, high = self.in_inference(low, high, error, kind)
        with np.errstate(all="ignore"):
            most: Array = up(high - low).max(axis=1)
        return most


def _softmax(least: Array) -> tuple[Array, Array]:
    """Enclose each probability (boxes, outputs), from lower bounds of z_j - z_k (boxes, j, k) for j != k."""
    slip = LIBRARY + gamma(least.shape[1] + 4)
    others = ~np.eye(least.shape[1], dtype=np.bool_)
    with np.errstate(all="ignore"):
        below = np.where(others, np.exp(least), 0.0).sum(axis=1) * (1 - slip)  # of the others' sum of exp(z_j - z_k)
        # z_j - z_k is at most minus the lower bound of z_k - z_j.
        above = np.where(others, np.exp(-least), 0.0).sum(axis=2) * (1 + slip) + TINY
        return np.maximum(down(1 / up(1 + above)), 0.0), np.minimum(up(1 / down(1 + below)), 1.0)


_MAX_CATEGORIES = 12
_MAX_CLASSES, _MAX_LISTED = 12, 10_000  # of linked values in words, and to look for these
_SCORES = {
    "output": "each raw output of this model, before a closing sigmoid or softmax",
    "sigmoid": "the probability, which is the sigmoid of the output of this model",
    "softmax": "each probability, by the softmax of the outputs of this model",
}


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
            f"For {_who(certificate.count)} listed in this certificate, {_what(certificate)}.",
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
        f"{_quoted(feature.name)} within its band"
        if feature.bands or feature.groups
        else f"{_quoted(feature.name)} by up to {_exact(feature.reach)}"
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
        more = ", …" if len(feature.bands) > _MAX_CATEGORIES else ""
        bands = (
            f" in bands from {', '.join(map(_exact, feature.bands[:_MAX_CATEGORIES]))}{more}" if feature.bands else ""
        )
        return f"{_exact(feature.low)} to {_exact(feature.high)}{f' ({called})' if called else ''}{bands}"
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


def _exact(number: float) -> str:
    """Return a number with all its digits, so that the sentence does not claim more than the data."""
    return str(int(number)) if int(number) == number else repr(number)


def _join(names: list[str], joint: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
