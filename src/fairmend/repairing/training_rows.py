"""The rows that a repair trains on, and their targets: labels, the original network's outputs, or both.

`training_rows` gives the original's output for each row as it is. `expected_training_rows` is for networks that ignore
features, which the original does not. The best that such a network can give is the original's *expected* output: the
mean over people who differ in the ignored features only. One row shows one of them, by chance. So the target of a row
is a mean over the ignored values of the rows that are nearest to it in all other columns.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.repairing.regression import as_columns
from fairmend.repairing.task import RepairTask

FEW_ROWS = 2000
"""With more rows than this, training itself averages over people who are alike: on synthetic data, means over near rows
gain 0.2 to 0.5 points of accuracy with 300 to 1,100 rows, and nothing with 5,000."""

NEAREST = 20
"""The rows whose ignored values are used. On synthetic data 5 to 40 are about equally good."""


def training_rows(task: RepairTask, label_weight: float) -> tuple[FloatArray, Floats]:
    """Return rows and their targets: probabilities ``(rows, classes)``, or numbers ``(rows, outputs)`` of a regression.

    A label counts with ``label_weight``, the original network's output with the rest. Rows without labels have the
    original's output as their target, and are of no use where only labels count.
    """
    X = task.X_cal if label_weight == 1 else np.concatenate([task.X_cal, task.X_unlabelled])
    return X, _with_labels(original_outputs(task, X), task, label_weight)


def expected_training_rows(task: RepairTask, columns: list[int], label_weight: float) -> tuple[FloatArray, Floats]:
    """Return rows, and the targets of a network that ignores these columns: those of `training_rows` if there are many.

    A label counts with ``label_weight``, the expected output of the original network with the rest. The repair inputs
    are rows to learn from too, but lend no values to others: they need not be like the data.
    """
    data = np.concatenate([task.X_cal, task.X_unlabelled])
    if len(data) > FEW_ROWS:
        return training_rows(task, label_weight)
    X = np.concatenate([data, task.X_repair])
    return X, _with_labels(_expected_outputs(task, X, data, columns), task, label_weight)


def _expected_outputs(task: RepairTask, X: FloatArray, data: FloatArray, columns: list[int]) -> Floats:
    """Return the mean of the original's outputs over the values that the nearest rows of the data have in columns."""
    outputs = []
    for near in _nearest(X, data, columns).T:
        replaced = X.copy()
        replaced[:, columns] = data[np.ix_(near, columns)]
        outputs.append(original_outputs(task, replaced))
    return np.asarray(np.mean(outputs, axis=0))


def _nearest(X: FloatArray, data: FloatArray, columns: list[int]) -> Ints:
    """Return for each row the numbers of the rows of the data that are nearest in all other columns.

    Distances are in units of the deviation of each column.
    """
    if len(data) <= NEAREST:
        return np.tile(np.arange(len(data)), (len(X), 1))
    others = np.setdiff1d(np.arange(X.shape[1]), columns)
    centre, deviation = (part(data[:, others], axis=0, dtype=np.float64) for part in (np.mean, np.std))
    units = np.where(deviation > 0, deviation, 1.0)
    rows, points = (((part[:, others] - centre) / units).astype(np.float32) for part in (X, data))
    distances = np.square(points).sum(axis=1) - 2 * rows @ points.T  # without what is equal for all points of a row
    return np.asarray(np.argpartition(distances, NEAREST, axis=1)[:, :NEAREST])


def original_outputs(task: RepairTask, X: FloatArray) -> Floats:
    """Return the original network's probabilities ``(rows, classes)``, or the numbers of a regression."""
    if task.spec.regression:
        return as_columns(task.network.logits(X))
    probabilities = task.network.probabilities(X).astype(np.float64)
    return np.column_stack([1 - probabilities, probabilities]) if probabilities.ndim == 1 else probabilities


def _with_labels(targets: Floats, task: RepairTask, label_weight: float) -> Floats:
    """Return targets of rows, the first of which are the calibration rows, with the labels of those mixed in.

    The loss towards the mixture is, up to a constant, the mean of the losses towards labels and towards outputs.
    """
    labels = as_columns(task.y_cal) if task.spec.regression else np.eye(targets.shape[1])[task.y_cal]
    targets[: len(labels)] *= 1 - label_weight
    targets[: len(labels)] += label_weight * labels
    return targets
