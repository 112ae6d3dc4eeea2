"""Repairs of networks that predict a number: their labels, and what counts as kept."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.network import Network


def as_columns(values: np.ndarray) -> Floats:
    """Return one column for each output, float64 ``(rows, outputs)``."""
    return values.reshape(len(values), -1).astype(np.float64)


def check_targets(y: np.ndarray, rows: int, network: Network) -> Floats:
    """Return the numbers to predict, float64 ``(rows,)``, or ``(rows, outputs)`` for several outputs."""
    shapes = [(rows, network.outputs)] + ([(rows,)] if network.outputs == 1 else [])
    if y.shape not in shapes:
        raise FairmendError(f"y_cal has shape {y.shape}; it must be {shapes[-1]}, one number for each row of X_cal")
    try:
        targets = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise FairmendError(f"y_cal holds values that are no numbers: {error}") from error
    if not np.isfinite(targets).all():
        row = int(np.argmin(np.isfinite(targets).reshape(rows, -1).all(axis=1)))
        raise FairmendError(f"y_cal, row {row}: {targets[row]} is not a finite number")
    return targets[:, 0] if targets.ndim == 2 and network.outputs == 1 else targets


def r_squared(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of the variance of y that is predicted, the mean over the outputs: 0 for the mean of y.

    It is 0 if y is constant, because there is nothing to predict.
    """
    return float(fit_shares(y, predicted).mean())


def fit_shares(y: np.ndarray, predicted: np.ndarray) -> Floats:
    """Return for each row what it adds to R², ``(rows,)``: their mean is `r_squared`."""
    true = as_columns(y)
    left, all_of_it = np.square(true - as_columns(predicted)), true.var(axis=0)
    return np.asarray(np.where(all_of_it > 0, 1 - left / np.where(all_of_it > 0, all_of_it, 1.0), 0.0).mean(axis=1))


def agreement(before: np.ndarray, after: np.ndarray) -> float:
    """Return how well the new outputs keep the old ones: the share of the variance of the old ones, at least 0."""
    return max(0.0, r_squared(before, after))
