"""What any program may compute that runs a model at given rows, in the model's own precision.

The exact outputs, the largest error of inference on both sides, and what a closing sigmoid or softmax makes of them. A
program whose numbers are outside does not run the model that was checked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.claim import HALF, Score, Threshold, closing_units
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import SECOND, Model
from fairmend_check.kernel.rescaling import Rescaling
from fairmend_check.kernel.rounding import Array, Precision, down, up

_LOG_UNITS = 64  # a log_softmax to so many units of the largest number on its way
_ROOM = 2**22  # numbers for all pairs of outputs, in the rows that are enclosed at once


def enclose_outputs(model: Model, rows: Array) -> tuple[Array, Array]:
    """Return lower and upper bounds of the outputs before a closing function, (rows, outputs).

    They are infinite where inference may overflow.
    """
    found = []
    step = max(1, _ROOM // max(model.held, model.outputs**2))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        with np.errstate(all="ignore"):
            layers = interval_layers(model, part, part)
            each = np.broadcast_to(np.eye(model.outputs), (len(part), model.outputs, model.outputs))
            error = output_errors(model, part, part, layers, each)
            found.append((down(layers[-1][0] - error), up(layers[-1][1] + error)))
    low, high = (np.concatenate(ends) for ends in zip(*found, strict=True))
    return low, high


def close_outputs(
    low: Array, high: Array, closing: str, dtype: str, columns: int, rescaling: Rescaling | None = None
) -> tuple[Array, Array] | None:
    """Return bounds of what a program computes with a closing function, from those of the outputs before it.

    A program with this number of ``columns`` may give the probabilities of both classes of a single output. None if it
    cannot have that number. A probability of one output is then rescaled, if the file does so.
    """
    kind = Precision.of(dtype)
    name = closing.removeprefix(SECOND)
    slack = np.full((1, 1), closing_units(low.shape[1]) * kind.u + kind.tiny)
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            low, high = function_of(Activation("sigmoid")).value_range(low, high)
        elif name == "log_softmax":
            slack = _LOG_UNITS * kind.u * (1 + 4 * np.maximum(np.abs(low), np.abs(high)).max(axis=1, keepdims=True))
            low, high = -_log_of_sums(high, low), -_log_of_sums(low, high)
        elif name == "softmax":
            low, high = _softmax(low, high)
        if name:
            low, high = down(low - slack), up(high + slack)
    if closing.startswith(SECOND):
        low, high = low[:, 1:2], high[:, 1:2]
    if closing == "sigmoid" and rescaling is not None:
        low, high = rescaling.scores(low, high)
        if rescaling.both:
            low, high = np.concatenate([1 - high, low], axis=1), np.concatenate([1 - low, high], axis=1)
            low, high = low - 2 * rescaling.error, high + 2 * rescaling.error
    elif closing == "sigmoid" and columns == 2:
        low, high = np.concatenate([1 - high - slack, low], axis=1), np.concatenate([1 - low + slack, high], axis=1)
    return (low, high) if low.shape[1] == columns else None


def certain_classes(model: Model, low: Array, high: Array, threshold: float = HALF) -> NDArray[np.int64]:
    """Return the class that every program gives each row, from bounds of its outputs; -1 where rounding may decide.

    Programs decide by outputs, or by probabilities with a ``threshold`` for one of two.
    """
    limit = Threshold.of(threshold, model.dtype, model.slack)
    if model.outputs > 2 or (model.outputs == 2 and threshold == HALF):
        classes = low.argmax(axis=1)
        others = np.where(np.arange(model.outputs) == classes[:, None], -np.inf, high).max(axis=1)
        return np.where(low.max(axis=1) > others + limit.above, classes, -1)
    if model.outputs == 2:
        low, high = low[:, 1:] - high[:, :1], high[:, 1:] - low[:, :1]
    above, below = low[:, 0] > limit.high + limit.above, high[:, 0] < limit.low - limit.below
    return np.where(above, 1, np.where(below, 0, -1))


def _softmax(low: Array, high: Array) -> tuple[Array, Array]:
    score, step = Score("softmax", low.shape[1]), max(1, _ROOM // low.shape[1] ** 2)
    parts = [score.from_outputs(low[at : at + step], high[at : at + step]) for at in range(0, len(low), step)]
    least, most = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    return least, most


def _log_of_sums(others: Array, own: Array) -> Array:
    """Return the logarithms of the sums of exp(z_j - z_k) over all j, for each k, and 1 for j = k; (rows, outputs)."""
    found = np.empty_like(own)
    for output in range(own.shape[1]):
        exponents = others - own[:, output : output + 1]
        exponents[:, output] = 0.0
        most = exponents.max(axis=1)
        found[:, output] = most + np.log(np.exp(exponents - most[:, None]).sum(axis=1))
    return found
