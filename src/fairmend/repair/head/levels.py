"""Biases after step 2: scores that differ less are closer together, and a bias keeps them on the side they were.

A change that keeps scores together shrinks weights, and a bias that fitted the larger ones moves most predictions to
one class. A claim about raw outputs does not depend on biases, and a claim about probabilities allows many. So a
classifier of one or two outputs keeps the share of rows that it predicts to be positive.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Floats
from fairmend.repair.head.bands import half_width

__all__ = ["allowed_share", "keep_rates"]

STEPS = 50


def keep_rates(before: Floats, after: Floats) -> Floats:
    """Return what to add to the outputs after step 2 to keep the share of positive predictions, ``(outputs,)``.

    Both are ``(rows, outputs)``. Nothing is added for more than two outputs, or if all predictions are the same.
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


def allowed_share(low: Floats, high: Floats, moved: Floats, delta: Floats) -> float:
    """Return the largest share of a shift at which the probabilities of all regions stay within ``delta (count,)``.

    ``low`` and ``high (count, directions)`` are the ranges without it, and ``moved (directions,)`` is the shift.
    """
    for share in np.linspace(1, 0, STEPS, endpoint=False):
        if ((high - low) / 2 <= half_width(delta, (low + high) / 2 + share * moved)).all():
            return float(share)
    return 0.0
