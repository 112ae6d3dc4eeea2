"""Utility of a network: accuracy and similar figures, how well its scores rank people, and errors of regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Bools, FloatArray
from fairmend.errors import FairmendError
from fairmend.large_arrays import chunks, in_chunks
from fairmend.metrics import (
    Classes,
    accuracy,
    balanced_accuracy,
    changed_rate,
    mean_absolute_error,
    pair_of_classes,
    positive_rate,
    r2,
    root_mean_squared_error,
)
from fairmend.network import DEFAULT_THRESHOLD, Network, predicted_classes

__all__ = ["RegressionUtility", "Utility", "regression_utility", "regression_utility_of", "utility", "utility_of"]


@dataclass(frozen=True)
class Utility:
    """Figures of one network on one set of rows, each from 0 to 1.

    Attributes
    ----------
    accuracy, balanced_accuracy : of the predictions
    positive_rate : the share of positive predictions; None with more than two classes
    auc, average_precision : how well the scores rank the rows, with the meaning they have in scikit-learn; None if
        all labels are of one class; with more than two classes, the mean over the classes, each against the rest
    changed : the share of predictions that differ from those of another network; None without one
    """

    accuracy: float
    balanced_accuracy: float
    positive_rate: float | None
    auc: float | None = None
    average_precision: float | None = None
    changed: float | None = None


@dataclass(frozen=True)
class RegressionUtility:
    """Figures of one regression network on one set of rows.

    Attributes
    ----------
    r2 : the share of the variance that the predictions explain, at most 1; None if all targets are equal
    mean_absolute_error, root_mean_squared_error : in the target's own units
    """

    r2: float | None
    mean_absolute_error: float
    root_mean_squared_error: float


def regression_utility(net: Network, X: npt.ArrayLike, y: npt.ArrayLike) -> RegressionUtility:
    """Return the errors of a regression network with one output on X (rows, inputs) with targets y (rows,)."""
    return regression_utility_of(net.logits(X), y)


def regression_utility_of(outputs: FloatArray, y: npt.ArrayLike) -> RegressionUtility:
    """Return the errors of outputs (rows,) for targets y (rows,)."""
    if outputs.ndim != 1:
        raise FairmendError(f"the label is one number, but the network has {outputs.shape[1]} outputs. Use one output.")
    return RegressionUtility(r2(y, outputs), mean_absolute_error(y, outputs), root_mean_squared_error(y, outputs))


def utility(net: Network, X: npt.ArrayLike, y: npt.ArrayLike, original: Network | None = None) -> Utility:
    """Return the utility of `net` on X (rows, inputs) with true classes y (rows,), compared with `original` if any."""
    before = None if original is None else original.predict(X)
    return utility_of(net.logits(X), y, before, threshold=net.threshold)


def utility_of(
    logits: FloatArray,
    y: npt.ArrayLike,
    before: npt.ArrayLike | None = None,
    *,
    threshold: float = DEFAULT_THRESHOLD,
) -> Utility:
    """Return the utility from logits (rows,) or (rows, N); `before` are predictions (rows,) to compare with."""
    one = logits.ndim == 1
    predicted = in_chunks(logits, lambda part: predicted_classes(part, threshold), np.int16)
    true, _ = pair_of_classes(y, predicted)
    scores = _class_scores(logits)
    return Utility(
        accuracy(true, predicted),
        balanced_accuracy(true, predicted),
        positive_rate(predicted) if one or logits.shape[1] == 2 else None,
        _mean_over_classes(_auc, true, scores),
        _mean_over_classes(_average_precision, true, scores),
        None if before is None else changed_rate(before, predicted),
    )


def _class_scores(logits: FloatArray) -> dict[int, FloatArray]:
    """Return for each class a score (rows,) that grows with its probability; with two classes, only for class 1."""
    if logits.ndim == 1:
        return {1: logits}
    values = logits.astype(np.float64)
    if values.shape[1] == 2:
        return {1: values[:, 1] - values[:, 0]}
    values -= values.max(axis=1, keepdims=True)
    shares = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    return {label: shares[:, label] for label in range(shares.shape[1])}


def _mean_over_classes(
    metric: Callable[[Bools, FloatArray], float], true: Classes, scores: Mapping[int, FloatArray]
) -> float | None:
    """Return the mean of a ranking metric, each class against the rest; None if no class splits the rows."""
    found = [
        metric(true == label, values) for label, values in scores.items() if 0 < int((true == label).sum()) < len(true)
    ]
    return float(np.mean(found)) if found else None


def _auc(positive: Bools, scores: FloatArray) -> float:
    """Return the area under the ROC curve: the share of pairs of a positive and a negative row ranked correctly.

    Ties count half.
    """
    chosen, others = _sorted(scores[positive]), _sorted(scores[~positive])
    correct = sum(
        int(np.searchsorted(others, chosen[part], side=side).sum())
        for part in chunks(len(chosen))
        for side in ("left", "right")
    )
    return correct / (2 * len(chosen) * len(others))


def _sorted(own: FloatArray) -> FloatArray:
    """Return an array that nobody else has in order, without another copy."""
    own.sort()
    return own


def _average_precision(positive: Bools, scores: FloatArray) -> float:
    """Return the mean over the positive rows of the precision at their scores."""
    chosen, others = _sorted(scores[positive]), _sorted(scores[~positive])
    total = 0.0
    for part in chunks(len(chosen)):
        hits = len(chosen) - np.searchsorted(chosen, chosen[part])
        misses = len(others) - np.searchsorted(others, chosen[part])
        total += float((hits / (hits + misses)).sum())
    return total / len(chosen)
