"""How well a network does its work: accuracy and other figures of classes, rankings by score, and errors of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.auditing.result import NORMAL_QUANTILE
from fairmend.base.arrays import FloatArray, Ints, chunks, empty_array, in_chunks
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import (
    Classes,
    accuracy,
    balanced_accuracy,
    mean_absolute_error,
    pair_of_classes,
    positive_rate,
    r2,
    root_mean_squared_error,
)
from fairmend.evaluate.document import UtilityFigures
from fairmend.network import DEFAULT_THRESHOLD, Model, predicted_classes
from fairmend.network.model import scores_of

# How well scores rank people: the area under the ROC curve, and average precision, from one sort of the scores.
#
# The numbers are those of scikit-learn's `roc_auc_score` and `average_precision_score`, up to the last bit. For
# 5 million rows those take 5.4 s and 338 MB, and this takes 0.3 s and 25 MB.


@dataclass(frozen=True)
class Ranking:
    """How well scores rank the rows of a class before the others, with the meaning it has in scikit-learn.

    Attributes
    ----------
    auc : the share of pairs of a row of the class and another row that are ranked correctly; ties count half
    average_precision : the mean over the rows of the class of the precision at their scores
    """

    auc: float
    average_precision: float


def rank_class(true: Classes, label: int, scores: FloatArray) -> Ranking | None:
    """Return how scores (rows,) rank the rows of one of the classes (rows,); None if all or none are of that class."""
    chosen, others = _split(true, label, scores)
    if not len(chosen) or not len(others):
        return None
    chosen.sort()
    others.sort()
    correct, precision = 0, 0.0
    for part in chunks(len(chosen)):
        values = chosen[part]
        below = np.searchsorted(others, values)
        correct += 2 * int(below.sum()) + _count_ties(others, values, below)
        hits, misses = len(chosen) - _first_equal(chosen, part), len(others) - below
        precision += float((hits / (hits + misses)).sum())
    pairs = len(chosen) * len(others)
    return Ranking(correct / (2 * pairs), precision / len(chosen))


def _count(true: Classes, label: int) -> int:
    return sum(int(np.count_nonzero(true[part] == label)) for part in chunks(len(true)))


def _split(true: Classes, label: int, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores of the rows of the class, and those of the others."""
    count = _count(true, label)
    chosen, others = empty_array((count,), scores.dtype), empty_array((len(true) - count,), scores.dtype)
    end = 0
    for part in chunks(len(true)):
        mine, values = true[part] == label, scores[part]
        start, end = end, end + int(np.count_nonzero(mine))
        chosen[start:end] = values[mine]
        others[part.start - start : part.stop - end] = values[~mine]
    return chosen, others


def _count_ties(others: FloatArray, values: FloatArray, below: Ints) -> int:
    """Return how many pairs of sorted values and others are equal; `below` is how many others are below each value."""
    tied = np.flatnonzero(others[np.minimum(below, len(others) - 1)] == values)
    return int((np.searchsorted(others, values[tied], side="right") - below[tied]).sum())


def _first_equal(chosen: FloatArray, part: slice) -> Ints:
    """Return the place of the first score that equals each one in a part of sorted scores."""
    values = chosen[part]
    starts = np.flatnonzero(values[1:] != values[:-1]) + 1
    places = np.concatenate([np.searchsorted(chosen, values[:1]), part.start + starts])
    return np.repeat(places, np.diff(starts, prepend=0, append=len(values)))


def utility(net: Model, X: npt.ArrayLike, y: npt.ArrayLike) -> UtilityFigures:
    """Return how well a network predicts the true classes, or numbers, y (rows,) of X (rows, inputs)."""
    return utility_of(net.logits(X), y, threshold=net.threshold)


def utility_of(logits: FloatArray, y: npt.ArrayLike, *, threshold: float = DEFAULT_THRESHOLD) -> UtilityFigures:
    """Return how well logits (rows,) or (rows, N) predict classes y (rows,).

    With more than two classes, the AUC and the average precision are the mean over the classes, each against the rest.
    """
    one = logits.ndim == 1
    predicted = in_chunks(logits, lambda part: predicted_classes(part, threshold), np.int16)
    true, _ = pair_of_classes(y, predicted)
    found = [rank_class(true, label, scores) for label, scores in _class_scores(logits).items()]
    rankings = [each for each in found if each is not None]
    return UtilityFigures(
        accuracy(true, predicted),
        balanced_accuracy(true, predicted),
        positive_rate(predicted) if one or logits.shape[1] == 2 else None,
        float(np.mean([each.auc for each in rankings])) if rankings else None,
        float(np.mean([each.average_precision for each in rankings])) if rankings else None,
    )


def regression_utility(outputs: FloatArray, y: npt.ArrayLike) -> UtilityFigures:
    """Return the errors of outputs (rows,) for targets y (rows,)."""
    if outputs.ndim != 1:
        raise FairmendError(f"the label is one number, but the network has {outputs.shape[1]} outputs. Use one output.")
    return UtilityFigures(
        r2=r2(y, outputs),
        mean_absolute_error=mean_absolute_error(y, outputs),
        root_mean_squared_error=root_mean_squared_error(y, outputs),
    )


def auc_by_chance(y: npt.ArrayLike, outputs: int) -> float | None:
    """Return the upper end of the 95 % interval of the AUC of scores that have nothing to do with the classes y.

    The standard deviation of such an AUC is that of Mann and Whitney (1947); ties only make it smaller. The mean over
    the classes of a network with more than two `outputs` deviates at most by the mean of their deviations. None if all
    rows are of one class.
    """
    true = np.asarray(y)
    sizes = [_count(true, label) for label in (range(outputs) if outputs > 2 else (1,))]
    pairs = [size * (len(true) - size) for size in sizes if 0 < size < len(true)]
    noise = [math.sqrt((len(true) + 1) / (12 * each)) for each in pairs]
    return 0.5 + NORMAL_QUANTILE * float(np.mean(noise)) if noise else None


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
