"""The result of a command as data: one document for each kind of result.

`--json` prints it, result.json holds it, and the terminal, the page, the model card and `fairmend report` show what it
says and nothing else. The names of the fields are the keys of the JSON (docs/reference/json.md): one word for one
figure, in the terms of the glossary. `page` is the part that only the page needs; `--json` leaves it out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fairmend._version import __version__
from fairmend.auditing.figures import AuditFigures, DisparityFigures, Pair, ScoreFigures, Unequal
from fairmend.base.text import as_text, printable
from fairmend.spec.claim import Claim
from fairmend.spec.label import About
from fairmend.spec.out_of_range import Outside

FORMAT, VERSION = "fairmend result", 2

REPAIR, AUDIT, QUANTIFY, CERTIFY, SEARCH = "repair", "audit", "quantify", "certify", "search"


# Parts of every document


@dataclass(frozen=True)
class SourceFile:
    """A file that the result is about: its role ("model", "data", "certificate", …), name and sha256.

    The sha256 is None if the result is printed only: large data is then not read once more.
    """

    role: str
    name: str
    sha256: str | None


@dataclass(frozen=True)
class Origin:
    """Where the result comes from. `created` is a UTC time; `command` and `seed` are None if they are not known.

    `versions` are those of the packages that computed it.
    """

    created: str
    command: str | None
    seed: int | None
    files: list[SourceFile]
    versions: dict[str, str]


@dataclass(frozen=True)
class Similarity:
    """Who counts as similar: people who differ in `protected` features, and in others by up to their tolerance.

    `tolerances` are in the feature's own units. `linked` names the features that change together with protected ones,
    and `links` says how, in sentences. People may have any value of the same of the `bands`, which are in words.
    """

    protected: list[str]
    tolerances: dict[str, float]
    linked: list[str]
    links: list[str]
    bands: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OutOfRangeValues:
    """What was done about values out of range: "refuse" (there were none), "clip", "skip" or "widen".

    `rows` have such a value, `features` counts them, and `ranges` has the ranges after widening. `text` says it in a
    sentence, and is empty if there was nothing to do.
    """

    policy: str
    rows: int
    features: dict[str, Outside]
    ranges: dict[str, list[float]]
    text: str


@dataclass(frozen=True)
class LeftOutFile:
    """With --keep-going, a `file` of the data that cannot be read and is left out, and the `reason`."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """What every result says.

    `title` says what was examined. `claim` is what the spec claims about similar people. `class_names` are the
    predictions. `favourable` is the one that is good for a person: None for a regression network, and for several
    classes of which none is. `value_names` is what people call the values of a feature, by feature. `threshold` is the
    probability from which a prediction is positive; `score_range` has the scores of the model that stand for the
    probabilities 0 and 1. `condition` is what must be true of the program that runs the
    model, if its file leaves that open. `doubts` are the first of the `warnings`: those that make every figure
    doubtful. `files` are those that the command wrote: the path of each, by name.
    """

    format: str = FORMAT
    version: int = VERSION
    kind: str
    fairmend: str = __version__
    title: str
    origin: Origin
    claim: Claim
    similar: Similarity
    class_names: list[str]
    favourable: str | None
    value_names: dict[str, dict[str, str]]
    threshold: float
    score_range: list[float] = field(default_factory=lambda: [0.0, 1.0])
    about: About
    condition: str
    out_of_range: OutOfRangeValues | None
    broken_files: list[LeftOutFile]
    doubts: list[str] = field(default_factory=list)
    warnings: list[str]
    files: dict[str, str]

    @property
    def in_points(self) -> bool:
        """Whether the scores of the model are not probabilities, but a range that stands for them."""
        return self.score_range != [0.0, 1.0]

    @property
    def threshold_words(self) -> str:
        """The threshold as sentences name it, in the unit of the scores."""
        if not self.in_points:
            return repr(self.threshold)
        low, high = self.score_range
        return f"{low + (high - low) * self.threshold:.9g}"

    @property
    def unit(self) -> str:
        """What the scores of the model have to do with the probabilities that a result shows; empty if they are one."""
        if not self.in_points:
            return ""
        low, high = self.score_range
        return (
            f"The model gives scores from {low:.9g} to {high:.9g}, which stand for the probabilities 0 and 1. Per "
            f"cent, points (percentage points) and other thresholds below are of this probability; the score "
            f"{self.threshold_words}, from which the prediction is positive, is the probability {self.threshold:.6g}."
        )

    def quoted_class(self, number: int) -> str:
        """Return what a class means in quotes: "yes", or not "yes"; class 2 if nothing says what it means."""
        if number >= len(self.class_names) or self.class_names[number] == f"class {number}":
            return f"class {number}"
        positive = self.class_names[-1]
        if number == 0 and self.class_names[0] == f"not {positive}":
            return printable(f'not "{positive}"')
        return printable(f'"{self.class_names[number]}"')

    def called(self, pair: Pair, name: str, value: object) -> tuple[object, str]:
        """Return what people call the value of a feature, and " (imputed)" if it replaces a missing one."""
        known = pair.imputed.get(name) if value is None else value
        return self.value_names.get(name, {}).get(as_text(known), known), " (imputed)" if value is None else ""

    def differing_values(self, pair: Pair) -> list[str]:
        """Return the values of both people where they differ: "age 18, sex f" and "age 75, sex m"."""
        both = (
            [(name, *self.called(pair, name, values[name])) for name in pair.differing]
            for values in (pair.values, pair.other_values)
        )
        return [", ".join(f"{name} {value}{imputed}" for name, value, imputed in person) for person in both]

    def as_dict(self) -> dict[str, Any]:
        """Return the document as plain data: what result.json holds."""
        return asdict(self)

    def printed(self) -> dict[str, Any]:
        """Return what `--json` prints: the document without `page`, the part that only the page needs."""
        return {name: value for name, value in self.as_dict().items() if name != "page"}


# Figures of a network


@dataclass(frozen=True)
class UtilityFigures:
    """How well a network predicts; a figure that is not defined for its kind, or for the rows, is None.

    `accuracy`, `balanced_accuracy`, `positive_rate`, `auc` and `average_precision` are those of classes, from 0 to 1;
    `r2`, `mean_absolute_error` and `root_mean_squared_error` those of a regression network.
    """

    accuracy: float | None = None
    balanced_accuracy: float | None = None
    positive_rate: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    r2: float | None = None
    mean_absolute_error: float | None = None
    root_mean_squared_error: float | None = None


UTILITY_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "positive_rate": "Positive rate",
    "auc": "AUC",
    "r2": "R²",
    "mean_absolute_error": "Mean absolute error",
    "root_mean_squared_error": "Root mean squared error",
}
"""What each figure is called wherever it is shown; average precision is shown beside the AUC."""

REGRESSION_ERRORS = [(UTILITY_NAMES[key], key) for key in ("r2", "mean_absolute_error", "root_mean_squared_error")]
"""The figures of a regression network, with their names."""


@dataclass(frozen=True)
class GroupRates:
    """One group: its size, its selection rate, and the share of it that is treated unequally, in an audit.

    With more than two classes, `class_rates` are the shares that get each class instead of the selection rate.
    """

    name: str
    rows: int
    selection_rate: float | None
    unfair_rate: float | None
    class_rates: list[float]


@dataclass(frozen=True)
class FeatureGroups:
    """The groups of one protected feature, or column of --group: the largest ones, and the gaps between them.

    `binned` says whether the groups are ranges of values. The demographic parity difference is the largest difference
    of selection rates, the equalized odds difference that of true or false positive rates; `reason` says why one is
    None. With more than two classes, `widest_class` is the one whose shares differ most between groups, by
    `widest_difference`. `small_groups` is the number of groups that the gaps leave out, as the impact ratios do.
    """

    feature: str
    binned: bool
    groups: list[GroupRates]
    groups_left_out: int
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    reason: str | None
    widest_class: str | None = None
    widest_difference: float | None = None
    small_groups: int = 0


@dataclass(frozen=True)
class ProxyFeature:
    """A feature that helps to predict a column; the AUC falls by `drop` if its values are shuffled among people."""

    feature: str
    drop: float


@dataclass(frozen=True)
class ProxyTable:
    """How well the features of the model predict the groups of a `column` that it does not read, among `rows` people.

    `auc` is that of a classifier on people that it did not see, 0.5 by chance; of more than two `groups`, the mean over
    groups of telling one from all others. It is None for the `reason` that is then given. `features` are those that add
    most, at most ten.
    """

    column: str
    rows: int
    groups: int
    auc: float | None
    features: list[ProxyFeature]
    features_left_out: int
    reason: str | None


@dataclass(frozen=True)
class MeanEffect:
    """What a value adds to a score or a share on average over people; `low` to `high` is its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ValueEffect:
    """The mean effect of one `value` of a protected feature; `rows` of the people have it.

    `score` is its effect on the probability of the favourable class, or on the output of a regression network, and
    `decision` that on the share who get this class, None for a regression network. `direction` says who "gains",
    "loses" or "neither", by the interval of the decision, or if it contains 0, by that of the score. It is "higher" or
    "lower" where nothing says which is good for a person: for a regression network, and for classes of which none is
    favourable.
    """

    value: str
    rows: int
    score: MeanEffect
    decision: MeanEffect | None
    direction: str


