"""Figures of predictions against classes: accuracy and its like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError

Classes = npt.NDArray[np.integer]


def accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the share of rows that are predicted right."""
    true, guess = pair_of_classes(y, predicted)
    return float((true == guess).mean())


def balanced_accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the mean over the classes in y of the share predicted right; 1/classes for a constant answer."""
    true, guess = pair_of_classes(y, predicted)
    return float(np.mean([(guess[true == label] == label).mean() for label in np.unique(true)]))


def positive_rate(predicted: npt.ArrayLike) -> float:
    """Return the share of rows predicted to be of class 1."""
    guess = _classes(predicted, "predicted")
    return float((guess == 1).mean())


def changed_rate(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Return the share of rows that two networks, given their predictions, answer differently."""
    return 1.0 - accuracy(before, after)


def pair_of_classes(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[Classes, Classes]:
    """Return both as class numbers (rows,), or say what is wrong with them."""
    pair = _classes(first, "y"), _classes(second, "predicted")
    if pair[0].shape != pair[1].shape:
        raise FairmendError(
            f"there are {len(pair[0])} true and {len(pair[1])} predicted classes; give one of each per row"
        )
    return pair


def _classes(values: npt.ArrayLike, name: str) -> Classes:
    """Class numbers (rows,), at least one."""
    classes = np.asarray(values)
    if classes.ndim != 1 or len(classes) == 0:
        raise FairmendError(f"{name} has shape {classes.shape}; give one class per row, and at least one row")
    whole = classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and (classes == np.rint(classes)).all())
    if not whole:
        raise FairmendError(f"{name} holds {classes.dtype.name}, not class numbers; use 0, 1, …")
    return classes.astype(np.int64)
