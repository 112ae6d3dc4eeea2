"""Measure a network, repair it, and compare the measurements before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fairmend._version import __version__
from fairmend.auditing.disparity import ScoreDisparity
from fairmend.auditing.neighbours import UnequalInputs, find_unequal, sample_unequal
from fairmend.base.metrics import changed_rate
from fairmend.base.progress import Progress
from fairmend.base.text import percent
from fairmend.evaluate.data_disparity import data_disparity
from fairmend.evaluate.groups import GroupMetrics, group_metrics
from fairmend.evaluate.split import DataSplit
from fairmend.evaluate.training_rows import memory_warnings, training_warnings
from fairmend.evaluate.utility import RegressionUtility, Utility, regression_utility, utility
from fairmend.network import Network
from fairmend.prove.claims import Guarantee, UnequalCount
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.repairing.result import RepairResult


# About a minute of work; larger data is sampled.
_MOST_POINTS = 100_000_000


@dataclass(frozen=True)
class Measurement:
    """One network, measured.

    Attributes
    ----------
    repair, data : which repair inputs, and which rows of the data, are treated unequally
    disparity : how far the scores of similar people differ, for the rows of the data
    utility : accuracy and similar figures, on the scored rows; None for a regression network
    groups : differences between groups, by protected feature, on the scored rows; empty for a regression network
    regression : the errors of a regression network, on the scored rows; None for a classifier
    """

    repair: UnequalInputs
    data: UnequalInputs
    utility: Utility | None
    groups: tuple[GroupMetrics, ...]
    disparity: ScoreDisparity
    regression: RegressionUtility | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the measurement as plain data; rates are from 0 to 1."""
        return {
            "unfair_repair_inputs": self.repair.count,
            "unfair_data_rows": self.data.count,
            "unfair_data_rate": self.data.rate,
            "largest_difference": self.data.largest,
            **{name: value for name, value in _plain(self.utility).items() if name != "changed"},
            **_plain(self.regression),
            "disparity": self.disparity.as_dict(),
            "groups": [asdict(group) for group in self.groups],
        }


def measure(
    net: Network, split: DataSplit, *, stage: str, seed: int = 0, progress: Progress | None = None
) -> Measurement:
    """Measure a network on the rows of a split; progress is reported as `stage`."""

    def report(_: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    X, y = split.X_scored, split.y_scored
    repair = _unequal_inputs(net, split.spec, split.X_repair, seed, None)
    data = _unequal_inputs(net, split.spec, split.X, seed, report)
    disparity = data_disparity(net, split, data, seed)
    if split.spec.regression:
        return Measurement(repair, data, None, (), disparity, regression_utility(net, X, y))
    return Measurement(repair, data, utility(net, X, y), group_metrics(net, split.spec, X, y), disparity)


def _unequal_inputs(net: Network, spec: Spec, X: npt.ArrayLike, seed: int, progress: Progress | None) -> UnequalInputs:
    """Return the unequal inputs: exactly if there are not too many neighbours, otherwise by sampling."""
    if spec.finite and sum(spec.neighbourhood_sizes(X).tolist()) <= _MOST_POINTS:
        return find_unequal(net, spec, X, progress=progress)
    return sample_unequal(net, spec, X, seed=seed, progress=progress)


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
        )

    @property
    def claim(self) -> str:
        """What is proven, or that it is not, in one sentence or two."""
        return self.guarantee.summary(self.result.method, _count(self.after.repair))

    @property
    def beyond(self) -> str:
        """What is known about the people whom the claim does not cover; empty if it covers everyone."""
        return self.guarantee.beyond(_count(self.after.data), percent(self.after.data.rate))

    @property
    def statement(self) -> str:
        """The claim, what it leaves open about inference, and what is known beyond it."""
        return " ".join(part for part in (self.claim, self.guarantee.real_only_note(), self.beyond) if part)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, for result.json and --json."""
        result, split = self.result, self.split
        return {
            "fairmend": __version__,
            "method": result.method,
            "proven": result.proven == result.regions,
            "proven_repair_inputs": result.proven,
            "proof_covers_inference": self.covers_inference,
            "guarantee": self.statement,
            "certificate": None if result.certificate is None else result.certificate.claim,
            "blind": result.blind,
            "everyone": result.everyone,
            "blind_features": result.blind_features,
            "collapsed": result.collapsed,
            "protected": [f.name for f in split.spec.protected],
            "repair_inputs": result.regions,
            "repair_rows": None if split.repair is None else split.rows.numbers(split.repair),
            "calibration_rows": split.rows.numbers(split.calibration),
            "unlabelled_rows": len(split.unlabelled),
            "data_rows": len(split.X),
            "unfair_data_is_exact": self.before.data.exact and self.after.data.exact,
            "scored_rows": len(split.X_scored),
            "scored_rows_are_held_out": split.held_out or split.test is not None,
            "scored_rows_are_test_data": split.test is not None,
            "scored_on": split.describe_scored(),
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "changed_predictions": self.changed,
            "changed_weights": result.changed_weights,
            "total_weights": result.total_weights,
            "head_change_l1": result.objective,
            "gap": result.gap,
            "margin": result.margin,
            "classes": result.classes,
            "policy": None if result.policy is None else asdict(result.policy),
            "candidates": [asdict(candidate) for candidate in result.candidates],
            "history": {"fair": result.history.fair, "task": result.history.task},
            "seconds": dict(result.seconds),
            "out_of_range": split.out_of_range.as_dict(),
            "warnings": self.warnings,
        }


def claim_needs_range(spec: Spec, options: Mapping[str, Any]) -> bool:
    """Return whether a repair with these options claims something about ranges, and not only independence."""
    from fairmend.repairing.options import has_tolerances

    if options.get("method") == "blind":
        return has_tolerances(spec)
    return options.get("guarantee") != "everyone"


def repair_and_compare(
    net: Network,
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
    changed = None if split.spec.regression else changed_rate(net.predict(split.X), result.network.predict(split.X))
    warnings = (*split.warnings, *training_row_warnings(net, split, seed), *result.warnings)
    return RepairComparison(split, result, before, after, changed, warnings)


def training_row_warnings(net: Network, split: DataSplit, seed: int = 0) -> list[str]:
    """Return a warning if the rows of the data seem to be rows that the network was trained on."""
    if split.test is not None:
        X, y = split.test.X, split.test.y
        return training_warnings(net, split.X, split.y, X, y, regression=split.spec.regression)
    return [] if split.spec.regression else memory_warnings(net, split.X, split.y, seed)


def _plain(figures: Utility | RegressionUtility | None) -> dict[str, Any]:
    return {} if figures is None else asdict(figures)


def _count(unequal: UnequalInputs) -> UnequalCount:
    return UnequalCount(unequal.count, len(unequal.rows), unequal.exact)
