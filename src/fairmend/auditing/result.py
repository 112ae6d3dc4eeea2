"""The result of an audit: how many inputs are treated unequally, and the worst pairs in the user's own values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.auditing.comparisons import widest_output
from fairmend.auditing.disparity import ScoreDisparity, ScoreSummary
from fairmend.auditing.figures import AuditFigures, Pair
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.rows import AuditedRows
from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.text import (
    condition_text,
    html_pairs,
    percent,
    score_difference,
)
from fairmend.network import Model
from fairmend.network.model import ScoredRows, scores_of
from fairmend.prove.result import keep_ignored_features
from fairmend.spec import Spec
from fairmend.spec.describe import describe_difference
from fairmend.spec.own_values import OwnValues, imputed_values, user_values

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from fairmend.spec import Label


NORMAL_QUANTILE = 1.959963984540054
"""Of a two-sided 95 % interval."""


@dataclass(frozen=True, eq=False)
class AuditPair(Pair):
    """Two similar people with different predictions, the audited one first; if the spec claims scores, the lower score.

    `x` and `other` (width,) are both people as the network reads them.
    """

    scores: list[float]
    gap: float
    x: FloatArray = field(repr=False, kw_only=True)
    other: FloatArray = field(repr=False, kw_only=True)

    def with_names(self, names: Sequence[str]) -> AuditPair:
        """Return the pair with the names of the classes; unchanged for a regression network."""
        return self if self.answers is None else replace(self, answer_names=[names[answer] for answer in self.answers])

    def figures(self) -> Pair:
        """Return the pair as documents have it, without what the network reads."""
        return Pair(**{each.name: getattr(self, each.name) for each in fields(Pair)})


@dataclass(frozen=True, eq=False)
class ExaminedInputs:
    """A random sample of the audited inputs, kept so that a report need not draw, encode or scan them again.

    All inputs, if they are at most 20,000 and at most 5 million numbers; otherwise as many, drawn with the seed.

    Attributes
    ----------
    X : (inputs, width), the inputs as the network reads them
    unequal : bool (inputs,), which of them are treated unequally, as counted by the audit
    rows : (inputs,), their rows among all audited inputs, in order
    other : (inputs, width), a neighbour with another prediction for each unequal input, NaN elsewhere; None if the
        audit decided without one (it compares scores over whole neighbourhoods where it can)
    """

    X: FloatArray
    unequal: Bools
    rows: Ints
    other: FloatArray | None = None


@dataclass(frozen=True, eq=False, repr=False)
class AuditResult:
    """How many inputs are treated unequally: they have a neighbour with a different prediction.

    If the spec claims scores: the scores of two people in their neighbourhood differ by more than delta.

    Attributes
    ----------
    count, total : the number of inputs treated unequally, and of all inputs
    pairs : the worst pairs, the largest difference in score first; equal inputs appear once
    exact : whether every input was decided, by comparing every neighbour or by proof; if not, `count` is a lower bound
    sampled : whether the inputs are samples of the input space (IDI-S) or given inputs (IDI-D)
    interval : 95 % interval (Wilson) of the rate in the whole input space, None for given inputs; if not exact, only
        its lower end holds
    evaluations : the number of scores compared; those that bounds show to lie between others are not computed
    seconds : the time taken
    examined : a random sample of the inputs, for reports; not part of `as_dict`
    rows : what is known of every input, for reports; not part of `as_dict`
    disparity : how far the scores of similar people differ, and the share treated unequally at other thresholds
    scores : how far scores differ, if the spec claims scores, else None
    unknown : the number of inputs that are not decided; at most `count` + `unknown` are treated unequally
    plan : the method, and how long it was expected to take
    condition : what must be true of the program that runs the model, if its file leaves that open, else ""
    """

    count: int
    total: int
    pairs: tuple[AuditPair, ...]
    exact: bool
    sampled: bool
    interval: tuple[float, float] | None
    evaluations: int
    seconds: float
    examined: ExaminedInputs
    rows: AuditedRows
    disparity: ScoreDisparity
    scores: ScoreSummary | None
    unknown: int
    plan: AuditPlan
    condition: str = ""

    @property
    def method(self) -> str:
        """The method that was used: "enumerate", "branch" or "sample"."""
        return self.plan.method

    @property
    def unequal(self) -> Bools:
        """Which of all inputs are treated unequally (inputs,)."""
        return self.rows.unequal

    def scored(self, net: Model, X: FloatArray) -> ScoredRows:
        """Return all inputs X (inputs, width) with what the network computed for them."""
        return ScoredRows(net, X, self.rows.logits)

    def scored_sample(self, net: Model) -> ScoredRows:
        """Return the examined inputs with what the network computed for them."""
        return ScoredRows(net, self.examined.X, self.rows.logits[self.examined.rows])

    @property
    def idi_rate(self) -> float:
        """The share of inputs treated unequally, 0 to 1."""
        return self.count / self.total

    def __repr__(self) -> str:
        """Return the count, the share, the interval, and whether they are exact."""
        what = "sampled inputs" if self.sampled else "inputs"
        how = "exact" if self.exact else f"a lower bound: {self.unknown:,} unknown"
        between = (
            f", 95 % interval {percent(self.interval[0], 2)} to {percent(self.interval[1], 2)}" if self.interval else ""
        )
        count = f"{self.count:,} of {self.total:,} {what} treated unequally"
        return f"AuditResult({count}, {percent(self.idi_rate, 2)}{between}, {how}{condition_text(self.condition)})"

    def describe(self) -> str:
        """Return the result as text, with the worst pairs."""
        least = "" if self.exact else "at least "
        what = "samples of the input space" if self.sampled else "inputs"
        lines = [f"{least}{self.count:,} of {self.total:,} {what} ({percent(self.idi_rate, 2)}) are treated unequally"]
        if not self.exact and not self.count:
            lines = [f"none of {self.total:,} {what} was found to be treated unequally"]
        if self.unknown and self.method == "branch":
            lines[0] += f", and at most {self.count + self.unknown:,}"
        if self.interval:
            low, high = (percent(end, 2) for end in self.interval)
            lines[0] += f"; with 95 % confidence {low} to {high} of all inputs are"
        if self.scores is not None:
            largest = score_difference(self.scores.largest, self.scores.claim.on)
            lines.append(f"the scores of similar people differ by up to {largest}")
        lines.append(self.disparity.describe())
        return "\n".join([*lines, *(pair.describe() for pair in self.pairs)])

    def name_classes(self, label: Label | None, values: Iterable[object]) -> AuditResult:
        """Return the result with class 0 named for the other of two values of the label in the data, if there are two.

        Without, the pairs call it "not yes", since a spec gives only the positive value.
        """
        if label is None or label.positive is None or self.rows.logits[:1].size > 2:
            return self
        names, worst = (label.name_negative(values), label.positive), self.disparity.worst
        disparity = replace(self.disparity, worst=None if worst is None else worst.with_names(names))
        return replace(self, pairs=tuple(pair.with_names(names) for pair in self.pairs), disparity=disparity)

    def to_frame(self) -> pd.DataFrame:
        """Return the worst pairs as a table: two rows each, the audited input first."""
        import pandas as pd

        rows = []
        for place, pair in enumerate(self.pairs, start=1):
            for side, values in enumerate((pair.values, pair.other_values)):
                row: dict[str, Any] = {"pair": place, "row": pair.row, "id": pair.id, "counterfactual": bool(side)}
                row |= values
                row["prediction"] = None if pair.answer_names is None else pair.answer_names[side]
                rows.append(row | {"score": pair.scores[side]})
        table = pd.DataFrame(rows)
        return table.drop(columns="id") if rows and all(row["id"] is None for row in rows) else table

    def _repr_html_(self) -> str:
        """Show the result in a notebook: the figures that the terminal shows, then the worst pairs."""
        scores, disparity = None if self.scores is None else self.scores.figures(), self.disparity.figures()
        found = self.figures()
        rows = [*found.rows(scores, disparity), *disparity.rows()]
        rows += [(f"Pair {number}", pair.describe()) for number, pair in enumerate(self.pairs, start=1)]
        notes = [] if self.exact else [found.why_more()]
        notes += ["Rows are counted from 0."] if self.pairs and not self.sampled else []
        notes += [f"Condition: {self.condition}"] if self.condition else []
        return html_pairs("Audit", rows, notes)

    def figures(self) -> AuditFigures:
        """Return the figures as documents have them."""
        return AuditFigures(
            count=self.count,
            total=self.total,
            idi_rate=self.idi_rate,
            exact=self.exact,
            sampled=self.sampled,
            interval=None if self.interval is None else list(self.interval),
            unknown=self.unknown,
            method=self.method,
            exact_seconds=self.plan.exact_seconds,
            evaluations=self.evaluations,
            seconds=self.seconds,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data; rates are from 0 to 1."""
        return {
            **vars(self.figures()),
            "scores": None if self.scores is None else asdict(self.scores.figures()),
            "disparity": self.disparity.as_dict(),
            "pairs": [asdict(pair.figures()) for pair in self.pairs],
            "condition": self.condition,
        }


