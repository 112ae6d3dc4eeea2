"""What networks are trained towards and judged by: `Classes`, or the `Numbers` of a regression.

A repair asks `measure_of` which of the two its spec is about, and then the measure: what labels may look like, what a
network predicts and should output, how well it predicts, and what it keeps of another network's predictions.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.network import Model
from fairmend.spec import Spec

LEAST_AGREEMENT = 0.2
"""A network has collapsed if its balanced agreement with the original is less than this share of the way from chance
to 1: then it decides something else."""

SMOOTH = 0.2
"""The width of the band around the threshold in `smooth_shares`, in units of the usual lead. Tuned on synthetic data,
where any width from 0.1 to 0.4 selects about equally well, and much better than none."""

RARE = 0.001
"""A class that the original network predicts for fewer rows than this may disappear without a collapse."""


class Classes:
    """Predictions are classes ``(rows,)``, and all classes count the same.

    ``name`` is what `fit` returns, in words.
    """

    name = "balanced accuracy"

    def check_labels(self, y_cal: np.ndarray, rows: int, network: Model) -> np.ndarray:
        """Return class numbers ``(rows,)``; raise FairmendError for labels that the network cannot predict."""
        classes = 2 if network.outputs == 1 else network.outputs
        if y_cal.shape != (rows,):
            raise FairmendError(f"y_cal has shape {y_cal.shape}; it must be ({rows},), one class for each row of X_cal")
        known = np.isin(y_cal, np.arange(classes))
        if not known.all():
            row = int(np.argmin(known))
            raise FairmendError(
                f"y_cal, row {row}: {y_cal[row]!r} is not a class; give numbers from 0 to {classes - 1}"
            )
        return y_cal.astype(np.int64)

    def label_targets(self, y: np.ndarray, outputs: int) -> Floats:
        """Return labels as training targets ``(rows, outputs)``: probabilities of 0 and 1."""
        return np.asarray(np.eye(outputs)[y])

    def output_targets(self, network: Model, outputs: FloatArray) -> Floats:
        """Return a network's logits as training targets ``(rows, outputs)``: the probability of each class."""
        probabilities = network.probabilities_of(outputs).astype(np.float64)
        return np.column_stack([1 - probabilities, probabilities]) if probabilities.ndim == 1 else probabilities

    def predictions(self, network: Model, outputs: FloatArray) -> np.ndarray:
        """Return what the network predicts where these are its logits."""
        return network.decide(outputs)

    def predict(self, network: Model, X: FloatArray) -> np.ndarray:
        """Return what a network predicts for rows."""
        return self.predictions(network, network.logits(X))

    def accuracy(self, y: np.ndarray, predicted: np.ndarray) -> float:
        """Return the share of the rows that are predicted correctly."""
        return accuracy(y, predicted)

    def shares(self, y: np.ndarray, predicted: np.ndarray) -> Floats:
        """Return for each row what it adds to `fit`, ``(rows,)``: their mean is the fit."""
        return balanced_shares(y, predicted)

    def ranking_shares(self, y: np.ndarray, network: Model, outputs: FloatArray, balanced: float) -> Floats:
        """Return such shares from a network's logits, less noisy: they rank networks."""
        return smooth_shares(y, network.centre(outputs), balanced)

    def fit(self, y: np.ndarray, predicted: np.ndarray) -> float:
        """Return the balanced accuracy."""
        return balanced_accuracy(y, predicted)

    def agreement(self, before: np.ndarray, after: np.ndarray) -> float:
        """Return the share of equal predictions, as a mean over the old classes."""
        return balanced_accuracy(before, after)

    def changed(self, before: np.ndarray, after: np.ndarray) -> float:
        """Return the share of the rows whose class changed."""
        return float(np.mean(after != before))

    def has_collapsed(self, before: np.ndarray, after: np.ndarray) -> bool:
        """Return whether new predictions for the same rows lost what the old ones told apart.

        A class is gone, or the balanced agreement is near chance, where there were several.
        """
        classes, counts = np.unique(before, return_counts=True)
        if len(classes) == 1:
            return False
        gone = ~np.isin(classes, after) & (counts >= RARE * len(before))
        chance = 1 / len(classes)
        return bool(gone.any() or balanced_accuracy(before, after) < chance + LEAST_AGREEMENT * (1 - chance))


