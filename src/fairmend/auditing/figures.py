"""The figures of an audit as data, each computed and named once: pairs of people, and how far their scores differ.

Documents hold them; the terminal, the page and a notebook draw from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairmend.base.text import describe_seconds, html_pairs, in_points, number, percent, printable, probabilities, short


def name_row(row: int, person: str | None) -> str:
    """Return "row 5", or "row 5 (C-1017)" with the id of a person."""
    return f"row {row}" if person is None else f"row {row} ({short(person, 40)})"


@dataclass(frozen=True)
class Pair:
    """Two similar people, the audited one first; in a score disparity, the lower score first.

    `row` and `id` are those of the audited person. `values` and `other_values` are theirs, by feature, as they stand in
    the data; None is a missing value, and `imputed` has what replaces it, by feature. `answers` are the classes of both
    and `answer_names` what they mean, None for a regression network. `scores` are probabilities of the positive class,
    with more than two classes of the class `output`; for a claim about scores, what the claim is `on`, of the `output`
    if there are several. `gap` is the difference of the scores, and `difference` says how the two people differ, as
    text. `tie` says that a score is within the rounding error of inference, so that another library may give both the
    same prediction.
    """

    row: int
    id: str | None
    values: dict[str, Any]
    other_values: dict[str, Any]
    answers: list[int] | None
    answer_names: list[str] | None
    scores: list[float] | None
    on: str
    output: int | None
    gap: float | None
    difference: str
    tie: bool = False
    imputed: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The audited person: "row 5", or "row 5 (C-1017)" with an id."""
        return name_row(self.row, self.id)

    @property
    def differing(self) -> list[str]:
        """The features in which the two differ."""
        return [name for name, value in self.values.items() if self.other_values[name] != value]

    def describe(self) -> str:
        """Return the pair as a line of text."""
        assert self.scores is not None
        shown = probabilities(self.scores) if self.on == "probability" else map(number, self.scores)
        first, second = (f"{self._score_name} {score}" for score in shown)
        if self.answer_names is not None:
            first, second = (f"{printable(a)}, {s}" for a, s in zip(self.answer_names, (first, second), strict=True))
        return f"{self.name}: {first}; {self.difference}: {second}"

    def describe_witness(self) -> str:
        """Return how the two differ, and the class or score of the second instead of that of the first."""
        tie = " (a tie: within the rounding error of inference)" if self.tie else ""
        if self.scores is not None:
            what = "score" if self.output is None else f"score {self.output}"
            return f"{self.difference}: {what} {self.scores[1]:.5g} instead of {self.scores[0]:.5g}{tie}"
        own, other = map(printable, self.answer_names or ())
        return f"{self.difference}: {other} instead of {own}{tie}"

    @property
    def _score_name(self) -> str:
        """What the scores are: "probability of yes", or "logit 2" of several outputs."""
        if self.on != "probability":
            return self.on if self.output is None else f"{self.on} {self.output}"
        output = 1 if self.output is None else self.output
        names = {} if self.answers is None else dict(zip(self.answers, self.answer_names or (), strict=True))
        return f"probability of {printable(names.get(output, f'class {output}'))}"


@dataclass(frozen=True)
class ScoreFigures:
    """How far the scores of similar people differ, if the spec claims scores; at most `delta` is allowed.

    `counts` says how many inputs have a difference from one of the `edges` to the next.
    """

    on: str
    delta: float
    largest: float
    median: float
    p90: float
    edges: list[float]
    counts: list[int]

    def rows(self, least: str, *, same: bool) -> list[tuple[str, str]]:
        """Return each figure as text, with its name; the differences unless a disparity shows the `same` ones."""
        rows = [(f"Allowed difference of the {self.on}", f"{self.delta:.4g}")]
        if not same:
            rows.append(("Largest difference within a neighbourhood", f"{least}{self.largest:.4g}"))
            rows.append(("Median difference / 90th percentile", f"{self.median:.4g} / {self.p90:.4g}"))
        return rows


@dataclass(frozen=True)
class AboveLimit:
    """How many people have a score disparity of more than so many percentage `points`, and their `share`."""

    points: int
    count: int
    share: float


@dataclass(frozen=True)
class AtThreshold:
    """How many people would be treated unequally if this `threshold` decided, and their `share`."""

    threshold: float
    count: int
    share: float