def make_pairs(
    spec: Spec, rows: Sequence[int], people: ScoredRows, other: FloatArray, *, on: str | None = None
) -> list[AuditPair]:
    """Return the pairs of people and their neighbours `other` (pairs, width), the worst first.

    `on` names the score that is compared, by default that of the spec's claim; None compares predictions.
    """
    on = spec.claim.on if on is None else on
    net, X = people.net, people.X
    other = keep_ignored_features(net, spec, X, other)
    others = ScoredRows.of(net, other)
    answers = np.stack([people.classes, others.classes], axis=1)
    scores, output = _pair_scores(on, people, others)
    values, other_values = records(spec, X), records(spec, other)
    names = [spec.name_class(number, net.outputs) for number in range(max(2, net.outputs))]
    pairs = [
        AuditPair(
            row=row,
            id=None,
            values=values[i],
            other_values=other_values[i],
            answers=None if spec.regression else answers[i].tolist(),
            answer_names=None if spec.regression else [names[answer] for answer in answers[i]],
            scores=scores[i].tolist(),
            on=on or "probability",
            output=int(output[i]) if net.outputs > (1 if on is not None else 2) else None,
            gap=abs(float(scores[i, 0]) - float(scores[i, 1])),
            difference=spec.describe_pair(X[i], other[i]),
            x=X[i],
            other=other[i],
        )
        for i, row in enumerate(rows)
    ]
    return sorted(pairs, key=lambda pair: (-pair.gap, pair.row))


