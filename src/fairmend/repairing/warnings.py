"""Warnings about the calibration set and the outcome of a repair."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.metrics import balanced_accuracy
from fairmend.base.text import percent
from fairmend.network import Network
from fairmend.prove.proof import Proof
from fairmend.repairing.regression import r_squared

COLLAPSED = "the repaired network predicts class {label} for every calibration row: it has collapsed to a constant"
FELL = (
    "balanced accuracy on the calibration rows fell by {points:.1f} points, from {before} to {after}: "
    "the repair costs more than accuracy alone shows"
)
ONE_CLASS = "every calibration row has the label {label}: the calibration set cannot keep the accuracy of the network"
KEEPS_DECISIONS = "; auto keeps the decisions of the original network instead"
EQUAL_ROWS = "all {rows} calibration rows are equal: the calibration set cannot keep the accuracy of the network"
GAP = "step 2 stopped before it proved its optimum: the smallest change may be up to {gap} smaller than this one"
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
    before: Network,
    after: Network,
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
        warnings.append(GAP.format(gap=percent(gap)))
    if not proof.holds.all():
        warnings.append(NOT_PROVEN.format(count=int((~proof.holds).sum()), inputs=len(proof.holds)))
    only_real = proof.holds & ~proof.covers_inference
    if only_real.any():
        message = SCORES_NOT_INFERENCE if proof.classes is None else NOT_INFERENCE
        warnings.append(message.format(count=int(only_real.sum())))
    return warnings


def _class_warnings(before: Network, after: Network, X: FloatArray, y: np.ndarray) -> list[str]:
    warnings = []
    predictions = after.predict(X)
    if len(np.unique(predictions)) == 1 and len(np.unique(before.predict(X))) > 1:
        warnings.append(COLLAPSED.format(label=int(predictions[0])))
    old, new = balanced_accuracy(y, before.predict(X)), balanced_accuracy(y, predictions)
    if old - new > LARGEST_FALL:
        warnings.append(FELL.format(points=100 * (old - new), before=percent(old), after=percent(new)))
    return warnings


def _regression_warnings(before: Network, after: Network, X: FloatArray, y: np.ndarray) -> list[str]:
    warnings = []
    outputs = after.logits(X)
    if len(X) > 1 and (outputs == outputs[0]).all() and not (before.logits(X) == before.logits(X)[0]).all():
        warnings.append(CONSTANT.format(value=float(outputs.flat[0])))
    old, new = r_squared(y, before.logits(X)), r_squared(y, outputs)
    if old - new > LARGEST_FALL:
        warnings.append(FIT_FELL.format(points=old - new, before=old, after=round(new, 3) + 0.0))  # never -0
    return warnings
