"""Estimate how far accuracy and balanced accuracy fall below the original network's, from few labels and many rows.

Only rows whose decision changed matter, and there are two ways to say what a change costs:

- by labels: right on average, but noisy. If 60 of 500 rows changed, the standard error is 1.5 points;
- by probabilities, on all rows, labelled or not: hardly noisy, but wrong as far as the probabilities are. They come
  from the original's and the candidate's outputs, by a logistic regression that is fitted to all labels: most networks
  are too sure of themselves, and most of all where another network decides otherwise.

The estimate is the mean of the two, weighted by their inverse variances: with few changes or many labels the labels
decide, with many changes and few labels the probabilities. The variance of the second allows for probabilities that are
wrong: by `MISCALIBRATION`, and by more if the labelled rows show it. On synthetic data, where both are known, the
estimate has two thirds of the error that the labels have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.repairing.task import RepairTask

MISCALIBRATION = 0.05
"""How far the probability of a class may be off, on average over the rows that changed. Tuned on synthetic data, where
0.03 to 0.07 serve about equally well."""

SURPRISE = 2.0
"""Where the two estimates differ on the labelled rows by more than this many standard errors, probabilities are taken
to be wrong by the rest."""

_NEWTON_STEPS, _RIDGE = 30, 0.001
"""The ridge matters only where the labels leave a slope open."""


@dataclass(frozen=True)
class Fall:
    """How much less than the original a candidate keeps, negative for more, and the standard error of this estimate.

    ``measure`` says of what: "accuracy", "balanced accuracy", "R²" or "agreement with the original".
    """

    value: float
    error: float = 0.0
    measure: str = "balanced accuracy"

    def within(self, limit: float, errors: float = 0.0) -> bool:
        """Return whether the fall is at most the limit, with so many standard errors to spare."""
        return self.value + errors * self.error <= limit


class FallEstimate:
    """Estimates the fall of the candidates of one task, a classification, from their cross-fitted outputs."""

    def __init__(self, task: RepairTask) -> None:
        self.y, self.before, self.network = task.y_cal, task.original_predictions, task.network
        self.logits = _class_logits(task.network.logits(np.concatenate([task.X_cal, task.X_unlabelled])))

    def __call__(self, outputs: FloatArray) -> tuple[Fall, Fall]:
        """Return the falls of accuracy and of balanced accuracy.

        ``outputs`` are a candidate's for the calibration rows, then for the unlabelled rows.
        """
        after = self.network.decide(outputs)
        if np.array_equal(after, self.before):
            return Fall(0.0, measure="accuracy"), Fall(0.0)
        probabilities = class_probabilities([self.logits, _class_logits(outputs)], self.y)
        labels = np.eye(probabilities.shape[1])[self.y]
        even = np.ones(probabilities.shape[1])
        value, error = self._combine(after, _Measured(probabilities, even), _Measured(labels, even))
        balanced = (
            _Measured(probabilities, balancing_weights(probabilities)),
            _Measured(labels, balancing_weights(labels)),
        )
        return Fall(value, error, "accuracy"), Fall(*self._combine(after, *balanced))

    def _combine(self, after: Ints, by_probability: _Measured, by_label: _Measured) -> tuple[float, float]:
        """Return the mean of both ways to measure a fall, weighted by their inverse variances, and its error."""
        labelled, changed = len(self.y), after != self.before
        label_costs = by_label.costs(self.before[:labelled], after[:labelled])
        costs = by_probability.costs(self.before, after)
        pairs = np.stack([self.before[changed], after[changed]], axis=1)  # the two classes, one of which may be right
        chances = np.take_along_axis(by_probability.chances[changed], pairs, axis=1)
        weights = by_probability.weights[pairs]
        label_variance = float((chances * weights**2).sum()) / len(after) / labelled
        difference = float(label_costs.mean() - costs[:labelled].mean())
        surprise = max(0.0, difference**2 - SURPRISE**2 * label_variance)
        miscalibration = MISCALIBRATION * float(weights.sum()) / len(after)
        variance = miscalibration**2 + surprise + float(np.square(costs).mean()) / len(after)
        share = variance / (variance + label_variance)
        return float(share * label_costs.mean() + (1 - share) * costs.mean()), float(np.sqrt(share * label_variance))


@dataclass(frozen=True, eq=False)
class _Measured:
    """The probabilities ``chances (rows, classes)`` that a class is right, and what a right decision is worth.

    Labels are probabilities of 0 and 1. A right decision for a row of a class is worth that class's weight.
    """

    chances: Floats
    weights: Floats

    def costs(self, before: Ints, after: Ints) -> Floats:
        """Return for each row what it adds to the fall: the mean is the fall."""
        values, rows = self.chances * self.weights, np.arange(len(self.chances))
        return np.asarray(values[rows, before] - values[rows, after])


def balancing_weights(chances: Floats) -> Floats:
    """Return what a right decision for a row of each class adds to the balanced accuracy, times the number of rows."""
    shares = chances.mean(axis=0)
    return np.asarray(np.where(shares > 0, 1 / np.where(shares > 0, shares, 1.0), 0.0) / np.count_nonzero(shares))


def _class_logits(logits: FloatArray) -> Floats:
    """Return one logit for each class, ``(rows, classes)``."""
    outputs = logits.astype(np.float64)
    return np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.ndim == 1 else outputs


def class_probabilities(sources: Sequence[Floats], y: Ints) -> Floats:
    """Return probabilities ``(rows, classes)`` from several networks' logits, fitted to the labels of the first rows.

    This is a logistic regression: the softmax of offsets and of the logits ``(rows, classes)`` of each network times
    its slope, by Newton's method. With one network it is Platt's scaling.
    """
    classes = sources[0].shape[1]
    spreads = np.array([float(logits.std()) or 1.0 for logits in sources])
    scaled = np.stack([logits / spread for logits, spread in zip(sources, spreads, strict=True)], axis=2)
    inputs = np.concatenate([scaled, np.broadcast_to(np.eye(classes), (*scaled.shape[:2], classes))], axis=2)
    known, labels = inputs[: len(y)], np.eye(classes)[y]
    prior = np.zeros(inputs.shape[2])
    prior[0] = spreads[0]

    def loss(slopes: Floats) -> float:
        chances = (_softmax(known @ slopes) * labels).sum(axis=1)
        return float(-np.log(chances + 1e-300).sum() + _RIDGE / 2 * np.square(slopes - prior).sum())

    slopes = np.zeros_like(prior)  # where the loss is most curved, so that Newton's steps are safe
    for _ in range(_NEWTON_STEPS):
        found = _softmax(known @ slopes)
        gradient = np.einsum("rcp,rc->p", known, found - labels) + _RIDGE * (slopes - prior)
        centred = known - np.einsum("rcp,rc->rp", known, found)[:, None]
        curvature = np.einsum("rcp,rc,rcq->pq", centred, found, centred) + _RIDGE * np.eye(len(prior))
        step = np.linalg.solve(curvature, gradient)
        while loss(slopes - step) > loss(slopes) and np.abs(step).max() > 1e-9:
            step /= 2
        slopes = slopes - step
    return _softmax(inputs @ slopes)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
