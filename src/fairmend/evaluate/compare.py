"""The figures of a network before and after its repair, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fairmend._version import __version__
from fairmend.audit.neighbours import UnequalInputs, find_unequal, sample_unequal
from fairmend.evaluate.groups import GroupMetrics, group_metrics
from fairmend.evaluate.split import People
from fairmend.evaluate.utility import Utility, utility
from fairmend.metrics import changed_rate
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.spec import Spec
from fairmend.text import percent

if TYPE_CHECKING:
    from fairmend.repair.result import RepairResult


# About a minute's work; beyond it a sample has to do.
_MOST_POINTS = 100_000_000


@dataclass(frozen=True)
class Figures:
    """One network: whom it treats unequally (repair inputs, data), what it is good for, and how groups fare."""

    repair: UnequalInputs
    data: UnequalInputs
    utility: Utility
    groups: tuple[GroupMetrics, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data; rates are from 0 to 1."""
        return {
            "unfair_repair_inputs": self.repair.count,
            "unfair_data_rows": self.data.count,
            "unfair_data_rate": self.data.rate,
            **{name: value for name, value in asdict(self.utility).items() if name != "changed"},
            "groups": [asdict(group) for group in self.groups],
        }


def measure(net: Network, people: People, *, stage: str, seed: int = 0, progress: Progress | None = None) -> Figures:
    """Return the figures of a network; `stage` is what the progress is reported under."""

    def report(_: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    X, y = people.X[people.scored], people.y[people.scored]
    return Figures(
        _unequal(net, people.spec, people.X_repair, seed, None),
        _unequal(net, people.spec, people.X, seed, report),
        utility(net, X, y),
        group_metrics(net, people.spec, X, y),
    )


def _unequal(net: Network, spec: Spec, X: npt.ArrayLike, seed: int, progress: Progress | None) -> UnequalInputs:
    """Exact where the neighbours can all be looked at, else sampled."""
    if spec.finite and sum(spec.neighbourhood_sizes(X).tolist()) <= _MOST_POINTS:
        return find_unequal(net, spec, X, progress=progress)
    return sample_unequal(net, spec, X, seed=seed, progress=progress)


@dataclass(frozen=True, eq=False)
class Comparison:
    """A repair, and the figures of the network before and after it."""

    people: People
    result: RepairResult
    before: Figures
    after: Figures
    changed: float
    warnings: tuple[str, ...]

    @property
    def guarantee(self) -> str:
        """What is proven, for whom, and what is not."""
        return f"{self.claim} {self.beyond}".strip()

    @property
    def claim(self) -> str:
        """What is proven, in one sentence."""
        result, names, also = self.result, self._names, self._also
        if result.blind:
            return f"Proven: for everyone, the output of the network does not depend on {names}."
        if result.proven < result.regions:
            unfair = self.after.repair
            some = "" if unfair.exact else "at least "
            return (
                f"Not proven: {result.method} gives no guarantee; {result.proven:,} of "
                f"{result.regions:,} repair inputs happen to be proven to get the same answer whatever their "
                f"{names}{also}, and {some}{unfair.count:,} are still treated unequally."
            )
        return f"Proven: each of the {result.regions:,} repair inputs gets the same answer whatever its {names}{also}."

    @property
    def beyond(self) -> str:
        """What is known of the people whom that sentence does not cover; empty where it covers everyone."""
        left = self.after.data
        least = "" if left.exact else "at least "
        rows = f"the {len(left.rows):,} rows of the data, {least}{left.count:,} ({percent(left.rate)})"
        if self.result.blind:
            if not self._also:
                return ""
            result = self.result
            some = "each" if result.proven == result.regions else f"only {result.proven:,}"
            gets = f"{some} of the {result.regions:,} repair inputs provably gets the same answer"
            return f"And {gets}{self._also}; of {rows} do not."
        if self.result.proven < self.result.regions:
            return f"Of {rows} are."
        return f"Other people are not covered by the proof: of {rows} are still treated unequally."

    @property
    def _names(self) -> str:
        return " and ".join(f.name for f in self.people.spec.protected)

    @property
    def _also(self) -> str:
        near = [f"{f.name} by up to {f.tolerance:g}" for f in self.people.spec.features if f.tolerance and f.varies]
        return f", also when it differs in {' and '.join(near)}" if near else ""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for result.json and --json."""
        result, people = self.result, self.people
        return {
            "fairmend": __version__,
            "method": result.method,
            "proven": result.proven == result.regions,
            "proven_repair_inputs": result.proven,
            "proof_covers_inference": bool(result.proven and result.proof.covers_inference[result.proof.holds].all()),
            "guarantee": self.guarantee,
            "certificate": None if result.certificate is None else result.certificate.claim,
            "blind": result.blind,
            "protected": [f.name for f in people.spec.protected],
            "repair_inputs": result.regions,
            "repair_rows": people.repair,
            "calibration_rows": people.calibration,
            "data_rows": len(people.X),
            "unfair_data_is_exact": self.before.data.exact and self.after.data.exact,
            "scored_rows": len(people.scored),
            "scored_rows_are_held_out": people.held_out,
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "changed_predictions": self.changed,
            "changed_weights": result.changed_weights,
            "total_weights": result.total_weights,
            "head_change_l1": result.objective,
            "gap": result.gap,
            "margin": result.margin,
            "classes": result.classes,
            "candidates": [
                {**asdict(candidate), "recipe": asdict(candidate.recipe)} for candidate in result.candidates
            ],
            "history": {"fair": result.history.fair, "task": result.history.task},
            "seconds": dict(result.seconds),
            "warnings": self.warnings,
        }


def repair_and_compare(
    net: Network,
    people: People,
    before: Figures,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    options: Mapping[str, Any],
) -> Comparison:
    """Repair a network whose figures are `before`; `options` are those of `fairmend.repair`."""
    from fairmend.repair.run import repair  # PyTorch comes with it

    X_cal, y_cal = people.X[people.calibration], people.y[people.calibration]
    result = repair(net, people.spec, people.X_repair, X_cal, y_cal, seed=seed, progress=progress, **options)
    after = measure(result.network, people, stage="audit repaired", seed=seed, progress=progress)
    # Looked at independently of the proof, so that neither is trusted alone.
    contradicted = int((after.repair.rows & result.proof.covers_inference).sum())
    if contradicted:
        raise RuntimeError(f"{contradicted} repair inputs are treated unequally although they were proven not to be")
    changed = changed_rate(net.predict(people.X), result.network.predict(people.X))
    return Comparison(people, result, before, after, changed, (*people.warnings, *result.warnings))