@dataclass(frozen=True)
class FeatureEffects:
    """The mean effects of the values of one protected feature, over so many people (`rows`).

    `linked` features change along with it. `answer` is the class that the effects are about: the favourable one, of
    several classes without one that with the widest effect; None for a regression network. Of many categories, the
    rarest are left out.
    """

    feature: str
    linked: list[str]
    answer: str | None
    rows: int
    values: list[ValueEffect]
    values_left_out: int


@dataclass(frozen=True)
class GroupMean:
    """The mean output of a regression network for one group of so many `rows`.

    `low` to `high` is its 95 % interval, None for one person. A `small` group is in no difference.
    """

    name: str
    rows: int
    small: bool
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FeatureMeans:
    """The mean outputs of the groups of one protected feature, or column of --group: the largest groups.

    `binned` says whether the groups are ranges of values, and `output` is the number of the output, None if there is
    one. `difference` is the mean of the group with the `highest` one minus that of the `lowest`, with its 95 %
    interval; the three are None with fewer than two groups that are not small.
    """

    feature: str
    binned: bool
    output: int | None
    groups: list[GroupMean]
    groups_left_out: int
    small_groups: int
    difference: MeanEffect | None
    lowest: str | None
    highest: str | None


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


# What only the page needs


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
class NearestPair:
    """A person and a counterfactual with another prediction that differs in as few features as possible.

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
    is one. `first_row` is the number of the data's first row: 2 for a file, which counts as a spreadsheet does, 1 for
    samples, 0 in Python.
    """

    total: int
    exact: bool
    columns: list[str]
    varying: int
    columns_left_out: int
    rows: list[NearestPair]
    id_column: str | None
    first_row: int


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
class CarriedTensor:
    """A tensor of a network: its `values` are base64 of little-endian numbers."""

    dtype: str
    shape: list[int]
    values: str


