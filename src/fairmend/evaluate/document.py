"""What a report says, as data. report.json holds exactly these fields, and the page is drawn from nothing else.

The names of the fields are the keys of report.json (docs/report-format.md): do not rename them within a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairmend.spec.claim import About

FORMAT = "fairmend report"
VERSION = 2

REPAIR, AUDIT, QUANTIFY = "repair", "audit", "quantify"


@dataclass(frozen=True)
class SourceFile:
    """A file that the report is about: its role ("model", "data", "certificate", …), name and sha256."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Origin:
    """Where the report comes from. `created` is a UTC time; `command` and `seed` are None if they are not known."""

    created: str
    command: str | None
    seed: int | None
    files: list[SourceFile]
    versions: dict[str, str]


@dataclass(frozen=True)
class Similarity:
    """Who counts as similar: people who differ in protected features, and in others by up to their tolerance.

    Tolerances are in the feature's own units. `everything_looked_at` says whether every counterfactual was examined.
    `linked` names the features that change together with protected ones, and `links` says how, in sentences.
    """

    protected: list[str]
    tolerances: dict[str, float]
    everything_looked_at: bool
    linked: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NetworkFigures:
    """One network on the data. Rates are from 0 to 1, and None if they are not defined.

    `errors` has the figures of a regression network by name, and `disparity` says how far the scores of similar people
    differ.
    """

    unfair_inputs: int
    unfair_inputs_exact: bool
    unfair_rows: int
    unfair_rate: float
    unfair_rate_exact: bool
    accuracy: float | None
    balanced_accuracy: float | None
    positive_rate: float | None
    auc: float | None
    errors: dict[str, float] = field(default_factory=dict)
    disparity: DisparityFigures | None = None


@dataclass(frozen=True)
class GroupRates:
    """One group: its size and its selection rate before (in an audit: now) and after the repair.

    With more than two classes, `classes_before` and `classes_after` are the shares that get each class.
    """

    name: str
    rows: int
    positive_before: float | None
    positive_after: float | None = None
    unfair_rate: float | None = None
    classes_before: list[float] = field(default_factory=list)
    classes_after: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class FeatureGroups:
    """The groups of one protected feature and the gaps between them; `reason` says why a gap is None."""

    feature: str
    binned: bool
    groups: list[GroupRates]
    groups_left_out: int
    parity_before: float | None
    odds_before: float | None
    parity_after: float | None = None
    odds_after: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Selection:
    """How many people of a group one network selects.

    `low` to `high` is the 95 % Wilson interval of the `rate`. `ratio` is the impact ratio: the rate divided by the
    highest rate of a group in the table; None for a small group, or if no one is selected. `flagged` says that it is
    below four fifths.
    """

    count: int
    rate: float
    low: float
    high: float
    ratio: float | None
    flagged: bool


@dataclass(frozen=True)
class SelectionRates:
    """One group: its value of each feature, its size, and whom each network selects; `after` is None in an audit.

    A `small` group has too small a share of the rows for an impact ratio.
    """

    values: list[str]
    rows: int
    small: bool
    before: Selection
    after: Selection | None = None


@dataclass(frozen=True)
class OutcomeTable:
    """The groups of one protected feature, or of an intersection of several, and who gets the `answer`.

    `flagged_before` and `flagged_after` count the groups below four fifths, including those left out here.
    """

    features: list[str]
    answer: str
    groups: list[SelectionRates]
    groups_left_out: int
    flagged_before: int
    flagged_after: int | None = None


@dataclass(frozen=True)
class Outcomes:
    """Selection rates and impact ratios on so many `rows`.

    Impact ratios below `limit` are flagged; groups with less than the share `small` of the rows have none.
    """

    rows: int
    limit: float
    small: float
    tables: list[OutcomeTable]
    tables_left_out: int = 0


@dataclass(frozen=True)
class ScoreRange:
    """The score of one input (`own`), and the range of the score over its neighbourhood.

    seen_low to seen_high are computed scores; low to high is a sound bound, None where there is none. The two agree
    if every neighbour was computed. `state` is "one" (one prediction, for certain), "two" (two predictions were
    found) or "open".
    """

    own: float
    seen_low: float
    seen_high: float
    low: float | None
    high: float | None
    state: str


