"""Utility of a network: accuracy and similar figures, how well its scores rank people, and errors of regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, chunks, empty_array, in_chunks
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import (
    accuracy,
    balanced_accuracy,
    changed_rate,
    mean_absolute_error,
    pair_of_classes,
    positive_rate,
    r2,
    root_mean_squared_error,
)
from fairmend.evaluate.ranking import rank_class
from fairmend.network import DEFAULT_THRESHOLD, Network, predicted_classes
from fairmend.network.scores import scores_of


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
    found = [rank_class(true, label, scores) for label, scores in _class_scores(logits).items()]
    rankings = [each for each in found if each is not None]
    return Utility(
        accuracy(true, predicted),
        balanced_accuracy(true, predicted),
        positive_rate(predicted) if one or logits.shape[1] == 2 else None,
        float(np.mean([each.auc for each in rankings])) if rankings else None,
        float(np.mean([each.average_precision for each in rankings])) if rankings else None,
        None if before is None else changed_rate(before, predicted),
    )


def _class_scores(logits: FloatArray) -> dict[int, FloatArray]:
    """Return for each class a score (rows,) that grows with its probability; with two classes, only for class 1."""
    if logits.ndim == 1:
        return {1: logits}
    if logits.shape[1] == 2:
        return {1: in_chunks(logits, lambda part: part[:, 1].astype(np.float64) - part[:, 0], np.float64)}
    shares = empty_array(logits.shape[::-1], np.float64)
    for part in chunks(len(logits)):
        shares[:, part] = scores_of(logits[part], "probability").T
    return dict(enumerate(shares))