@dataclass(frozen=True)
class CarriedNetwork:
    """A network in the report: its steps and tensors, as a certificate has them, with norms folded into the layers.

    `precision` is "float32" or "float64". `margin_error` bounds how far margins that the page computes and those of any
    program that runs the network, lie apart for all values in the spec's ranges; None for a regression network, and
    where no bound is small enough to be of use.
    """

    precision: str
    steps: list[dict[str, Any]]
    tensors: dict[str, CarriedTensor]
    margin_error: float | None = None


@dataclass(frozen=True)
class WhatIfFeature:
    """A feature as the spec describes it; a categorical one has codes from 0 for its `categories`.

    The network reads (value - `offset`) / `factor`, or one column for each category except `dropped`. Similar people
    have any value if `protected`, or of the same of the `bands`, else one up to `reach` away. A band has runs from a
    lowest to a highest value; a continuous one ends below the next. `missing` is what replaces a missing value.
    `marks` is the number of the feature whose missing values this one marks by 1. `names` are those of whole numbers.
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
    bands: list[list[list[float]]] = field(default_factory=list)


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
class Page:
    """What only the page needs: some people in detail, and the networks with which it computes the scores of anyone.

    `looked_at` is the size of the random sample that `ranges`, `flips` and `pairs` are about; these are None for a
    claim about scores. `what_if_left_out` says why `what_if` is None, if the reason is the network or the spec.
    """

    looked_at: int
    ranges: ScoreRanges | None = None
    flips: DecisiveFeatures | None = None
    pairs: PairTable | None = None
    what_if: WhatIf | None = None
    what_if_left_out: str = ""


# Audit


@dataclass(frozen=True, kw_only=True)
class AuditDocument(AuditFigures, Document):
    """What an audit found among people of a file, or among random samples (`sampled`); see `AuditFigures`.

    `scores` is given for a claim about scores. `utility` is measured
    on `labelled_rows`, and `groups` on all people, or for a regression network `mean_outputs`. `effects` are the mean
    effects of the values of each protected feature, and `proxies` say how well features predict the columns of --group.
    `pairs` are the worst ones. `outcomes` is None for a regression network and for samples, and `page` without a
    report.
    """

    kind: str = AUDIT
    scores: ScoreFigures | None
    disparity: DisparityFigures
    labelled_rows: int
    utility: UtilityFigures | None
    effects: list[FeatureEffects]
    proxies: list[ProxyTable]
    groups: list[FeatureGroups]
    outcomes: Outcomes | None
    pairs: list[Pair]
    mean_outputs: list[FeatureMeans] = field(default_factory=list)
    page: Page | None = None


# Repair


@dataclass(frozen=True)
class NetworkFigures:
    """One network, before or after the repair: who is treated unequally, and how well it predicts.

    `repair_inputs` and `data` count the repair inputs, and the rows of the data, that are treated unequally. For a
    claim about scores, `scores` is about the repair inputs, and `largest_difference` is the largest one in the rows of
    the data. `utility`, `groups` (of a regression network `mean_outputs`) and `effects` are measured on the scored
    rows, `disparity` on the rows of the data.
    """

    repair_inputs: Unequal
    data: Unequal
    scores: ScoreFigures | None
    largest_difference: float | None
    disparity: DisparityFigures
    utility: UtilityFigures
    effects: list[FeatureEffects]
    groups: list[FeatureGroups]
    mean_outputs: list[FeatureMeans] = field(default_factory=list)


@dataclass(frozen=True)
class LayerChange:
    """The change of one affine layer: how many weights and biases differ, their l1 distance, the largest change.

    `table`: it is a table that the network looks up, of `inputs` rows with `outputs` numbers each.
    """

    name: str
    inputs: int
    outputs: int
    changed: int
    total: int
    l1: float
    largest: float
    table: bool = False


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
    """How the method auto selects a candidate; see `fairmend.repairing.options.Policy`. `text` says it in sentences.

    `original_accuracy` and `original_balanced_accuracy` are those of the original network on the rows on which the
    candidates are measured; None if they are not known. `measure` is what `balanced_accuracy` is: R² for a regression
    network, which has no accuracy.
    """

    keep: float
    guarantee: str
    prefer: str
    keep_required: bool
    original_accuracy: float | None
    original_balanced_accuracy: float | None
    measure: str
    text: str

    @property
    def original(self) -> float | None:
        """What the candidates are compared with: the original network's figure, or its agreement with itself."""
        return self.original_balanced_accuracy if self.prefer == "accuracy" else 1.0