@dataclass(frozen=True)
class ScoreRanges:
    """The score ranges of some of `total` inputs, sorted by score before the repair; `after` is empty in an audit.

    Scores are probabilities. `score` says of which class: "positive" (class 1 of two, which is the prediction from the
    threshold on) or "own" (with more classes, the one predicted for the input).
    """

    score: str
    total: int
    exact: bool
    before: list[ScoreRange]
    after: list[ScoreRange]


@dataclass(frozen=True)
class LayerChange:
    """The change of one affine layer: how many weights and biases differ, their l1 distance, the largest change."""

    name: str
    inputs: int
    outputs: int
    changed: int
    total: int
    l1: float
    largest: float


@dataclass(frozen=True)
class WeightChange:
    """One weight, or the norm of several, before and after; `marked` for a protected input."""

    name: str
    before: float
    after: float
    marked: bool = False


@dataclass(frozen=True)
class WeightChanges:
    """Which weights changed: by layer, by input column (l1 norm in the first layer), and one by one in the head."""

    layers: list[LayerChange]
    columns: list[WeightChange]
    columns_left_out: int
    head: list[WeightChange]
    head_left_out: int


@dataclass(frozen=True)
class PolicySummary:
    """How the method auto selects a candidate; see `fairmend.repairing.options.Policy`. `words` says it in sentences.

    `original` is what the candidates are compared with: the balanced accuracy of the original network on the same rows,
    or 1 if `prefer` is "decisions"; None if it is not known. `measure` is what the candidates' `balanced_accuracy` is:
    R² for a regression network.
    """

    keep: float = 0.0
    guarantee: str = "any"
    prefer: str = "accuracy"
    original: float | None = None
    words: str = ""
    measure: str = "balanced accuracy"


@dataclass(frozen=True)
class RecipeSummary:
    """One candidate of the method auto: a recipe and its figures; `why` says why it was selected or not.

    The candidates that were not run (`ran`) have no figures. `on_frontier` is true if no other candidate is at least as
    good in guarantee, unfairness left and what is kept, and better in one.
    """

    name: str
    guarantee: str
    balanced_accuracy: float
    changed: float
    agreement: float
    unfair_rate: float
    chosen: bool
    proven: bool
    why: str
    accuracy: float | None = None
    blind_features: list[str] = field(default_factory=list)
    collapsed: bool = False
    on_frontier: bool = False
    ran: bool = True


@dataclass(frozen=True)
class Pair:
    """A person and a counterfactual with another prediction; `id` names the person, if the data has ids.

    `values` are the person's, by column; `others` are the counterfactual's where it differs, otherwise None. Answers
    (predictions) and scores are those of the two; the ones after the repair are None in an audit. Scores are
    probabilities: of class 1 of two, or with more classes of the one that is predicted for the first person.
    """

    row: int
    values: list[str]
    others: list[str | None]
    differs: list[str]
    answers: list[int]
    scores: list[float]
    answers_after: list[int] | None = None
    scores_after: list[float] | None = None
    id: str | None = None


@dataclass(frozen=True)
class PairTable:
    """Pairs, the largest difference in score first. `total` people are treated unequally, or more if not `exact`.

    The first `varying` columns are those in which similar people may differ. `id_column` is the column of ids, if there
    is one.
    """

    total: int
    exact: bool
    columns: list[str]
    varying: int
    columns_left_out: int
    rows: list[Pair]
    id_column: str | None = None


@dataclass(frozen=True)
class DecisiveFeatures:
    """Which features change the prediction.

    Of `looked_at` people treated unequally, `alone` counts by feature how many get another prediction when only this
    feature changes, and `together` how many need a change of several.
    """

    looked_at: int
    exact: bool
    alone: dict[str, int]
    together: int


