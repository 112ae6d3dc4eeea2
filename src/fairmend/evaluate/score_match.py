"""Compare a spec and a network with scores that the model itself gave: the check that a wrong spec does not pass.

Accuracy can look plausible with two columns exchanged. The scores cannot: to reproduce all of them to rounding, every
column must be where the model reads it, encoded as in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.text import count
from fairmend.evaluate.given_outputs import read_score_column
from fairmend.network import Network
from fairmend.network.scores import scores_of
from fairmend.spec import Spec
from fairmend.spec.read_values import RowNumber

_NEAR = 1e-5  # frameworks compute in float32 and in another order; measured rounding is added to it
_SAFETY = 4.0  # times the rounding that is measured on the given rows
_MOST_ROUNDING = 1e-3  # of the spread of the scores: measured rounding beyond it excuses nothing
_MOST_DIGITS = 12
_COARSEST = 0.02  # the last digit of rounded scores, as a share of their spread
_FEWEST_ROWS = 10
_SAMPLE = 1_000  # rows that a command compares before it starts

_FORMS = {
    "probability": "the probability of the positive class",
    "logit": "the logit",
    "output": "the output",
    "probabilities": "the probabilities of the classes",
    "logits": "the logits of the classes",
    "log_probability": "the logarithm of the probability of the positive class",
    "log_probabilities": "the logarithms of the probabilities of the classes",
}


def describe_form(form: str) -> str:
    """Return what the scores turned out to be, in words."""
    return _FORMS[form]


@dataclass(frozen=True, eq=False)
class ScoreMatch:
    """How the scores of the network compare with those that the model gave.

    Attributes
    ----------
    rows : how many rows have a given score
    form : what the given scores are, of the forms that fit best: "probability", "logit", "output", "probabilities",
        "logits", and "log_probability" or "log_probabilities", which a closing LogSoftmax gives
    largest : the largest difference
    tolerance : the largest difference that rounding explains
    differing : the numbers of the rows that differ by more, the worst first
    ours, given : the two scores of these rows
    opposite : whether they are the probabilities of the other class instead
    """

    rows: int
    form: str
    largest: float
    tolerance: float
    differing: npt.NDArray[np.int64]
    ours: Floats
    given: Floats
    opposite: bool = False

    @property
    def verified(self) -> bool:
        """Whether the network reproduces every score to rounding."""
        return self.largest <= self.tolerance

    def __str__(self) -> str:
        """Return the result as one sentence without the final stop."""
        if self.verified:
            return (
                f"verified: {count(self.rows)} rows, largest difference {self.largest:.1g} ({describe_form(self.form)})"
            )
        if self.opposite:
            return (
                "not verified: the scores are the probabilities of the other class. Give those of the class that the "
                "network calls 1, and check `positive`"
            )
        return (
            f"not verified: {count(len(self.differing))} of {count(self.rows)} rows differ from the model's own "
            f"scores, most in row {self.differing[0]}: {self.ours[0]:.4g} instead of {self.given[0]:.4g} "
            f"({describe_form(self.form)})"
        )


def require_informative(given: Floats, source: str) -> None:
    """Raise an error for scores (rows, columns) that verify nothing: too few, equal, classes, or rounded coarsely."""
    known = given[np.isfinite(given).all(axis=1)]
    if len(known) < _FEWEST_ROWS:
        raise FairmendError(
            f"{source}: has {len(known)} scores, too few to verify a spec. Give at least {_FEWEST_ROWS}."
        )
    spread = float(np.ptp(known, axis=0).max())
    if spread == 0:
        raise FairmendError(f"{source}: all scores are equal, which verifies nothing. Give the scores of other rows.")
    if _quantum(known) > _COARSEST * spread:
        raise FairmendError(
            f"{source}: the scores are classes, or rounded too much to verify a spec. Give the probabilities or the "
            "raw outputs of the model with more digits."
        )


def match_scores(net: Network, X: FloatArray, given: Floats, *, regression: bool = False) -> ScoreMatch:
    """Compare the scores of the network for X (rows, inputs) with given ones (rows, 1 or classes); NaN is skipped.

    The form of the given scores is the one that fits best.
    """
    rows = np.flatnonzero(np.isfinite(given).all(axis=1))
    X, given = X[rows], given[rows]
    exact = net.astype(np.float64).logits(X.astype(np.float64))
    rough = net.astype(np.float32).logits(X.astype(np.float32))
    ours, rounded = (_forms(outputs, given.shape[1], regression) for outputs in (exact, rough))
    found = [_compare(rows, form, ours[form], rounded[form], given) for form in ours]
    best = min(found, key=lambda match: match.largest / match.tolerance)
    if not best.verified and "probability" in ours:
        other = _compare(rows, "probability", ours["probability"], rounded["probability"], 1 - given)
        best = replace(best, opposite=other.verified)
    return best


def require_scores(
    spec: Spec, net: Network, frame: pd.DataFrame, X: FloatArray, source: object, *, first_row: RowNumber = 0
) -> None:
    """Raise an error if the data has the scores that [label] names, and spec and network do not reproduce them.

    X (rows, inputs) is the frame, encoded. A random sample of the rows is compared. Error messages count rows from
    ``first_row``, or call them by it.
    """
    given = read_score_column(spec.label, frame)
    if given is None:
        return
    known = np.flatnonzero(np.isfinite(given).all(axis=1))
    if len(known) > _SAMPLE:
        known = np.sort(np.random.default_rng(0).choice(known, _SAMPLE, replace=False))
    if len(known) == 0:
        return
    assert spec.label is not None
    where = f'{source}, column "{spec.label.score}"'
    if len(known) >= _FEWEST_ROWS and np.ptp(given[known]) > 0:
        require_informative(given[known], where)
    match = match_scores(net, X[known], given[known], regression=spec.regression)
    if not match.verified:
        rows = known[match.differing]
        match = replace(match, differing=first_row + rows if isinstance(first_row, int) else first_row[rows])
        raise FairmendError(
            f"{where}: {match}. Correct the spec with fairmend spec check, or pass --ignore-scores if another model "
            "gave the scores."
        )


def _compare(rows: npt.NDArray[np.int64], form: str, ours: Floats, rounded: Floats, given: Floats) -> ScoreMatch:
    spread = float(np.ptp(given, axis=0).max())
    size = 1.0 if form.startswith("probabilit") else max(1.0, float(np.abs(given).max()))
    rounding = min(_SAFETY * float(np.abs(ours - rounded).max()), _MOST_ROUNDING * spread)
    tolerance = _NEAR * size + rounding + _quantum(given)
    differences = np.abs(ours - given)
    column = differences.argmax(axis=1)
    largest = differences.max(axis=1)
    worst = np.argsort(-largest, kind="stable")
    worst = worst[largest[worst] > tolerance]
    return ScoreMatch(
        len(rows),
        form,
        float(largest.max()),
        tolerance,
        rows[worst],
        ours[worst, column[worst]],
        given[worst, column[worst]],
    )


def _forms(outputs: FloatArray, columns: int, regression: bool) -> dict[str, Floats]:
    """Return the scores (rows, columns) in each form that scores in so many columns can have."""
    logits = scores_of(outputs, "logit")
    if regression:
        return {"output": logits}
    shares = scores_of(outputs, "probability")
    if columns == 1 and logits.shape[1] <= 2:
        lead = logits[:, -1:] if logits.shape[1] == 1 else logits[:, 1:] - logits[:, :1]
        return {"probability": shares[:, -1:], "logit": lead, "log_probability": -np.logaddexp(0, -lead)}
    if logits.shape[1] == 1:
        return {"probabilities": np.hstack([1 - shares, shares])}
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return {"probabilities": shares, "logits": logits, "log_probabilities": logs}


def _quantum(given: Floats) -> float:
    """Return the last digit to which all scores are rounded, such as 0.001; 0 if they are not rounded."""
    for digits in range(-6, _MOST_DIGITS):
        if np.array_equal(np.round(given, digits), given):
            return float(10.0**-digits)
    return 0.0
