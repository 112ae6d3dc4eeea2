"""What a network is good for besides being fair: accuracy and its like, and how well its scores rank people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.metrics import Classes, accuracy, balanced_accuracy, changed_rate, pair_of_classes, positive_rate
from fairmend.network import Network, predicted_classes


@dataclass(frozen=True)
class Utility:
    """The figures of one network on one set of rows, each from 0 to 1.

    `positive_rate` is None for more than two classes, where no class is the positive one. `auc` and
    `average_precision` are None where the labels are all of one class; for more than two classes they are the mean
    over the classes, each against the rest. `changed` is the share of predictions that differ from those of another
    network, where one was given.
    """

    accuracy: float
    balanced_accuracy: float
    positive_rate: float | None
    auc: float | None = None
    average_precision: float | None = None
    changed: float | None = None


def utility(net: Network, X: npt.ArrayLike, y: npt.ArrayLike, original: Network | None = None) -> Utility:
    """Return the figures of `net` on X (rows, inputs) with true classes y (rows,); `original` is to compare with."""
    return utility_of(net.logits(X), y, None if original is None else original.predict(X))


def utility_of(logits: FloatArray, y: npt.ArrayLike, before: npt.ArrayLike | None = None) -> Utility:
    """Return the figures from the logits (rows,) or (rows, N) themselves; `before` are predictions to compare with."""
    one = logits.ndim == 1
    predicted = predicted_classes(logits)
    true, _ = pair_of_classes(y, predicted)
    scores = _class_scores(logits)
    return Utility(
        accuracy(true, predicted),
        balanced_accuracy(true, predicted),
        positive_rate(predicted) if one or logits.shape[1] == 2 else None,
        _one_against_rest("roc_auc_score", true, scores),
        _one_against_rest("average_precision_score", true, scores),
        None if before is None else changed_rate(before, predicted),
    )


def _class_scores(logits: FloatArray) -> dict[int, npt.NDArray[np.float64]]:
    """For each class that is asked for, what grows with its probability (rows,); of two classes only for 1."""
    values = logits.astype(np.float64)
    if values.ndim == 1:
        return {1: values}
    if values.shape[1] == 2:
        return {1: values[:, 1] - values[:, 0]}
    values -= values.max(axis=1, keepdims=True)
    shares = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    return {label: shares[:, label] for label in range(shares.shape[1])}


def _one_against_rest(metric: str, true: Classes, scores: Mapping[int, npt.NDArray[np.float64]]) -> float | None:
    """The mean of a ranking metric over the classes that some rows have and others have not."""
    from sklearn import metrics  # a second to import, so only when a figure is asked for

    score = getattr(metrics, metric)
    found = [
        float(score(true == label, values))
        for label, values in scores.items()
        if 0 < int((true == label).sum()) < len(true)
    ]
    return float(np.mean(found)) if found else None
