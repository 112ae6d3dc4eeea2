"""Metrics of predictions: accuracy, balanced accuracy, positive rate and changed predictions; errors of numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import chunks, sum_in_chunks
from fairmend.base.errors import FairmendError

Classes = npt.NDArray[np.integer]
_Numbers = npt.NDArray[Any]


def accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the share of rows that are predicted correctly."""
    true, guess = pair_of_classes(y, predicted)
    return sum(int(np.count_nonzero(true[part] == guess[part])) for part in chunks(len(true))) / len(true)


def balanced_accuracy(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the mean over the classes in y of the share predicted correctly; 1/classes for a constant prediction."""
    true, guess = pair_of_classes(y, predicted)
    rows, correct = Counter[int](), Counter[int]()
    for part in chunks(len(true)):
        for label in np.unique(true[part]).tolist():
            mine = true[part] == label
            rows[label] += int(np.count_nonzero(mine))
            correct[label] += int(np.count_nonzero(mine & (guess[part] == label)))
    return float(np.mean([correct[label] / rows[label] for label in sorted(rows)]))


def positive_rate(predicted: npt.ArrayLike) -> float:
    """Return the share of rows that are predicted to be class 1."""
    guess = _classes(predicted, "predicted")
    return sum(int(np.count_nonzero(guess[part] == 1)) for part in chunks(len(guess))) / len(guess)


def changed_rate(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Return the share of rows whose prediction differs between two networks."""
    return 1.0 - accuracy(before, after)


def r2(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float | None:
    """Return the share of the variance of y that the predictions explain; None if y is constant."""
    true, guess = _numbers(y, predicted)
    mean = sum_in_chunks(len(true), lambda part: true[part].astype(np.float64)) / len(true)
    spread = sum_in_chunks(len(true), lambda part: (true[part].astype(np.float64) - mean) ** 2)
    return None if spread == 0 else 1 - _sum_squares(true, guess) / spread


def mean_absolute_error(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the mean of the absolute errors."""
    true, guess = _numbers(y, predicted)
    return sum_in_chunks(len(true), lambda part: np.abs(_errors(true, guess, part))) / len(true)


def root_mean_squared_error(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the square root of the mean of the squared errors."""
    true, guess = _numbers(y, predicted)
    return float(np.sqrt(_sum_squares(true, guess) / len(true)))


def _sum_squares(true: _Numbers, guess: _Numbers) -> float:
    return sum_in_chunks(len(true), lambda part: _errors(true, guess, part) ** 2)


def _errors(true: _Numbers, guess: _Numbers, part: slice) -> npt.NDArray[np.float64]:
    """Return the predictions minus the true numbers of some rows, float64."""
    return guess[part].astype(np.float64) - true[part].astype(np.float64)


def _numbers(y: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[_Numbers, _Numbers]:
    """Return both as arrays of numbers (rows,); raise an error if their shapes differ, or there are none."""
    true, guess = np.asarray(y), np.asarray(predicted)
    if true.ndim != 1 or true.shape != guess.shape or len(true) == 0:
        raise FairmendError(
            f"y has the shape {true.shape}, and predicted {guess.shape}; pass one of each per row, for at least one row"
        )
    return true, guess


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
    return classes if classes.dtype.kind in "iu" else classes.astype(np.int64)
