"""The result of a repair, and the warnings about its calibration set and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import balanced_accuracy
from fairmend.base.text import condition_text, html_pairs, listed, percent
from fairmend.models.repaired import RepairedModel
from fairmend.network import Model, Network
from fairmend.prove.certificate import Certificate
from fairmend.prove.fit import model_condition
from fairmend.prove.proof import Proof
from fairmend.repairing.candidates import Candidate
from fairmend.repairing.measures import r_squared
from fairmend.repairing.options import Policy
from fairmend.repairing.training import History
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from fairmend.models.repaired_estimator import FairEstimator

COLLAPSED = "the repaired network predicts class {label} for every calibration row: it has collapsed to a constant"
FELL = (
    "balanced accuracy on the calibration rows fell by {points:.1f} points, from {before} to {after}: "
    "the repair costs more than accuracy alone shows"
)
ONE_CLASS = "every calibration row has the label {label}: the calibration set cannot keep the accuracy of the network"
KEEPS_DECISIONS = "; auto keeps the decisions of the original network instead"
EQUAL_ROWS = "all {rows} calibration rows are equal: the calibration set cannot keep the accuracy of the network"
GAP = "step 2 stopped before it proved its optimum: the smallest change may be up to {gap} smaller than this one"
GAP_UNKNOWN = "step 2 stopped before it proved its optimum: the gap is unknown, as it found no bound in its time"
NOT_INFERENCE = (
    "{count} neighbourhoods are proven in real arithmetic only: their margin is below the rounding error of inference, "
    "so the certificate does not cover inference, and fairmend check accepts it only with --real (in Python real=True)"
)

SCORES_NOT_INFERENCE = (
    "{count} neighbourhoods are proven in real arithmetic only: rounding errors of inference may add to the difference "
    "of their scores, so the certificate does not cover inference, and fairmend check accepts it only with --real (in "
    "Python real=True)"
)
SAME_TARGET = "every calibration row has the value {value:g}: the calibration set cannot keep the fit of the network"
CONSTANT = "the repaired network predicts {value:g} for every calibration row: it has collapsed to a constant"
FIT_FELL = (
    "R² on the calibration rows fell by {points:.3f}, from {before:.3f} to {after:.3f}: the repaired network predicts "
    "much less of the target"
)

NOT_PROVEN = "{count} of {inputs} repair inputs are not proven to be treated equally: this method gives no guarantee"

LISTED_TOLERANCES = (
    "differences in {names} are proven for the repair inputs only: a tolerance connects all values, step by step, so "
    "that a proof for everyone ignores them. Bands instead, such as bands = {{width = {width}}}, do not: people are "
    "similar within a band, and not across an edge"
)

NO_LONGER_READ = (
    "the repaired network no longer reads {names}, which the original reads and the spec does not protect: people who "
    "differ there, by a tolerance, a link or bands, count as similar; fairmend spec check says whom they connect"
)
MORE_UNEQUAL = (
    "the repaired network treats more people unequally than the original: {after} of the calibration rows instead of "
    "{before}; what is proven is about the repair inputs only"
)

LARGEST_FALL = 0.05


def calibration_warnings(
    X: FloatArray, y: np.ndarray, *, regression: bool = False, keeps_decisions: bool = False
) -> list[str]:
    """Return what is wrong with a calibration set; ``keeps_decisions`` is for a repair that needs no labels."""
    warnings = []
    if regression:
        warnings += [SAME_TARGET.format(value=y.flat[0])] if (y == y[0]).all() else []
    elif len(np.unique(y)) == 1:
        warnings.append(ONE_CLASS.format(label=int(y[0])) + (KEEPS_DECISIONS if keeps_decisions else ""))
    if len(X) > 1 and (X[0] == X).all():
        warnings.append(EQUAL_ROWS.format(rows=len(X)))
    return warnings


def outcome_warnings(
    before: Model,
    after: Model,
    X: FloatArray,
    y: np.ndarray,
    gap: float,
    proof: Proof,
    *,
    regression: bool = False,
) -> list[str]:
    """Return what is wrong with a repaired network, as far as the calibration set shows it."""
    warnings = (_regression_warnings if regression else _class_warnings)(before, after, X, y)
    if gap > 0:
        warnings.append(GAP.format(gap=percent(gap)) if gap < 1 else GAP_UNKNOWN)
    if not proof.holds.all():
        warnings.append(NOT_PROVEN.format(count=int((~proof.holds).sum()), inputs=len(proof.holds)))
    only_real = proof.holds & ~proof.covers_inference
    if only_real.any():
        message = SCORES_NOT_INFERENCE if proof.classes is None else NOT_INFERENCE
        warnings.append(message.format(count=int(only_real.sum())))
    return warnings


def lost_features(before: Model, after: Model, spec: Spec, ignored: Sequence[str]) -> list[str]:
    """Return a warning that names the features which only the original reads; protected ones should be lost.

    ``ignored`` are those that the repaired model provably ignores.
    """
    lost = [
        feature.name
        for feature in spec.features
        if not feature.protected
        and before.read_columns[spec.columns(feature.name)].any()
        and (feature.name in ignored or not after.read_columns[spec.columns(feature.name)].any())
    ]
    return [NO_LONGER_READ.format(names=listed(lost))] if lost else []


def tolerance_warnings(spec: Spec, ignored: Sequence[str]) -> list[str]:
    """Return a warning about tolerances that are proven for listed people only, with what could be proven instead."""
    tolerant = [f for f in spec.features if f.tolerance and f.varies and f.name not in ignored]
    if not tolerant:
        return []
    width = f"{2 * tolerant[0].reach:.4g}"
    return [LISTED_TOLERANCES.format(names=listed([f.name for f in tolerant]), width=width)]


def _class_warnings(before: Model, after: Model, X: FloatArray, y: np.ndarray) -> list[str]:
    warnings = []
    predictions = after.predict(X)
    if len(np.unique(predictions)) == 1 and len(np.unique(before.predict(X))) > 1:
        warnings.append(COLLAPSED.format(label=int(predictions[0])))
    old, new = balanced_accuracy(y, before.predict(X)), balanced_accuracy(y, predictions)
    if old - new > LARGEST_FALL:
        warnings.append(FELL.format(points=100 * (old - new), before=percent(old), after=percent(new)))
    return warnings


def _regression_warnings(before: Model, after: Model, X: FloatArray, y: np.ndarray) -> list[str]:
    warnings = []
    outputs = after.logits(X)
    if len(X) > 1 and (outputs == outputs[0]).all() and not (before.logits(X) == before.logits(X)[0]).all():
        warnings.append(CONSTANT.format(value=float(outputs.flat[0])))
    old, new = r_squared(y, before.logits(X)), r_squared(y, outputs)
    if old - new > LARGEST_FALL:
        warnings.append(FIT_FELL.format(points=old - new, before=old, after=round(new, 3) + 0.0))  # never -0
    return warnings


@dataclass(frozen=True)
class OtherCandidate:
    """The network of a proven candidate of "auto" that was not selected, and its certificate, if there is one.

    ``number`` is its place in `RepairResult.candidates`, from 1.
    """

    number: int
    name: str
    network: Network | RepairedModel
    certificate: Certificate | None


@dataclass(frozen=True)
class RepairResult:
    """A repaired network, what is proven about it, and how it was made.

    A baseline ("flip", "grft", "care") proves nothing by itself: ``proven`` may then be below ``regions``, and the
    certificate claims only what is proven, or is None.

    ``objective`` is the l1 norm of the head's change in step 2, and ``gap`` its relative distance from a proven lower
    bound. ``margin`` is the largest margin over the repair inputs with which step 2 ended. ``seconds`` holds the time
    of each stage (calibrate, solve, check) and the total. ``blind_features`` are the features that the network provably
    ignores for every input: all protected ones and possibly others that vary, or none. ``everyone`` tells whether these
    are all in which similar people may differ, so that the claim holds for everyone, tolerances and links included.
    ``by_classes`` tells that the output depends on a person only through their class; then ``network`` is a
    `RepairedModel`: the original behind a canonical map, saved as .onnx.
    ``candidates`` are the recipes that "auto" tried, and ``policy`` is how it selects among them; ``others`` are the
    networks of those not selected, if the caller keeps them. Their accuracy
    compares with ``original_accuracy`` and ``original_balanced_accuracy``: the original network on the calibration set
    (for a regression, None and R²). ``collapsed`` tells whether the network lost a class, or agrees with
    the original hardly more than chance would: its guarantee is then worth little. Read the ``warnings``
    before you use the network.
    """

    network: Network | RepairedModel
    certificate: Certificate | None
    method: str
    proof: Proof
    blind_features: tuple[str, ...]
    everyone: bool
    objective: float
    gap: float
    margin: float
    history: History
    seconds: dict[str, float]
    changed_weights: int
    total_weights: int
    attempts: int
    candidates: tuple[Candidate, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())
    collapsed: bool = False
    policy: Policy | None = None
    original_accuracy: float | None = None
    original_balanced_accuracy: float | None = None
    by_classes: bool = False
    others: tuple[OtherCandidate, ...] = ()

    @property
    def model(self) -> Network | RepairedModel:
        """The repaired model: the same as ``network``."""
        return self.network

    @property
    def module(self) -> nn.Module:
        """The repaired model as a PyTorch module around yours, with the same arguments and outputs."""
        module: nn.Module = self.network.to_module()
        return module

    @property
    def estimator(self) -> FairEstimator:
        """The repaired model as an estimator around yours, which takes what yours takes."""
        if not isinstance(self.network, RepairedModel):
            raise FairmendError("only a model that was repaired by classes has an estimator around it; use network")
        return self.network.to_estimator()

    @property
    def blind(self) -> bool:
        """Whether the network provably ignores the protected features for every input."""
        return bool(self.blind_features)

    @property
    def regions(self) -> int:
        """The number of repair inputs."""
        return len(self.proof.holds)

    @property
    def proven(self) -> int:
        """The number of repair inputs that are proven to be treated equally."""
        return int(self.proof.holds.sum())

    @property
    def classes(self) -> list[int | None] | None:
        """The class that the whole neighbourhood of each repair input gets; None where that is not proven.

        None for a claim about scores.
        """
        if self.proof.classes is None:
            return None
        pairs = zip(self.proof.classes, self.proof.holds, strict=True)
        return [int(label) if holds else None for label, holds in pairs]

    def to_frame(self) -> pd.DataFrame:
        """Return the candidates of "auto" as a table, one row each, with the reason why each was chosen or not."""
        import pandas as pd

        columns = ("accuracy", "balanced_accuracy", "agreement", "unfair_rate", "fall", "fall_of")
        rows = [
            {"recipe": one.recipe.name, "guarantee": one.guarantee or None}
            | {name: getattr(one, name) if one.proven else None for name in columns}
            | {"collapsed": one.collapsed, "chosen": one.chosen, "reason": one.reason}
            for one in self.candidates
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Show in a notebook what is proven, at which price, and the warnings."""
        claim = "nothing" if self.certificate is None else self.certificate.claim
        rows = [
            ("Proven", claim),
            ("Repair inputs proven", f"{self.proven:,} of {self.regions:,}"),
            *([] if self.by_classes else [("Weights changed", f"{self.changed_weights:,} of {self.total_weights:,}")]),
            *((f"{'Selected: ' if one.chosen else ''}{one.recipe.name}", one.reason) for one in self.candidates),
            ("Seconds", f"{self.seconds['total']:.1f}"),
        ]
        return html_pairs(f"Repair with {self.method}", rows, [f"Warning: {warning}" for warning in self.warnings])

    def __repr__(self) -> str:
        """Say what is proven, and at which price."""
        covered = self.proof.covers_inference[self.proof.holds].all()
        inference = f"in {self.network.dtype} inference" if covered else "in real arithmetic"
        some = f"{self.regions}" if self.proven == self.regions else f"{self.proven} of {self.regions}"
        blind = f"blind to {listed(self.blind_features)} for every input, " if self.blind else ""
        warnings = f"{len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}"
        if self.by_classes:
            read = "it reads only classes of similar people" + ("" if self.certificate else ", without a certificate")
            return (
                f"RepairResult({self.method}: {read}; {some} inputs equal where it was run, "
                f"{self.seconds['total']:.2f} s, {warnings}{condition_text(model_condition(self.network))})"
            )
        return (
            f"RepairResult({self.method}: {blind}{some} neighbourhoods proven {inference}, head changed by "
            f"{self.objective:.4g} (l1), {self.changed_weights} of {self.total_weights} weights changed, "
            f"{self.seconds['total']:.2f} s, {warnings}{condition_text(model_condition(self.network))})"
        )