@dataclass(frozen=True)
class RecipeSummary:
    """One candidate of the method auto: a recipe and its figures; `reason` says why it was selected or not.

    A candidate that is not `proven` has a `problem`, and one that was not run (`ran`) has no figures. `on_frontier` is
    true if no other candidate is at least as good in guarantee, unfairness left and what is kept, and better in one.
    `recipe` has the settings of the recipe by name. `fall` is how much less than the original it keeps, as the
    selection estimates it: the largest fall of `fall_of`, such as "balanced accuracy"; None without figures.
    `more_unequal` is true if more calibration rows are treated unequally than before.
    """

    name: str
    recipe: dict[str, Any]
    guarantee: str
    accuracy: float
    balanced_accuracy: float
    changed: float
    agreement: float
    unfair_rate: float
    chosen: bool
    proven: bool
    ran: bool
    problem: str
    reason: str
    blind_features: list[str]
    collapsed: bool
    on_frontier: bool
    fall: float | None
    fall_of: str
    more_unequal: bool

    @property
    def why(self) -> str:
        """Why it was selected or not, or why there is no network."""
        return (self.reason or self.problem).removeprefix("not run: ")


@dataclass(frozen=True)
class Losses:
    """The losses of step 1 after each step: of fairness, and of the task; None if one is not finite."""

    fair: list[float | None]
    task: list[float | None]