@dataclass(frozen=True)
class Repair:
    """What a repair did and what is proven about it; see `fairmend.RepairResult`.

    If the spec claims scores, `scores_before` and `scores_after` are those of the repair inputs. `test_data` says
    whether the scored rows are test data; other rows may have been used for training the network.
    """

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
    before: NetworkFigures
    after: NetworkFigures
    changed_predictions: float | None
    changed_weights: int
    total_weights: int
    head_change: float
    margin: float
    gap: float
    seconds: dict[str, float]
    fair_loss: list[float]
    task_loss: list[float]
    weights: WeightChanges
    candidates: list[RecipeSummary]
    check: str | None
    blind_features: list[str] = field(default_factory=list)
    collapsed: bool = False
    unlabelled_rows: int = 0
    policy: PolicySummary | None = None
    scores_before: ScoreFigures | None = None
    scores_after: ScoreFigures | None = None
    test_data: bool = False


@dataclass(frozen=True)
class ScoreFigures:
    """How far the scores of similar people differ, if the spec claims scores; see `fairmend.AuditResult`.

    `counts` says how many inputs have a difference from one of the `edges` to the next, and `errors` has
    the figures of a regression network by name.
    """

    on: str
    delta: float
    largest: float
    median: float
    p90: float
    edges: list[float]
    counts: list[int]
    errors: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ScorePair:
    """The two similar people whose scores differ most, the lower score first.

    `values` and `others` are theirs, by column; `answer` names the class whose probability it is, None for a regression
    network. Both are similar to the person in row `row`, with the id `id` if the data has ids.
    """

    row: int
    columns: list[str]
    columns_left_out: int
    values: list[str]
    others: list[str]
    scores: list[float]
    answer: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class DisparityFigures:
    """How far the scores of similar people differ, whatever the claim is about; see `fairmend.AuditResult`.

    The people are those audited, or the rows of a repair's data. `above` is the share of people with a larger
    difference than so many percentage points, and `counts` says how many have a difference from one of the `edges` to
    the next. `unequal` is the share treated unequally at each of the `thresholds`, and `threshold` the one that
    decides; empty and None for a regression network or more than two classes.
    """

    on: str
    exact: bool
    median: float
    p90: float
    p95: float
    p99: float
    largest: float
    above: dict[str, float]
    edges: list[float]
    counts: list[int]
    worst: ScorePair | None = None
    threshold: float | None = None
    thresholds: list[float] = field(default_factory=list)
    unequal: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Audit:
    """What an audit found; see `fairmend.AuditResult`. The figures of utility are None without labels."""

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
    scores: ScoreFigures | None = None
    method: str = "enumerate"
    unknown: int = 0
    disparity: DisparityFigures | None = None


@dataclass(frozen=True)
class UnequalBox:
    """A box of people of whom some are proven to be treated unequally; `text` says who, and what decides.

    `share` is that of all people, `of_box` that of the box, and `rows` how many rows of the data are in it. `changes`
    says which protected values give which prediction.
    """

    text: str
    share: float
    of_box: float
    rows: int | None
    changes: str


@dataclass(frozen=True)
class RowShares:
    """How many rows of the data are proven to be treated equally and unequally, and how many are undecided."""

    fair: int
    unfair: int
    undecided: int


@dataclass(frozen=True)
class Quantification:
    """Shares of all people that the spec allows; see `fairmend.QuantifyResult`.

    `own` are the protected features of which own values count, because links depend on them. `delta` is that of a claim
    about scores.
    """

    fair: float
    unfair: float
    undecided: float
    precision: str
    boxes: list[UnequalBox]
    boxes_left_out: int
    leaves: int
    seconds: float
    sampled: float | None
    samples: int
    rows: RowShares | None = None
    own: list[str] = field(default_factory=list)
    delta: float | None = None


@dataclass(frozen=True)
class StepRounding:
    """What several steps that are computed as one can be off by, in a folded layer or in norms.

    That is `roundings` units of the sizes of all terms; `constants` is base64 of float64 numbers, for each number of
    the result the size of the terms that no input is part of. `reach` bounds how large a number becomes on the way, and
    what a number too small to be normal, taken as 0, is multiplied by: for inputs whose sizes add up to 1.
    """

    roundings: int
    constants: str
    reach: float


