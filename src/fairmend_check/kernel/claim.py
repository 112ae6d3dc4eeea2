"""What is claimed of similar people: that they get one class at a threshold, or scores that are close to each other.

The prediction is class 1 if the probability, the sigmoid of one output or the softmax of two, is at least t. In exact
arithmetic the *lead* of class 1, the output or the second minus the first, is then at least log(t / (1 - t)). A claim
about scores is about the outputs, or their sigmoid or softmax, of any two similar people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import take
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.rounding import GENEROUS, LIBRARY, TINY, Array, Precision, down, gamma, up

HALF = 0.5  # the threshold of a spec that names none

CLOSING_UNITS = 16  # a sigmoid, or a softmax of two outputs, is accurate to so many u
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
    def of(threshold: float, dtype: str, slack: float = 0.0) -> Threshold:
        """Return the threshold t, 0 < t < 1, for "float32" or "float64".

        ``slack`` is the error of a score that is computed from the probability, in units of the probability. The
        log-odds are then those of all probabilities so close to t.

        The gap of t = 1/2 is more than 64 u, so that the largest of several outputs has the largest probability, too:
        each is off by 16 u + 2 u d relative to itself, where d is how far its output is below the largest one,
        and by what is the same for all of them.
        """
        kind = np.finfo(dtype)
        unit = float(kind.eps) / 2
        exact, rounded = Fraction(threshold), Fraction(float(np.dtype(dtype).type(threshold)))
        error = CLOSING_UNITS * Fraction(unit) + Fraction(float(kind.tiny)) + Fraction(slack)
        low, high = enclose_log_odds(exact) if threshold != HALF else (0.0, 0.0)
        near, far = high, low  # which gaps are measured from
        if slack:  # which also bounds how far the probability of a rescaled threshold is from this number
            low = enclose_log_odds(exact - Fraction(slack))[0] if exact > slack else -math.inf
            high = enclose_log_odds(exact + Fraction(slack))[1] if exact + Fraction(slack) < 1 else math.inf
            near, far = low, high  # the ends that `margins` subtracts
        least, most = min(exact, rounded) - error, max(exact, rounded) + error
        below = math.nextafter(near - enclose_log_odds(least)[0], math.inf) if least > 0 else math.inf
        above = math.nextafter(enclose_log_odds(most)[1] - far, math.inf) if most < 1 else math.inf
        return Threshold(low, high, below, above)

    def margins(self, leads: Array, classes: np.ndarray) -> Array:
        """Return lower bounds of the margins of classes 0 and 1, from lower bounds of their leads over each other."""
        if self.low == self.high:
            return leads
        return down(leads - np.where(classes == 1, self.high, -self.low))

    def closing(self, classes: np.ndarray) -> Array:
        """Return what a closing sigmoid or softmax may take from the margins of these classes."""
        return np.where(classes == 1, self.above, self.below)


def closing_units(outputs: int) -> int:
    """Return to how many units of 1 a softmax of so many outputs, or the sigmoid of one, is accurate.

    Of more than two, programs add up the powers in any order, and each addition may be off by a unit of the sum.
    """
    return CLOSING_UNITS + (outputs if outputs > 2 else 0)


def enclose_log_odds(p: Fraction) -> tuple[float, float]:
    """Return numbers below and above log(p / (1 - p)).

    Division and `ln` of decimal numbers are correctly rounded, here to 60 digits. The odds are off by less than a
    relative 1e-59, so the result, which is below 1000 in size, is off by less than _SLIP before it becomes a float.
    """
    odds = p / (1 - p)
    nearest = float(_DIGITS.ln(_DIGITS.divide(Decimal(odds.numerator), Decimal(odds.denominator))))
    return math.nextafter(nearest - _SLIP, -math.inf), math.nextafter(nearest + _SLIP, math.inf)


MAX_PROBABILITIES = 100  # of one model: the bounds of a softmax need memory for the cube of their number

_SIGMOID = function_of(Activation("sigmoid"))


@dataclass(frozen=True)
class Score:
    """A score of a model with this number of outputs: each raw output, its sigmoid, or each softmax of several."""

    name: str  # "output", "sigmoid" or "softmax"
    outputs: int
    slack: float = 0.0  # the error of a score that is computed from the probability, in units of the probability

    @property
    def forms(self) -> Array:
        """The linear forms of the outputs (forms, outputs) whose lower bounds `from_forms` needs.

        For a softmax these are all z_j - z_k, else z_k and -z_k.
        """
        each = np.eye(self.outputs)
        if self.name == "softmax":
            return np.asarray((each[:, None] - each[None]).reshape(-1, self.outputs))
        return np.concatenate([each, -each])

    def from_forms(self, least: Array) -> tuple[Array, Array]:
        """Return bounds of the scores over boxes (boxes, outputs), from lower bounds of the forms (boxes, forms)."""
        if self.name == "softmax":
            return _softmax(least.reshape(-1, self.outputs, self.outputs))
        return least[:, : self.outputs], -least[:, self.outputs :]

    def from_outputs(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Do the same from bounds of the outputs (boxes, outputs)."""
        if self.name != "softmax":
            return low, high
        return _softmax(down(low[:, :, None] - high[:, None, :]))

    def in_inference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> tuple[Array, Array]:
        """Return bounds of the scores that a program computes (boxes, outputs), from those that `from_forms` gives.

        ``error`` is that of each raw output in inference, where a probability is rounded as well; ``kind``
        is None for exact arithmetic. A softmax of outputs that are off by e is off by at most e / 2: the sizes of its
        derivatives, p (1 - p) and p q for each of the other probabilities q, add up to 2 p (1 - p).
        """
        with np.errstate(all="ignore"):
            if kind is not None and self.name != "softmax":
                low, high = down(low - error), up(high + error)
            if self.name == "sigmoid":
                low, high = _SIGMOID.value_range(low, high)
            if kind is None or self.name == "output":
                return low, high
            rounding = np.full((1, 1), closing_units(self.outputs) * kind.u + kind.tiny + self.slack)
            if self.name == "softmax":
                rounding = rounding + 0.5 * error.max(axis=1, keepdims=True)
            return down(low - GENEROUS * rounding), up(high + GENEROUS * rounding)

    def difference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> Array:
        """Return how far apart two scores can be (inputs,), from bounds of the scores as `in_inference` takes them."""
        low, high = self.in_inference(low, high, error, kind)
        with np.errstate(all="ignore"):
            most: Array = up(high - low).max(axis=1)
        return most


