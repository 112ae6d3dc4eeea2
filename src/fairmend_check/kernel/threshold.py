"""The threshold of a prediction: how far a margin is from changing it, in exact arithmetic and in inference.

The prediction is class 1 if the probability, the sigmoid of one output or the softmax of two, is at least t. In exact
arithmetic this means that the *lead* of class 1, the output or the second minus the first, is at least log(t/(1 - t)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from fairmend_check.kernel.rounding import Array, down

HALF = 0.5
CLOSING_UNITS = 16  # a sigmoid or softmax is accurate to so many units of 1
_DIGITS, _SLIP = Context(prec=60), 1e-50


@dataclass(frozen=True)
class Threshold:
    """A threshold of a model that computes in a floating-point format.

    ``low`` and ``high`` enclose log(t / (1 - t)). ``below`` and ``above`` are how far from it a computed lead of class
    1 must be for a computed probability to be on the same side of t, also of t rounded to the format.
    """

    low: float
    high: float
    below: float
    above: float

    @staticmethod
    def of(threshold: float, dtype: str) -> Threshold:
        """Return the threshold t, 0 < t < 1, for "float32" or "float64"."""
        kind = np.finfo(dtype)
        unit = float(kind.eps) / 2
        if threshold == HALF:
            return Threshold(0.0, 0.0, 4 * CLOSING_UNITS * unit, 4 * CLOSING_UNITS * unit)
        exact, rounded = Fraction(threshold), Fraction(float(np.dtype(dtype).type(threshold)))
        error = CLOSING_UNITS * Fraction(unit) + Fraction(float(kind.tiny))
        low, high = enclose_log_odds(exact)
        least, most = min(exact, rounded) - error, max(exact, rounded) + error
        below = math.nextafter(high - enclose_log_odds(least)[0], math.inf) if least > 0 else math.inf
        above = math.nextafter(enclose_log_odds(most)[1] - low, math.inf) if most < 1 else math.inf
        return Threshold(low, high, below, above)

    def margins(self, leads: Array, classes: np.ndarray) -> Array:
        """Return lower bounds of the margins of classes 0 and 1, from lower bounds of their leads over each other."""
        if self.low == self.high:
            return leads
        return down(leads - np.where(classes == 1, self.high, -self.low))

    def closing(self, classes: np.ndarray) -> Array:
        """Return what a closing sigmoid or softmax may take from the margins of these classes."""
        return np.where(classes == 1, self.above, self.below)


def enclose_log_odds(p: Fraction) -> tuple[float, float]:
    """Return numbers below and above log(p / (1 - p)).

    Division and `ln` of decimal numbers are correctly rounded, here to 60 digits. The odds are off by less than a
    relative 1e-59, so the result, which is below 1000 in size, is off by less than _SLIP before it becomes a float.
    """
    odds = p / (1 - p)
    nearest = float(_DIGITS.ln(_DIGITS.divide(Decimal(odds.numerator), Decimal(odds.denominator))))
    return math.nextafter(nearest - _SLIP, -math.inf), math.nextafter(nearest + _SLIP, math.inf)