@dataclass(frozen=True)
class Run:
    """A `program` in which the checker ran the model, and the number of `people` on whom."""

    program: str
    people: int


@dataclass(frozen=True)
class CheckDocument:
    """What `fairmend check` says; see `fairmend.CheckResult`. `certificate` and `model` are the files, if printed."""

    verdict: str
    valid: bool
    reasons: list[str]
    claim: str
    condition: str
    regions: int
    covers_inference: bool | None
    least_margin: float | None
    largest_difference: float | None
    fair: float | None
    unfair: float | None
    boxes: int
    runs: list[Run]
    not_run: str
    model_read: bool
    seconds: float
    certificate: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class CertificateSummary:
    """The certificate that was written: its `claim`, and the `arithmetic` that it is about ("real": exact only).

    It covers so many `inputs`, or claims the shares `fair` and `unfair` of all people. `command` checks it, and `check`
    is the result of the check before it was written.
    """

    claim: str
    arithmetic: str
    inputs: int | None = None
    fair: float | None = None
    unfair: float | None = None
    command: str | None = None
    check: CheckDocument | None = None


@dataclass(frozen=True)
class DemoExample:
    """In the demo: an `applicant` whom the original network treats unequally, and how the counterfactual differs.

    `before` and `after` are the decisions of both networks for both people; `proven` says that the proof covers them.
    """

    applicant: int
    difference: str
    before: list[str]
    after: list[str]
    proven: bool


@dataclass(frozen=True, kw_only=True)
class RepairDocument(Document):
    """What a repair did and what is proven about it; see `fairmend.RepairResult`.

    `guarantee` says what is proven and for whom. `proven_repair_inputs` of `repair_inputs` are proven, all of them if
    `proven`; `proof_covers_inference` says whether the proof covers the rounding errors of inference in the
    `precision` of the network. `blind` networks provably ignore the protected features; for `everyone`, the
    `blind_features` are all in which similar people may differ, or the output depends on a person only through their
    class of similar people: then `by_classes` says what else makes up a class. `collapsed` networks lost a class, or
    agree with the original hardly more than chance would. Accuracy is measured on `scored_rows`, which are described by
    `scored_on`. `proxies` say how well their features predict the columns of --group.
    `margin` was required of every repair input, and `classes` are the predictions for their neighbourhoods.
    `head_change` is the l1 norm of the change in step 2, with the relative `gap` to the least possible one. `seconds`
    has the duration of each stage, and `examples` are those of the demo.
    """

    kind: str = REPAIR
    method: str
    guarantee: str
    proven: bool
    proven_repair_inputs: int
    repair_inputs: int
    proof_covers_inference: bool
    precision: str
    blind: bool
    everyone: bool
    blind_features: list[str]
    by_classes: list[str] | None
    collapsed: bool
    certificate: CertificateSummary | None
    repair_rows: list[int] | None
    calibration_rows: list[int]
    unlabelled_rows: int
    data_rows: int
    scored_rows: int
    scored_rows_are_held_out: bool
    scored_rows_are_test_data: bool
    scored_on: str
    before: NetworkFigures
    after: NetworkFigures
    proxies: list[ProxyTable]
    outcomes: Outcomes | None
    changed_predictions: float | None
    changed_weights: int
    total_weights: int
    head_change: float
    gap: float
    margin: float
    classes: list[int | None] | None
    weights: WeightChanges
    policy: PolicySummary | None
    candidates: list[RecipeSummary]
    history: Losses
    seconds: dict[str, float]
    examples: list[DemoExample] = field(default_factory=list)
    page: Page | None = None