@dataclass(frozen=True)
class CarriedNode:
    """A node of a network's graph: an operation on the results of earlier nodes, the `sources`, with `width` numbers.

    `operation` is "input", "affine", "scale", "sum", "concatenate", "columns", "lookup", or a function with its
    `parameters`, those of each unit for "prelu". `weight` and `bias` are base64 of little-endian numbers in the
    network's precision: of an affine layer, `weight` row by row, one row for each number of the result; of a scale, the
    factors and what is added; of a look-up, `weight` is the table. `columns` are those that are chosen. `rounding` is
    that of a scale, and of an affine layer with norms folded into it.
    """

    operation: str
    sources: list[int]
    width: int
    weight: str = ""
    bias: str = ""
    parameters: list[float] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    rounding: StepRounding | None = None


@dataclass(frozen=True)
class CarriedNetwork:
    """A network in the report: its nodes, the input first and the last layer last.

    `precision` is "float32" or "float64".
    """

    precision: str
    nodes: list[CarriedNode]


@dataclass(frozen=True)
class WhatIfFeature:
    """A feature as the spec describes it; a categorical one has codes from 0 for its `categories`.

    The network reads (value - `offset`) / `factor`, or one column for each category except `dropped`. Similar people
    have any value if `protected`, else one up to `reach` away. `missing` is what replaces a missing value. `marks` is
    the number of the feature whose missing values this one marks by 1. `names` are those of whole numbers.
    """

    name: str
    kind: str
    low: float
    high: float
    categories: list[str]
    one_hot: bool
    dropped: int | None
    offset: float
    factor: float
    protected: bool
    reach: float
    missing: float | None
    marks: int | None = None
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkCondition:
    """The values of a feature, given by its number, to which a link applies: all from a lowest to a highest one."""

    feature: int
    runs: list[list[float]]


@dataclass(frozen=True)
class LinkChange:
    """What a link does to a feature: `how` is "categories", "range" or "offset".

    `replaces` has the codes that replace an own code; `ends` are the ends of the range, or what is added at least and
    at most.
    """

    feature: int
    how: str
    ends: list[float]
    replaces: dict[str, list[int]]


@dataclass(frozen=True)
class WhatIfLink:
    """Features that change together with protected ones; see `fairmend.Link`."""

    when: list[LinkCondition]
    then: list[LinkChange]


@dataclass(frozen=True)
class WhatIfPerson:
    """A person to start from: the values, or codes of categories, by feature; `unequal` if from the table of pairs."""

    name: str
    values: list[float]
    unequal: bool


@dataclass(frozen=True)
class WhatIf:
    """All that the page needs to compute scores by itself; `after` is None in an audit.

    `scores` names them: one probability with one or two outputs, one for each class with more, or the outputs of a
    regression network. `threshold` is the probability from which the prediction is positive; None with several scores.
    """

    features: list[WhatIfFeature]
    links: list[WhatIfLink]
    before: CarriedNetwork
    after: CarriedNetwork | None
    scores: list[str]
    regression: bool
    threshold: float | None
    people: list[WhatIfPerson]


@dataclass(frozen=True)
class Document:
    """The whole report. Exactly one of `repair`, `audit` and `quantify` is given, as `kind` says.

    `first_row` is the number of the data's first row: 2 for a file, which counts as a spreadsheet does, 1 for samples,
    0 in Python. `notes` say what was done to the data.
    `threshold` is the probability from which a prediction is positive.
    `about` says which model it is. `outcomes` is None for a regression network.
    `what_if_left_out` says why `what_if` is None, if the reason is the network or the spec.
    `condition` is what must be true of the program that runs the model, if its file leaves that open.
    """

    format: str
    version: int
    kind: str
    fairmend: str
    title: str
    answers: list[str]
    origin: Origin
    similar: Similarity
    groups: list[FeatureGroups]
    pairs: PairTable
    flips: DecisiveFeatures
    ranges: ScoreRanges
    warnings: list[str] = field(default_factory=list)
    repair: Repair | None = None
    audit: Audit | None = None
    first_row: int = 0
    notes: list[str] = field(default_factory=list)
    threshold: float = 0.5
    what_if: WhatIf | None = None
    what_if_left_out: str = ""
    about: About = field(default_factory=About)
    outcomes: Outcomes | None = None
    quantify: Quantification | None = None
    condition: str = ""
