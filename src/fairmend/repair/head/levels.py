"""Biases after step 2: scores that differ less are closer together, and a bias keeps them at the level they had.

The smallest change of the head shrinks its weights, and leaves a bias that fitted the larger ones. A claim about raw
outputs does not depend on biases, and a claim about probabilities allows many. So a regression keeps its mean output
over the calibration rows, and a classifier of one or two outputs the share of rows that it predicts to be positive.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Floats
from fairmend.repair.head.bands import half_width
from fairmend.repair.head.scores import ScoreHead

__all__ = ["allowed_share", "keep_means", "keep_rates"]

STEPS = 50


def keep_means(before: Floats, after: Floats) -> Floats:
    """Return what to add to the outputs after step 2 to keep their means, ``(outputs,)``; both ``(rows, outputs)``."""
    return np.asarray((before - after).mean(axis=0))


def keep_rates(before: Floats, after: Floats) -> Floats:
    """Return what to add to the outputs after step 2 to keep the share of positive predictions, ``(outputs,)``.

    Nothing is added for more than two outputs, or if all predictions are the same.
    """
    shift = np.zeros(before.shape[1])
    if len(shift) > 2:
        return shift
    old, new = before[:, -1], after[:, -1]
    if len(shift) == 2:
        old, new = old - before[:, 0], new - after[:, 0]
    positive = int((old >= 0).sum())
    if 0 < positive < len(old) and not np.array_equal(old, new):
        largest = np.sort(new)[::-1]
        shift[-1] = -(largest[positive - 1] + largest[positive]) / 2
    return shift


def allowed_share(head: ScoreHead, shift: Floats, delta: Floats) -> float:
    """Return the largest share of a shift of the biases at which the probabilities of all regions stay within delta.

    The head is that after step 2, which keeps the claim; ``delta (count,)``.
    """
    low, high = head.ranges(head.no_change())
    moved = head.directions @ shift
    for share in np.linspace(1, 0, STEPS, endpoint=False):
        centre = (low + high) / 2 + share * moved
        if ((high - low) / 2 <= half_width(delta, centre)).all():
            return float(share)
    return 0.0