def _pair_scores(on: str | None, people: ScoredRows, others: ScoredRows) -> tuple[Floats, Ints]:
    """Return both scores (pairs, 2) that `AuditPair` shows, and the output (pairs,) that they are of."""
    if on is not None:
        pair = np.stack([scores_of(side.logits, on) for side in (people, others)], axis=1)
        output = widest_output(np.abs(pair[:, 1] - pair[:, 0]), on)
        return pair[np.arange(len(pair)), :, output], output
    shares = [side.probability(people.classes) for side in (people, others)]
    return np.stack(shares, axis=1), people.classes


def with_own_values(
    pairs: Sequence[AuditPair], spec: Spec, people: pd.DataFrame, dtype: npt.DTypeLike
) -> tuple[AuditPair, ...]:
    """Return the pairs with the values that the data has of their people, a row of `people` (pairs, columns) each."""
    if not pairs:
        return ()
    own = OwnValues(spec, people, dtype)
    sides = (records(spec, np.stack([getattr(pair, side) for pair in pairs]), own) for side in ("x", "other"))
    found = []
    for pair, values, other_values in zip(pairs, *sides, strict=True):
        imputed = imputed_values(spec, values) | imputed_values(spec, other_values)
        difference = difference_in_words(spec, values, other_values)
        found.append(replace(pair, values=values, other_values=other_values, imputed=imputed, difference=difference))
    return tuple(found)


def difference_in_words(spec: Spec, values: Mapping[str, Any], other_values: Mapping[str, Any]) -> str:
    """Return how a counterfactual differs from a person, given the values of both by feature."""
    both = ((f, values[f.name], other_values[f.name]) for f in spec.features)
    return describe_difference((f.name, f.called(own), f.called(other)) for f, own, other in both if own != other)


def records(spec: Spec, X: FloatArray, own: OwnValues | None = None) -> list[dict[str, Any]]:
    """Return X (people, width) in the user's own values: those of one person each, by feature."""
    columns = user_values(spec, X, own)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate, given `count` of `total` samples (Wilson, 1927)."""
    rate, square = count / total, NORMAL_QUANTILE**2
    middle = (rate + square / (2 * total)) / (1 + square / total)
    half = NORMAL_QUANTILE * math.sqrt(rate * (1 - rate) / total + square / (4 * total**2)) / (1 + square / total)
    # At the ends the formula gives 0 and 1 up to rounding.
    return (0.0 if count == 0 else middle - half), (1.0 if count == total else middle + half)
