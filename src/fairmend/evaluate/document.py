"""What a report says, as data: report.json holds exactly this, and the page is drawn from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

FORMAT = "fairmend report"
VERSION = 1

REPAIR, AUDIT = "repair", "audit"


@dataclass(frozen=True)
class File:
    """A file the report is about: what it is ("model", "data", "certificate", …), its name and its sha256."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Origin:
    """Where the report comes from. `created` is a UTC time; `command` and `seed` are None where nobody gave them."""

    created: str
    command: str | None
    seed: int | None
    files: list[File]
    versions: dict[str, str]


@dataclass(frozen=True)
class Similar:
    """Who counts as similar: protected features vary at will, others by up to their tolerance (in their own units)."""

    protected: list[str]
    tolerances: dict[str, float]
    everything_looked_at: bool


@dataclass(frozen=True)
class Measured:
    """One network on the data: rates are from 0 to 1, and None where not defined."""

    unfair_inputs: int
    unfair_inputs_exact: bool
    unfair_rows: int
    unfair_rate: float
    unfair_rate_exact: bool
    accuracy: float
    balanced_accuracy: float
    positive_rate: float | None
    auc: float | None


@dataclass(frozen=True)
class Group:
    """People of one group: how many, and what share gets a positive answer, before (or in an audit, now) and after."""

    name: str
    rows: int
    positive_before: float | None
    positive_after: float | None = None
    unfair_rate: float | None = None


@dataclass(frozen=True)
class GroupFeature:
    """One protected feature and the differences between its groups; `reason` says why one of them is None."""

    feature: str
    binned: bool
    groups: list[Group]
    groups_left_out: int
    parity_before: float | None
    odds_before: float | None
    parity_after: float | None = None
    odds_after: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Span:
    """The score of one input and over its whole neighbourhood.

    The score lies within low..high for certain; seen_low..seen_high was seen. The two agree where every neighbour was
    looked at. `low` and `high` are None where there is no bound. `state` is "one" (one answer for sure), "two" (two
    answers were seen) or "open".
    """

    own: float
    seen_low: float
    seen_high: float
    low: float | None
    high: float | None
    state: str


@dataclass(frozen=True)
class Ranges:
    """The spans of some inputs, in order of their score before; `after` is empty in an audit.

    `score` is "logit" (class 1 wins at 0 or above) or "lead" (by how much the input's own class leads the others).
    """

    score: str
    total: int
    exact: bool
    before: list[Span]
    after: list[Span]


@dataclass(frozen=True)
class LayerChange:
    """How one affine layer changed: weights and biases that differ, the l1 norm and the largest of the differences."""

    name: str
    inputs: int
    outputs: int
    changed: int
    total: int
    l1: float
    largest: float


@dataclass(frozen=True)
class Dumbbell:
    """A value before and after; `marked` for a protected column."""

    name: str
    before: float
    after: float
    marked: bool = False


@dataclass(frozen=True)
class Weights:
    """Which weights changed: by layer; what each input column weighs in the first layer (l1); the head itself."""

    layers: list[LayerChange]
    columns: list[Dumbbell]
    columns_left_out: int
    head: list[Dumbbell]
    head_left_out: int


@dataclass(frozen=True)
class CandidateNote:
    """One recipe that auto tried; `why` says in words why it was taken or not."""

    name: str
    guarantee: str
    balanced_accuracy: float
    changed: float
    agreement: float
    unfair_rate: float
    chosen: bool
    proven: bool
    why: str


@dataclass(frozen=True)
class Pair:
    """A person and a similar one with another answer.

    `values` are the person's, by shown column; `others` the other's where it differs, else None. Answers and scores
    are the two people's; those after the repair are None in an audit.
    """

    row: int
    values: list[str]
    others: list[str | None]
    differs: list[str]
    answers: list[int]
    scores: list[float]
    answers_after: list[int] | None = None
    scores_after: list[float] | None = None


@dataclass(frozen=True)
class Pairs:
    """Pairs, the largest difference in score first; `total` people are treated unequally, `exact` or at least.

    The first `varying` of the columns are those in which similar people may differ.
    """

    total: int
    exact: bool
    columns: list[str]
    varying: int
    columns_left_out: int
    rows: list[Pair]


@dataclass(frozen=True)
class Flips:
    """What has to change for another answer.

    Of `looked_at` people treated unequally, `alone` counts for each feature whom it alone is enough for, and
    `together` whom no single feature is enough for.
    """

    looked_at: int
    exact: bool
    alone: dict[str, int]
    together: int


@dataclass(frozen=True)
class Repair:
    """What a repair did and what is proven of it; see `fairmend.repair.RepairResult`."""

    method: str
    claim: str
    beyond: str
    certified: str | None
    blind: bool
    strict: bool
    proven: int
    inputs: int
    covers_inference: bool
    precision: str
    data_rows: int
    scored_rows: int
    held_out: bool
    before: Measured
    after: Measured
    changed_predictions: float
    changed_weights: int
    total_weights: int
    head_change: float
    margin: float
    gap: float
    seconds: dict[str, float]
    fair_loss: list[float]
    task_loss: list[float]
    weights: Weights
    candidates: list[CandidateNote]
    check: str | None


@dataclass(frozen=True)
class Audit:
    """What an audit found; see `fairmend.AuditResult`. Utility is None where there are no labels."""

    count: int
    total: int
    rate: float
    exact: bool
    sampled: bool
    interval: list[float] | None
    evaluations: int
    seconds: float
    looked_at: int
    labelled_rows: int
    accuracy: float | None
    balanced_accuracy: float | None
    positive_rate: float | None
    auc: float | None
    worst: list[str]


@dataclass(frozen=True)
class Document:
    """The whole report; exactly one of `repair` and `audit` is there, as `kind` says."""

    format: str
    version: int
    kind: str
    fairmend: str
    title: str
    answers: list[str]
    origin: Origin
    similar: Similar
    groups: list[GroupFeature]
    pairs: Pairs
    flips: Flips
    ranges: Ranges
    warnings: list[str] = field(default_factory=list)
    repair: Repair | None = None
    audit: Audit | None = None
