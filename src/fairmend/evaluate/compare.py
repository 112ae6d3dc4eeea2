"""Measure a network, repair it, and compare the measurements before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fairmend.auditing.disparity import ScoreDisparity, ScoreSummary
from fairmend.auditing.inputs import GivenInputs, Witnesses
from fairmend.auditing.neighbours import UnequalInputs
from fairmend.auditing.result import AuditResult
from fairmend.auditing.run import audit
from fairmend.base.metrics import changed_rate
from fairmend.base.progress import Progress
from fairmend.base.text import percent
from fairmend.evaluate.document import UtilityFigures
from fairmend.evaluate.groups import GroupMetrics
from fairmend.evaluate.labelled import labelled_figures
from fairmend.evaluate.people import number_pairs
from fairmend.evaluate.split import DataSplit, class_warnings
from fairmend.evaluate.training_rows import memory_warnings, training_warnings
from fairmend.network import Model
from fairmend.network.model import ScoredRows
from fairmend.prove.claims import Guarantee, UnequalCount
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.repairing.result import RepairResult

AUDIT_SECONDS = 30.0
"""For each audit of a repair: with large tolerances they would take longer than the repair. Then counts are at least
what was found, and `fairmend audit` decides the rest."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """One network, measured.

    Attributes
    ----------
    repair : which repair inputs are treated unequally
    data : the audit of all rows of the data
    utility : accuracy and similar figures, or the errors of a regression network, on the scored rows
    groups : differences between groups, by feature, on the scored rows; empty for a regression network
    inputs, scored : the repair inputs and the scored rows, with what the network computed for them
    repair_scores : how far the scores differ around the repair inputs; None for a claim about classes
    """

    repair: UnequalInputs
    data: AuditResult
    utility: UtilityFigures
    groups: tuple[GroupMetrics, ...]
    inputs: ScoredRows
    scored: ScoredRows
    repair_scores: ScoreSummary | None

    @property
    def disparity(self) -> ScoreDisparity:
        """How far the scores of similar people differ, for the rows of the data."""
        return self.data.disparity


def measure(
    net: Model,
    split: DataSplit,
    *,
    stage: str,
    seed: int = 0,
    progress: Progress | None = None,
    witnesses: Witnesses | None = None,
) -> Measurement:
    """Measure a network on the rows of a split; progress is reported as `stage`, and `witnesses` is that of `audit`.

    The rows of the data are audited as `fairmend.audit` does it, within a time limit, and the network runs on each of
    them once.
    """

    def report(_: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    spec, label = split.spec, split.spec.label
    rows = GivenInputs.valid(split.X, witnesses)
    data = audit(net, spec, rows, seed=seed, pairs=0, time_limit=AUDIT_SECONDS, progress=report)
    if label is not None and label.column in split.frame.columns:
        data = data.name_classes(label, split.frame[label.column].dropna().unique())
    everyone = data.scored(net, split.X)
    if split.repair is not None and data.exact:
        chosen = split.repair
        inputs, repair = everyone.take(chosen), UnequalInputs(data.unequal[chosen], exact=True)
        scores = None if data.scores is None else data.scores.take(chosen)
    else:
        alone = audit(net, spec, GivenInputs.valid(split.X_repair), seed=seed, pairs=0, time_limit=AUDIT_SECONDS)
        inputs, repair = alone.scored(net, split.X_repair), UnequalInputs(alone.unequal, alone.exact)
        scores = alone.scores
    scored = everyone.take(split.scored) if split.test is None else ScoredRows.of(net, split.test.X)
    found = labelled_figures(spec, net, scored.logits, split.y_scored, split.compared_columns())
    assert found.utility is not None
    data = number_pairs(data, split.rows, spec, net.dtype)
    return Measurement(repair, data, found.utility, found.groups, inputs, scored, scores)


@dataclass(frozen=True, eq=False)
class RepairComparison:
    """A repair, with measurements of the network before and after it.

    Attributes
    ----------
    split : the data, and which rows were used for what
    result : the repair
    before, after : measurements of the original and of the repaired network
    changed : the share of the data whose prediction changed; None for a regression network
    warnings : about the data and about the repair
    """

    split: DataSplit
    result: RepairResult
    before: Measurement
    after: Measurement
    changed: float | None
    warnings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        split: DataSplit,
        result: RepairResult,
        before: Measurement,
        after: Measurement,
        warnings: Sequence[str] = (),
    ) -> RepairComparison:
        """Return the comparison, with the share of predictions that changed."""
        changed = None
        if not split.spec.regression:
            networks = before.scored.net, after.scored.net
            changed = changed_rate(before.data.rows.decide(networks[0]), after.data.rows.decide(networks[1]))
        return cls(split, result, before, after, changed, tuple(warnings))

    def with_warning(self, warning: str) -> RepairComparison:
        """Return the comparison with a further warning; an empty one is none."""
        return replace(self, warnings=(*self.warnings, warning)) if warning else self

    @property
    def covers_inference(self) -> bool:
        """Whether the proof also covers rounding in inference, for every input that is proven."""
        proof = self.result.proof
        return bool(self.result.proven and proof.covers_inference[proof.holds].all())

    @property
    def guarantee(self) -> Guarantee:
        """What is proven, and for whom; its methods return the sentences."""
        return Guarantee.for_spec(
            self.split.spec,
            ignored=self.result.blind_features,
            proven=self.result.proven,
            inputs=self.result.regions,
            arithmetic=self.result.network.dtype.name if self.covers_inference else "real",
            by_classes=self.result.by_classes,
        )

    @property
    def claim(self) -> str:
        """What is proven, or that it is not, in one sentence or two."""
        return self.guarantee.summary(self.result.method, _count(self.after.repair))

    @property
    def beyond(self) -> str:
        """What is known about the people whom the claim does not cover; empty if it covers everyone."""
        return self.guarantee.beyond(
            UnequalCount(self.after.data.count, self.after.data.total, self.after.data.exact),
            percent(self.after.data.idi_rate),
        )

    @property
    def statement(self) -> str:
        """The claim, what it leaves open about inference, and what is known beyond it."""
        return " ".join(part for part in (self.claim, self.guarantee.real_only_note(), self.beyond) if part)


def claim_needs_range(spec: Spec, options: Mapping[str, Any]) -> bool:
    """Return whether a repair with these options claims something about ranges, and not only independence."""
    from fairmend.repairing.options import has_tolerances

    if options.get("method") == "blind":
        return has_tolerances(spec)
    return options.get("guarantee") != "everyone"


def repair_and_compare(
    net: Model,
    split: DataSplit,
    before: Measurement,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    options: Mapping[str, Any],
) -> RepairComparison:
    """Repair a network that was measured as `before`; `options` are `method` and options of `fairmend.repair`."""
    from fairmend.repairing.options import group_options, methods_with
    from fairmend.repairing.run import repair  # imports PyTorch

    X_cal, y_cal = split.X[split.calibration], split.y[split.calibration]
    if len(split.unlabelled) and options["method"] in methods_with("X_unlabelled"):
        options = {**options, "X_unlabelled": split.X[split.unlabelled]}
    grouped = group_options(options)
    result = repair(net, split.spec, split.X_repair, X_cal, y_cal, seed=seed, progress=progress, **grouped)
    after = measure(result.network, split, stage="audit repaired", seed=seed, progress=progress)
    # Enumeration is independent of the proof, so neither is trusted alone.
    contradicted = int((after.repair.rows & result.proof.covers_inference).sum())
    if contradicted:
        raise RuntimeError(f"{contradicted} repair inputs are treated unequally although the opposite was proven")
    everyone = before.data.scored(net, split.X)
    warnings = [*class_warnings(split, everyone), *split.warnings]
    warnings += training_row_warnings(split, everyone, before.scored, seed)
    return RepairComparison.of(split, result, before, after, (*warnings, *result.warnings))


def training_row_warnings(split: DataSplit, everyone: ScoredRows, scored: ScoredRows, seed: int = 0) -> list[str]:
    """Return a warning if the rows of the data seem to be rows that the network was trained on.

    `everyone` are the rows of the data, and `scored` those on which accuracy is measured.
    """
    if split.test is not None:
        return training_warnings(everyone, split.y, scored, split.test.y, regression=split.spec.regression)
    return [] if split.spec.regression else memory_warnings(everyone, split.y, seed)


def _count(unequal: UnequalInputs) -> UnequalCount:
    return UnequalCount(unequal.count, len(unequal.rows), unequal.exact)