# Quantify


@dataclass(frozen=True)
class UnequalBox:
    """A box of people of whom some are proven to be treated unequally; `text` says who, and what decides.

    `features` has the values of each feature that does not have its whole range: the lowest and highest, or the
    categories. `share` is that of all people, `of_box` that of the box, and `rows` how many rows of the data are in it.
    `decides` names the protected features that change the class (or the score by more than delta); it is empty if a
    tolerance or a link changes it. `classes` are the two classes that most of these people get, None for score claims
    and if no protected feature decides. `positive` and `negative` are protected values with the first and with the
    second of them, or with a higher and a lower score.
    """

    features: dict[str, list[Any]]
    share: float
    of_box: float
    decides: list[str]
    classes: list[int] | None
    positive: dict[str, Any]
    negative: dict[str, Any]
    rows: int | None
    text: str


@dataclass(frozen=True)
class RowShares:
    """How many rows of the data are proven to be treated equally and unequally, and how many are undecided."""

    fair: int
    unfair: int
    undecided: int
    total: int


@dataclass(frozen=True, kw_only=True)
class QuantifyDocument(Document):
    """Shares of all people that the spec allows; see `fairmend.QuantifyResult`.

    `boxes` is the map, the largest shares first; `boxes_left_out` more were found. All people were divided into
    `leaves` boxes. Of `samples` random people, the share `sampled` was found to be treated unequally. `own` are the
    protected features of which own values count, because links depend on them.
    """

    kind: str = QUANTIFY
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
    rows: RowShares | None
    own: list[str]
    certificate: CertificateSummary | None


# Certify and search


@dataclass(frozen=True)
class VerdictCounts:
    """How many inputs are `fair` (proven), `unfair` (with a witness) and `unknown` (neither)."""

    fair: int
    unfair: int
    unknown: int


@dataclass(frozen=True, kw_only=True)
class CertifyDocument(Document):
    """The verdict on each of `inputs` people, in order; see `fairmend.CertifyResult`.

    `rows` and `ids` are theirs. `verdicts` are "fair", "unfair" or "unknown"; `reasons` say why a verdict is unknown,
    and `witnesses` are the pairs that show unequal treatment. `unfair_rate` is the share of unfair inputs. `runtime`
    is what ran a model that is only run, on every counterfactual; it is empty if "fair" is proven.
    """

    kind: str = CERTIFY
    engine: str
    runtime: str
    seconds: float
    inputs: int
    counts: VerdictCounts
    unfair_rate: float
    rows: list[int]
    ids: list[str | None]
    verdicts: list[str]
    reasons: list[str]
    witnesses: list[Pair | None]
    certificate: CertificateSummary | None


@dataclass(frozen=True, kw_only=True)
class SearchDocument(Document):
    """What a fairness tester (`method`) found; see `fairmend.SearchResult`.

    It found `count` people who are treated unequally, from `starts` of its `seeds`, with so many `local_steps` and
    `calls` of the network. `exact` says whether every counterfactual of an input was tried. `pairs` are some of the
    results, numbered from 1.
    """

    kind: str = SEARCH
    method: str
    count: int
    seeds: int
    starts: int
    local_steps: int
    calls: int
    exact: bool
    seconds: float
    pairs: list[Pair]


DOCUMENTS: dict[str, type[Document]] = {
    AUDIT: AuditDocument,
    REPAIR: RepairDocument,
    QUANTIFY: QuantifyDocument,
    CERTIFY: CertifyDocument,
    SEARCH: SearchDocument,
}
"""The documents by kind."""