@dataclass(frozen=True)
class DisparityFigures:
    """How far the scores of similar people differ, whatever the claim is about.

    The people are those audited, or the rows of a repair's data. `median` to `p99` are the differences that 50, 90, 95
    and 99 % of them do not exceed; all figures are lower bounds if not `exact`. `counts` says how many have a
    difference from one of the `edges` to the next. `worst` are the two similar people whose scores differ most. `curve`
    has the share treated unequally at each threshold, and `threshold` is the one that decides; empty and None for a
    regression network or more than two classes.
    """

    on: str
    exact: bool
    median: float
    p90: float
    p95: float
    p99: float
    largest: float
    above: list[AboveLimit]
    edges: list[float]
    counts: list[int]
    worst: Pair | None
    threshold: float | None
    curve: list[AtThreshold]

    def share_above(self, points: int) -> float:
        """Return the share of people with a larger difference than so many percentage points."""
        return next(entry.share for entry in self.above if entry.points == points)

    def share_at(self, threshold: float) -> float:
        """Return the share treated unequally at one of the thresholds, the nearest one."""
        return min(self.curve, key=lambda entry: abs(entry.threshold - threshold)).share

    def as_html(self) -> str:
        """Return the table that a notebook shows."""
        rows, least = self.rows(), "" if self.exact else "≥ "
        if self.worst is not None:
            rows.append(("The two who differ most", self.worst.describe()))
        if self.threshold is not None:
            mine, most = self.threshold, self.peak
            share = f"{least}{percent(self.share_at(mine))}"
            rows.append((f"Treated unequally at {mine:g}, the threshold", share))
            share = f"{least}{percent(most.share)}"
            rows.append((f"Treated unequally at {most.threshold:g}, where it is highest", share))
        return html_pairs("Score disparity: how far the scores of similar people differ", rows)

    def describe(self) -> str:
        """Return the disparity as a line of text."""
        least, points = "" if self.exact else "at least ", self.on == "probability"
        median, largest = (in_points(value) if points else number(value) for value in (self.median, self.largest))
        what = "scores of" if points else "outputs for"
        line = f"the {what} similar people differ by {least}{median} (median), and by up to {largest}"
        above = ", ".join(f"{percent(entry.share)} by more than {entry.points}" for entry in self.above)
        return f"{line}; {least}{above} points" if above else line

    def rows(self) -> list[tuple[str, str]]:
        """Return each figure of the distribution as text, with its name."""
        least, points = "" if self.exact else "≥ ", self.on == "probability"
        values = {
            "median": self.median,
            "90 % at most": self.p90,
            "95 % at most": self.p95,
            "99 % at most": self.p99,
            "largest": self.largest,
        }
        shown = {name: in_points(value) if points else number(value) for name, value in values.items()}
        rows = [(f"Score disparity: {name}", f"{least}{value}") for name, value in shown.items()]
        for entry in self.above:
            unit = "point" if entry.points == 1 else "points"
            rows.append((f"Score disparity: share above {entry.points} {unit}", f"{least}{percent(entry.share)}"))
        return rows

    @property
    def peak(self) -> AtThreshold:
        """The threshold at which most people are treated unequally, the lowest of several."""
        return max(self.curve, key=lambda entry: (entry.share, -entry.threshold))


UNEQUAL, UNEQUAL_SHARE = "Treated unequally", "Share treated unequally"
"""The names of the rows that say whether anyone is treated unequally."""


@dataclass(frozen=True)
class Unequal:
    """How many of `total` people are treated unequally: `count`, or more if not `exact`. `idi_rate` is their share."""

    count: int
    total: int
    idi_rate: float
    exact: bool


@dataclass(frozen=True)
class AuditFigures(Unequal):
    """What an audit found, among people of a file or random samples (`sampled`).

    `interval` is the 95 % confidence interval of the share for samples. `unknown` people are not decided. `method` is
    "enumerate", "branch" or "sample", and `exact_seconds` how long an exact count would take, if it was not made.
    `evaluations` scores were compared in `seconds`.
    """

    sampled: bool
    interval: list[float] | None
    unknown: int
    method: str
    exact_seconds: float | None
    evaluations: int
    seconds: float

    def rows(self, scores: ScoreFigures | None, disparity: DisparityFigures) -> list[tuple[str, str]]:
        """Return each figure as text, with its name, and those of a claim about `scores`."""
        least, none_found = "" if self.exact else "at least ", not self.exact and not self.count
        rows = [
            ("Random samples of the input space" if self.sampled else "People in the data", f"{self.total:,}"),
            (UNEQUAL, "none found" if none_found else f"{least}{self.count:,}"),
        ]
        rows += [] if none_found else [(UNEQUAL_SHARE, f"{least}{percent(self.idi_rate, 2)}")]
        rows += [("Undecided", f"{self.unknown:,}")] if self.unknown and self.method == "branch" else []
        if self.interval:
            low, high = self.interval
            rows.append(("95 % confidence interval", f"{percent(low, 2)} to {percent(high, 2)}"))
        rows.append(("Scores compared", f"{self.evaluations:,} in {self.seconds:.2f} s"))
        if scores is not None:
            rows += scores.rows("" if self.method == "enumerate" else "at least ", same=scores.on == disparity.on)
        return rows

    def why_more(self) -> str:
        """Return why more people may be treated unequally than are counted; empty if none are."""
        if self.exact:
            return ""
        if self.method == "branch":
            return (
                f"{self.unknown:,} more may be treated unequally: their scores come within rounding error of the "
                "decision, or the time limit was reached."
            )
        line = "Only random counterfactuals were tried: more people may be treated unequally."
        if self.exact_seconds is None:
            return line
        took = describe_seconds(self.exact_seconds)
        return f"{line} An exact count would take about {took} or more: pass --method exact."
