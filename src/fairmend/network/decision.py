"""The decision: which logits give the positive prediction, for a threshold of the probability.

With one logit f, the probability of class 1 is sigmoid(f); with two logits it is the second of their softmax, which is
sigmoid(f1 - f0). It is at least t if the logit, or the difference, is at least log(t / (1 - t)): the *log-odds* of t.
Unless t is 1/2, the log-odds of a number are irrational, so no logit is exactly there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError

DEFAULT_THRESHOLD = 0.5
"""The threshold at which a prediction is the more probable class."""

_CLOSING_UNITS = 16  # a closing sigmoid or softmax is accurate to so many units of rounding


def as_threshold(value: object, where: str = "the threshold") -> float:
    """Return a threshold as a float; raise an error if it is not a probability between 0 and 1."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise FairmendError(f"{where} must be a probability above 0 and below 1, got {value!r}")


def require_threshold(threshold: float, outputs: int) -> None:
    """Raise an error if a network with so many outputs cannot decide at a threshold."""
    if threshold != DEFAULT_THRESHOLD and outputs > 2:
        raise FairmendError(
            f"a threshold of {threshold:g} needs two classes, but the network has {outputs} outputs. "
            "Remove the threshold: of several classes, the most probable one is predicted."
        )


def log_odds(threshold: float) -> float:
    """Return log(t / (1 - t)), the logit from which the prediction is positive, as the nearest float64."""
    return 0.0 if threshold == DEFAULT_THRESHOLD else _nearest(Fraction(threshold))


@lru_cache(maxsize=64)
def enclose_log_odds(threshold: float) -> tuple[float, float]:
    """Return the adjacent float64 numbers around the log-odds of a threshold, or 0 twice for 1/2.

    A float64 number is at least the log-odds if and only if it is at least the second one.
    """
    return (0.0, 0.0) if threshold == DEFAULT_THRESHOLD else _enclose(Fraction(threshold))


@lru_cache(maxsize=64)
def closing_gaps(threshold: float, dtype: npt.DTypeLike) -> tuple[float, float]:
    """Return how far a logit must be below and above the log-odds for a computed probability to be on the same side.

    A closing sigmoid is accurate to 16 u, a softmax relative to each probability, and the threshold may be rounded to
    the network's dtype before the comparison; docs/certificate.md has the argument. A gap is infinite if no probability
    is surely on that side.
    """
    unit = Fraction(float(np.finfo(dtype).eps)) / 2
    exact, rounded = Fraction(threshold), Fraction(float(np.array(threshold).astype(dtype)))
    error = _CLOSING_UNITS * unit + Fraction(float(np.finfo(dtype).tiny))
    below, above = min(exact, rounded) - error, max(exact, rounded) + error
    low, high = enclose_log_odds(threshold)
    down = math.nextafter(high - _enclose(below)[0], math.inf) if below > 0 else math.inf
    up = math.nextafter(_enclose(above)[1] - low, math.inf) if above < 1 else math.inf
    return down, up


def predicted_classes(logits: FloatArray | npt.NDArray[np.object_], threshold: float = DEFAULT_THRESHOLD) -> Ints:
    """Return the predicted classes, int64 (rows,) for logits (rows,), and (...) for logits (..., outputs).

    This is the one decision rule. At the threshold 1/2: of one logit, class 1 if it is at least 0; of N logits, the
    class of the largest, and among equal ones the lowest. At another threshold: class 1 if the logit, or the second of
    two logits minus the first, is at least the log-odds of the threshold.
    """
    several = logits.ndim > 1 and logits.shape[-1] > 1
    if threshold == DEFAULT_THRESHOLD:
        if several:
            return np.asarray(logits.argmax(axis=-1), dtype=np.int64)
        return np.asarray((logits if logits.ndim == 1 else logits[..., 0]) >= 0, dtype=np.int64)
    if several:
        require_threshold(threshold, logits.shape[-1])
        logits = logits[..., 1].astype(np.float64) - logits[..., 0]
    elif logits.ndim > 1:
        logits = logits[..., 0]
    return np.asarray(logits >= _least_positive(threshold, logits.dtype), dtype=np.int64)


def centre_logits(logits: FloatArray, threshold: float) -> FloatArray:
    """Return logits (rows,) or (..., outputs) with the log-odds of the threshold taken from the last output.

    At the threshold 1/2, the result gives the prediction: class 1 from 0 on, or the largest of two.
    """
    if threshold == DEFAULT_THRESHOLD:
        return logits
    centred: FloatArray = logits.astype(np.float64)
    if logits.ndim == 1:
        return centred - log_odds(threshold)
    centred[..., -1] -= log_odds(threshold)
    return centred


