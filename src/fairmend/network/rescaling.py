"""Scores that are a rescaled probability, such as 300 + 550 p points: what comes after a closing sigmoid.

The network ends in the logit, whose sigmoid is p. The score rises with it, so that a decision "from 600 points on" is
one at the probability (600 - 300) / 550. `fairmend_check.kernel.rescaling` bounds what a program rounds on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError

PROBABILITY = (0.0, 1.0)
"""The range of scores that are probabilities."""


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


REST = Scaling(-1.0, 1.0, 1.0)
"""1 - p, the probability of the other class."""


@dataclass(frozen=True)
class Rescaling:
    """The steps from the sigmoid of a logit to the score; with ``both``, the outputs are 1 - score and score."""

    steps: tuple[Scaling | Clip, ...]
    both: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The scores of the probabilities 0 and 1, before any clip."""
        low, high = PROBABILITY
        for step in self.steps:
            if isinstance(step, Scaling):
                low, high = step.factor * low + step.shift, step.factor * high + step.shift
        return low, high

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest score, after any clip."""
        first, last = replace(self, both=False).scores(np.array(PROBABILITY)).tolist()
        return first, last

    def scores(self, probabilities: FloatArray) -> FloatArray:
        """Return the outputs (rows,), or (rows, 2) with both, of probabilities (rows,)."""
        values = probabilities
        for step in self.steps:
            if isinstance(step, Clip):
                values = np.clip(values, step.least, step.most)
            else:
                values = (values * step.factor + step.shift).astype(probabilities.dtype)
        return np.stack([1 - values, values], axis=1) if self.both else values

    def as_probabilities(self, given: Floats) -> Floats:
        """Return given scores in the range as the probabilities before any clip; numbers outside of it as they are.

        Numbers from 0 to 1 are probabilities already.
        """
        low, high = self.ends
        if (given.min() >= 0 and given.max() <= 1) or given.min() < low or given.max() > high:
            return given
        return (given - low) / (high - low)

    def __str__(self) -> str:
        """Return the range, as in "scores from 300 to 850", and what else happens to the probability."""
        low, high = self.ends
        parts = [] if self.ends == PROBABILITY else [f"scores from {low:g} to {high:g}"]
        parts += ["clipped"] if any(isinstance(step, Clip) for step in self.steps) else []
        return ", ".join([*parts, *(["(1 - p, p)"] if self.both else [])]) or "1 - p"


def rescaling_of_range(ends: tuple[float, float]) -> Rescaling:
    """Return how a program makes scores of this range of a probability."""
    return Rescaling((Scaling(ends[1] - ends[0], ends[0], abs(ends[0])),))


def joined(steps: Sequence[Scaling | Clip]) -> list[Scaling | Clip]:
    """Return steps in which a change of sign and a shift by 1 are one step, 1 - s."""
    found: list[Scaling | Clip] = []
    for step in steps:
        if found and found[-1] == Scaling(-1.0, 0.0, 0.0) and step == Scaling(1.0, 1.0, 1.0):
            found.pop()
            step = REST
        found.append(step)
    return found


def require_range(rescaling: Rescaling | None, closing: str, outputs: int, ends: tuple[float, float]) -> None:
    """Raise an error if a network does not give the scores that a spec describes."""
    given = PROBABILITY if rescaling is None else rescaling.ends
    near = np.allclose(given, ends, rtol=0, atol=1e-6 * max(map(abs, given)))
    if near or (rescaling is None and closing == "none" and outputs == 1):
        return
    low, high = given
    if given == PROBABILITY:
        raise FairmendError(
            f"the spec has scores from {ends[0]:g} to {ends[1]:g}, but those of the network are probabilities. Remove "
            "score_range from [label]."
        )
    raise FairmendError(
        f"the scores of the network run from {low:g} to {high:g}. Write score_range = [{low:.9g}, {high:.9g}] into "
        f"[label] of the spec, and threshold in the same unit (without it, {low / 2 + high / 2:g})."
    )