class Numbers:
    """Predictions are the outputs themselves, ``(rows,)`` or ``(rows, outputs)``, and R² says how good they are.

    Its methods are those of `Classes`.
    """

    name = "R²"

    def check_labels(self, y_cal: np.ndarray, rows: int, network: Model) -> Floats:
        """Return the numbers to predict, float64 ``(rows,)``, or ``(rows, outputs)`` for several outputs."""
        shapes = [(rows, network.outputs)] + ([(rows,)] if network.outputs == 1 else [])
        if y_cal.shape not in shapes:
            raise FairmendError(
                f"y_cal has shape {y_cal.shape}; it must be {shapes[-1]}, one number for each row of X_cal"
            )
        try:
            targets = y_cal.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise FairmendError(f"y_cal holds values that are no numbers: {error}") from error
        if not np.isfinite(targets).all():
            row = int(np.argmin(np.isfinite(targets).reshape(rows, -1).all(axis=1)))
            raise FairmendError(f"y_cal, row {row}: {targets[row]} is not a finite number")
        return targets[:, 0] if targets.ndim == 2 and network.outputs == 1 else targets

    def label_targets(self, y: np.ndarray, outputs: int) -> Floats:
        """Return the numbers."""
        return as_columns(y)

    def output_targets(self, network: Model, outputs: FloatArray) -> Floats:
        """Return the outputs."""
        return as_columns(outputs)

    def predictions(self, network: Model, outputs: FloatArray) -> FloatArray:
        """Return the outputs."""
        return outputs

    def predict(self, network: Model, X: FloatArray) -> FloatArray:
        """Return the outputs for rows."""
        return network.logits(X)

    def accuracy(self, y: np.ndarray, predicted: np.ndarray) -> float:
        """Return R²."""
        return r_squared(y, predicted)

    def shares(self, y: np.ndarray, predicted: np.ndarray) -> Floats:
        """Return what each row adds to R²."""
        return _fit_shares(y, predicted)

    def ranking_shares(self, y: np.ndarray, network: Model, outputs: FloatArray, balanced: float) -> Floats:
        """Return what each row adds to R²."""
        return _fit_shares(y, outputs)

    def fit(self, y: np.ndarray, predicted: np.ndarray) -> float:
        """Return R²."""
        return r_squared(y, predicted)

    def agreement(self, before: np.ndarray, after: np.ndarray) -> float:
        """Return the share of the variance of the old outputs that is kept, at least 0."""
        return max(0.0, r_squared(before, after))

    def changed(self, before: np.ndarray, after: np.ndarray) -> float:
        """Return the share of the variance that is not kept."""
        return 1 - self.agreement(before, after)

    def has_collapsed(self, before: np.ndarray, after: np.ndarray) -> bool:
        """Return whether hardly any of the variance of the outputs is kept."""
        return self.agreement(before, after) < LEAST_AGREEMENT and bool(np.ptp(before) > 0)


Measure: TypeAlias = Classes | Numbers


def measure_of(spec: Spec) -> Measure:
    """Return how networks are judged by a spec."""
    return Numbers() if spec.regression else Classes()


def as_columns(values: np.ndarray) -> Floats:
    """Return one column for each output, float64 ``(rows, outputs)``."""
    return values.reshape(len(values), -1).astype(np.float64)


def r_squared(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of the variance of y that is predicted, the mean over the outputs: 0 for the mean of y.

    It is 0 if y is constant, because there is nothing to predict.
    """
    return float(_fit_shares(y, predicted).mean())


def _fit_shares(y: np.ndarray, predicted: np.ndarray) -> Floats:
    true = as_columns(y)
    left, all_of_it = np.square(true - as_columns(predicted)), true.var(axis=0)
    return np.asarray(np.where(all_of_it > 0, 1 - left / np.where(all_of_it > 0, all_of_it, 1.0), 0.0).mean(axis=1))


def balanced_shares(true: Ints, predicted: Ints) -> Floats:
    """Return for each row what it adds to the balanced accuracy: their mean is the balanced accuracy."""
    return np.asarray(_row_weights(true) * (true == predicted))


def smooth_shares(true: Ints, logits: FloatArray, balanced: float = 1.0) -> Floats:
    """Return `balanced_shares` in which a row near the decision threshold, 0 or a tie of logits, counts in part.

    ``balanced`` is the weight of balanced accuracy; the rest is that of accuracy, to which all rows add equally.

    Whether such a row is right is chance, so a comparison of two networks is less noisy without it. Near is relative to
    the usual size of a network's leads, so that a network does not gain by being sure of itself.
    """
    outputs = class_logits(logits)
    rows = np.arange(len(outputs))
    own = outputs[rows, true]
    outputs[rows, true] = -np.inf
    lead = own - outputs.max(axis=1)
    usual = float(np.sqrt(np.mean(np.square(lead))))
    weights = balanced * _row_weights(true) + 1 - balanced
    return np.asarray(weights / (1 + np.exp(-lead / (SMOOTH * usual)))) if usual > 0 else 0 * lead


def class_logits(logits: FloatArray) -> Floats:
    """Return one logit for each class, a new array ``(rows, classes)``: that of class 0 is 0 beside a single one."""
    outputs = logits.astype(np.float64)
    return np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.ndim == 1 else outputs


def balancing_weights(chances: Floats) -> Floats:
    """Return what a right decision for a row of each class adds to the balanced accuracy, times the number of rows.

    ``chances (rows, classes)`` are the probabilities that a class is right; labels are probabilities of 0 and 1.
    """
    shares = chances.mean(axis=0)
    return np.asarray(np.where(shares > 0, 1 / np.where(shares > 0, shares, 1.0), 0.0) / np.count_nonzero(shares))


def _row_weights(true: Ints) -> Floats:
    """Return weights with which the mean over rows is the mean over classes."""
    classes, numbers, counts = np.unique(true, return_inverse=True, return_counts=True)
    return np.asarray((len(true) / (len(classes) * counts))[numbers])
