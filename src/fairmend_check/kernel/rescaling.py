"""Scores that are a rescaled probability: low + span p, perhaps clipped, of the p of a closing sigmoid.

Such a score rises with the output z of the network, so that a decision "from 600 points on" is one at the probability
(600 - low) / span, and at its log-odds. What a program rounds after the sigmoid is bounded here, in units of p
(`slack`), and taken from margins as the error of the sigmoid itself is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.claim import CLOSING_UNITS, ClassClaim
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Spec

PROBABILITY = (0.0, 1.0)  # the range of scores that are probabilities
_UNITS = 8  # a scaling is accurate to so many units of the largest number in it
_SAME = 16  # and its constants to so many: programs round them to the type of the model
_MOST = 2.0**40  # of the ends of a range, of how many units of its width they may be, and of all numbers on the way


@dataclass(frozen=True)
class Scaling:
    """s -> factor s + shift; ``size`` bounds the terms of the shift."""

    factor: float
    shift: float
    size: float


@dataclass(frozen=True)
class Clip:
    """s -> the nearest number from ``least`` to ``most``."""

    least: float
    most: float


@dataclass(frozen=True)
class Rescaling:
    """The score clip(low + span p, least, most) of a probability p, with span > 0.

    ``error`` is how far a computed score may be off, but for the error of p. With ``both``, a file gives the pair of
    1 - score and score.
    """

    low: float
    span: float
    least: float
    most: float
    error: float
    both: bool = False

    @staticmethod
    def of(steps: Sequence[Scaling | Clip], dtype: str, *, both: bool = False) -> Rescaling:
        """Return what these steps make of a probability; refuse steps that do not rise.

        It also refuses steps on which numbers become so large, or so small, that a program may lose them: factors
        2^-149 and 2^149 make 1 in exact arithmetic, and leave nothing of a probability in float32. Programs may join
        factors, too.
        """
        unit, tiny = float(np.finfo(dtype).eps) / 2, float(np.finfo(dtype).tiny)
        low, span, least, most, error = 0.0, 1.0, 0.0, 1.0, unit if both else 0.0
        reach = largest = 1.0  # by how much all steps together multiply or divide, and how large numbers are
        for step in steps:
            if isinstance(step, Clip):
                if not step.least <= step.most:
                    raise CheckError(f"the model clips its scores to {step.least:g} to {step.most:g}")
                least, most = (min(max(end, step.least), step.most) for end in (least, most))
                error += _UNITS * unit * max(abs(least), abs(most))
                continue
            size = abs(step.factor) * max(abs(low), abs(low + span), abs(least), abs(most)) + step.size
            reach *= max(abs(step.factor), 1 / abs(step.factor)) if step.factor else math.inf
            largest = max(largest, size)
            low, span = step.factor * low + step.shift, step.factor * span
            least, most = sorted(step.factor * end + step.shift for end in (least, most))
            error = abs(step.factor) * error + _UNITS * unit * size
        error += _SAME * unit * max(abs(low), abs(low + span)) + tiny * reach * (1 + 4 * len(steps))
        found = Rescaling(low, span, least, most, error, both)
        fits = max(reach, largest) <= _MOST  # so that what is taken as 0, being subnormal, was nearly 0
        if not (fits and math.isfinite(error) and span > 0 and max(abs(low), span, 1 / span) <= _MOST):
            raise CheckError("the model rescales its probability by numbers that cannot be checked, or does not rise")
        if not least < most:
            raise CheckError("the model clips all scores to one number")
        return found

    @property
    def ends(self) -> tuple[float, float]:
        """The scores of the probabilities 0 and 1, before they are clipped."""
        return self.low, self.low + self.span

    @property
    def slack(self) -> float:
        """How far a computed score may be off in units of the probability, but for the error of the sigmoid."""
        return 2 * self.error / self.span

    def scores(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return bounds of the scores that programs compute, from those of the probabilities that they compute."""
        below, above = (np.clip(self.low + self.span * end, self.least, self.most) for end in (low, high))
        return below - 2 * self.error, above + 2 * self.error

    def require(self, ends: tuple[float, float], threshold: float | None) -> None:
        """Refuse another range of scores than this one, and a threshold that the clip makes one answer for everyone.

        The threshold is a probability; None: nothing is decided.
        """
        off = max(abs(mine - theirs) for mine, theirs in zip(self.ends, ends, strict=True))
        if not off <= self.error:
            raise NotConfirmedError(
                f"the scores of the model run from {_words(self.ends)}, but the spec says from {_words(ends)} "
                "(score_range in [label])"
            )
        if threshold is None:
            return
        at, room = self.low + self.span * threshold, 2 * self.error + CLOSING_UNITS * self.error
        if not self.least + room < at < self.most - room:
            raise NotConfirmedError(
                f"the model clips its scores to {_words((self.least, self.most))}, so that everyone gets one answer at "
                f"the threshold {at:g}"
            )

    @staticmethod
    def of_range(ends: tuple[float, float], dtype: str) -> Rescaling:
        """Return what a program makes of a probability that computes scores of this range."""
        return Rescaling.of([Scaling(ends[1] - ends[0], ends[0], abs(ends[0]))], dtype)


def require_scores(rescaling: Rescaling | None, closing: str, outputs: int, dtype: str, spec: Spec) -> Rescaling | None:
    """Return how the scores of a spec come from the probability; refuse a model that gives other scores.

    A file that ends with the output of the network leaves the scores to the program that runs it.
    """
    ends = spec.score_range
    if rescaling is None and ends != PROBABILITY:
        if outputs != 1 or closing:
            raise NotConfirmedError(
                f"the spec has scores from {_words(ends)} (score_range in [label]), and the model does not compute them"
            )
        rescaling = Rescaling.of_range(ends, dtype)
    if rescaling is not None:
        rescaling.require(ends, spec.threshold if isinstance(spec.claim, ClassClaim) else None)
    return rescaling


def _words(ends: tuple[float, float]) -> str:
    return " to ".join(f"{end:.9g}" for end in ends)