class Decides:
    """What follows from the logits of a model and its threshold: predictions, and probabilities."""

    threshold: float

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs)."""
        raise NotImplementedError

    def probabilities_of(self, logits: FloatArray) -> FloatArray:
        """Return the probability of class 1 (rows,), or of every class (rows, N), of logits."""
        raise NotImplementedError

    @property
    def offset(self) -> float:
        """The log-odds of the threshold: the logit, or the second minus the first, from which class 1 is predicted."""
        return log_odds(self.threshold)

    def predict(self, X: npt.ArrayLike) -> Ints:
        """Return the predicted class of each row, int64 (rows,), by the rule of `predicted_classes`."""
        return self.decide(self.logits(X))

    def decide(self, logits: FloatArray) -> Ints:
        """Return the predicted classes of logits (rows,) or (..., outputs), by the rule of `predicted_classes`."""
        return predicted_classes(logits, self.threshold)

    def centre(self, logits: FloatArray) -> FloatArray:
        """Return logits (rows,) or (..., outputs) with the offset taken from the last output.

        At the threshold 1/2, the result gives the prediction: class 1 from 0 on, or the largest of two.
        """
        return centre_logits(logits, self.threshold)

    def probabilities(self, X: npt.ArrayLike) -> FloatArray:
        """Return the probability of class 1 (rows,) or of every class (rows, N), whatever closes the model."""
        return self.probabilities_of(self.logits(X))


def lower_margins(leads: Floats, classes: Ints, threshold: float) -> Floats:
    """Return lower bounds of margins: how far classes, 0 or 1, are from changing, from lower bounds of their leads.

    The lead of class 1 is the logit, or the second of two minus the first; that of class 0 is its negative.
    """
    if threshold == DEFAULT_THRESHOLD:
        return leads
    low, high = enclose_log_odds(threshold)
    return np.asarray(np.nextafter(leads - np.where(classes == 1, high, -low), -np.inf))


def upper_margins(leads: Floats, classes: Ints, threshold: float) -> Floats:
    """Return upper bounds of margins, from upper bounds of leads; see `lower_margins`."""
    if threshold == DEFAULT_THRESHOLD:
        return leads
    low, high = enclose_log_odds(threshold)
    return np.asarray(np.nextafter(leads - np.where(classes == 1, low, -high), np.inf))


def reaches(lead: Fraction, threshold: float) -> bool:
    """Return whether an exact lead of class 1 is at least the log-odds of a threshold other than 1/2."""
    return _reaches(lead, Fraction(threshold))


def _least_positive(threshold: float, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the lowest number of a dtype that is at least the log-odds of a threshold."""
    least = enclose_log_odds(threshold)[1]
    number = np.array(least).astype(dtype)
    return number if float(number) >= least else np.nextafter(number, np.array(np.inf, dtype=dtype))


def _enclose(p: Fraction) -> tuple[float, float]:
    """Return the adjacent float64 numbers around the log-odds of p, which is not 1/2."""
    nearest = _nearest(p)
    if _reaches(Fraction(nearest), p):
        return math.nextafter(nearest, -math.inf), nearest
    return nearest, math.nextafter(nearest, math.inf)


def _nearest(p: Fraction) -> float:
    return float(next(_approximations(p))[0])


def _reaches(lead: Fraction, p: Fraction) -> bool:
    """Return whether a number is at least the log-odds of p, which is irrational: so some precision tells."""
    for value, error in _approximations(p):
        distance = lead - Fraction(value)
        if abs(distance) > error:
            return distance > 0
    raise AssertionError("unreachable")


def _approximations(p: Fraction) -> Iterator[tuple[Decimal, Fraction]]:
    """Yield log(p / (1 - p)) with more and more digits, and a bound of its error.

    Division and `Decimal.ln` are correctly rounded. So the odds are off by a relative 10^(1 - digits) at most, and
    their logarithm, below 1000 in size, by as much and by its own rounding.
    """
    odds, digits = p / (1 - p), 60
    while True:
        context = Context(prec=digits)
        quotient = context.divide(Decimal(odds.numerator), Decimal(odds.denominator))
        yield context.ln(quotient), Fraction(1, 10 ** (digits - 5))
        digits *= 2
