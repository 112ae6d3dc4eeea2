"""Metrics of predictions: accuracy, balanced accuracy, positive rate and changed predictions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError

__all__ = ["Classes", "accuracy", "balanced_accuracy", "changed_rate", "pair_of_classes", "positive_rate"]

Classes = npt.NDArray[np.integer]


def accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the share of rows that are predicted correctly."""
    true, guess = pair_of_classes(y, predicted)
    return float((true == guess).mean())


def balanced_accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the mean over the classes in y of the share predicted correctly; 1/classes for a constant prediction."""
    true, guess = pair_of_classes(y, predicted)
    return float(np.mean([(guess[true == label] == label).mean() for label in np.unique(true)]))


def positive_rate(predicted: npt.ArrayLike) -> float:
    """Return the share of rows that are predicted to be class 1."""
    guess = _classes(predicted, "predicted")
    return float((guess == 1).mean())


def changed_rate(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Return the share of rows whose prediction differs between two networks."""
    return 1.0 - accuracy(before, after)


def pair_of_classes(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[Classes, Classes]:
    """Return both as class numbers (rows,); raise an error if they are none, or differ in length."""
    pair = _classes(first, "y"), _classes(second, "predicted")
    if pair[0].shape != pair[1].shape:
        raise FairmendError(
            f"there are {len(pair[0])} true and {len(pair[1])} predicted classes; pass one of each per row"
        )
    return pair


def _classes(values: npt.ArrayLike, name: str) -> Classes:
    """Return class numbers (rows,), at least one."""
    classes = np.asarray(values)
    if classes.ndim != 1 or len(classes) == 0:
        raise FairmendError(f"{name} has shape {classes.shape}; pass one class per row, and at least one row")
    whole = classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and (classes == np.rint(classes)).all())
    if not whole:
        raise FairmendError(f"{name} holds {classes.dtype.name}, not class numbers; use 0, 1, …")
    return classes.astype(np.int64)