def _softmax(least: Array) -> tuple[Array, Array]:
    """Enclose each probability (boxes, outputs), from lower bounds of z_j - z_k (boxes, j, k) for j != k."""
    slip = LIBRARY + gamma(least.shape[1] + 4)
    others = ~np.eye(least.shape[1], dtype=np.bool_)
    with np.errstate(all="ignore"):
        below = np.where(others, np.exp(least), 0.0).sum(axis=1) * (1 - slip)  # of the others' sum of exp(z_j - z_k)
        # z_j - z_k is at most minus the lower bound of z_k - z_j.
        above = np.where(others, np.exp(-least), 0.0).sum(axis=2) * (1 + slip) + TINY
        return np.maximum(down(1 / up(1 + above)), 0.0), np.minimum(up(1 / down(1 + below)), 1.0)


_SCORES = {
    "output": "each raw output of this model, before a closing sigmoid, softmax or log-softmax",
    "sigmoid": "the probability, which is the sigmoid of the output of this model",
    "softmax": "each probability, by the softmax of the outputs of this model",
}


def in_full(number: float) -> str:
    """Return a number with all its digits, so that a sentence does not claim more than the data."""
    return str(int(number)) if int(number) == number else repr(number)


@dataclass(frozen=True)
class ClassClaim:
    """Similar people get the same class."""

    KEYS: ClassVar[tuple[str, ...]] = ()
    on = None

    @classmethod
    def read(cls, entry: dict[str, Any], where: str) -> ClassClaim:
        """Return the claim in a spec, which has the `KEYS` of this kind and no others."""
        return cls()

    def __str__(self) -> str:
        """Return what the claim is about, in brief."""
        return "about classes"


@dataclass(frozen=True, kw_only=True)
class ScoreClaim:
    """The scores of similar people differ by at most ``delta``; ``on`` is "probability", "logit" or "output"."""

    KEYS: ClassVar[tuple[str, ...]] = ("delta", "on")
    on: str
    delta: float

    @classmethod
    def read(cls, entry: dict[str, Any], where: str) -> ScoreClaim:
        """Return the claim in a spec."""
        delta, on = take(entry, "delta", float, where), take(entry, "on", str, where)
        if on not in ("probability", "logit", "output"):
            raise CheckError(f"{where}.on is {on[:40]!r}; it must be probability, logit or output")
        if not 0 < delta < (1 if on == "probability" else math.inf):
            raise CheckError(f"{where}.delta is {delta!r}; it must be above 0, and below 1 for probabilities")
        return cls(on=on, delta=delta)

    def subject(self, outputs: int) -> str:
        """Return what differs, in words."""
        return f"the scores ({_SCORES[self.score_name(outputs)]})"

    @property
    def amount(self) -> str:
        """By how much it may differ, in words."""
        return in_full(self.delta)

    def __str__(self) -> str:
        """Return what the claim is about, in brief."""
        return f"about scores ({self.on}, delta = {self.delta!r})"

    def score_name(self, outputs: int) -> str:
        """Return which score of a model the claim is about, as `Score` names it."""
        return "output" if self.on != "probability" else "sigmoid" if outputs == 1 else "softmax"

    def score(self, outputs: int, slack: float = 0.0) -> Score:
        """Return the score that the claim is about; refuse a softmax of too many outputs."""
        if self.on == "probability" and outputs > MAX_PROBABILITIES:
            raise CheckError(f"claims about more than {MAX_PROBABILITIES} probabilities cannot be checked")
        return Score(self.score_name(outputs), outputs, slack)


Claim = ClassClaim | ScoreClaim
CLAIMS: dict[str, type[Claim]] = {"class": ClassClaim, "score": ScoreClaim}
