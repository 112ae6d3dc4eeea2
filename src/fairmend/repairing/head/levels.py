"""Biases after step 2: scores that differ less are closer together, and a bias keeps them on the side they were.

A change that keeps scores together shrinks weights, and a bias that fitted the larger ones moves most predictions to
one class. A claim about raw outputs does not depend on biases, and a claim about probabilities allows many. So a
classifier keeps the share of rows that it predicts to be in each class.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Floats

SWEEPS, STEPS = 30, 50


def keep_rates(before: Floats, after: Floats) -> Floats:
    """Return what to add to the outputs after step 2 to keep the share of each predicted class, ``(outputs,)``.

    Both are ``(rows, outputs)``. One output or two have one threshold, which is exact. With more outputs, each in turn
    gets its share, a number of times.
    """
    outputs = before.shape[1]
    shift = np.zeros(outputs)
    own = np.arange(outputs) == before.argmax(axis=1)[:, None] if outputs > 1 else before >= 0
    counts = own.sum(axis=0)
    for _ in range(SWEEPS if outputs > 2 else 1):
        for output in range(1 if outputs > 1 else 0, outputs):
            leads = np.sort(_leads(after + shift, output))[::-1]
            if (leads >= 0).sum() != counts[output]:
                step = (max(leads[0] - leads[-1], np.abs(leads).max() * 1e-3) or 1.0) / len(leads)
                ends = np.concatenate([[leads[0] + step], leads, [leads[-1] - step]])
                shift[output] -= (ends[counts[output]] + ends[counts[output] + 1]) / 2
    return shift


def _leads(scores: Floats, output: int) -> Floats:
    """Return by how much an output exceeds the largest other one, or 0 if it is the only one: ``(rows,)``."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    return np.asarray(scores[:, output] - np.delete(scores, output, axis=1).max(axis=1))


def allowed_share(low: Floats, high: Floats, moved: Floats, delta: Floats, outputs: int) -> float:
    """Return the largest share of a shift at which the probabilities of all regions stay within ``delta (count,)``.

    ``low`` and ``high (count, directions)`` are the ranges without it, and ``moved (directions,)`` is the shift.
    """
    for share in np.linspace(1, 0, STEPS, endpoint=False):
        if (probability_spread(low + share * moved, high + share * moved, outputs) <= delta).all():
            return float(share)
    return 0.0


@np.errstate(over="ignore")
def probability_spread(low: Floats, high: Floats, outputs: int) -> Floats:
    """Return how far apart two probabilities in a region can be ``(count,)``, from ranges ``(count, directions)``.

    The directions are the output, or the differences of two outputs, the earlier minus the later.
    """
    if outputs <= 2:
        return np.asarray(1 / (1 + np.exp(-high[:, 0])) - 1 / (1 + np.exp(-low[:, 0])))
    first, second = np.triu_indices(outputs, 1)
    least, most = np.zeros((2, len(low), outputs, outputs))  # of output k minus output j at [., k, j]
    least[:, first, second], most[:, first, second] = low, high
    least[:, second, first], most[:, second, first] = -high, -low
    return np.asarray((1 / np.exp(least).sum(axis=1) - 1 / np.exp(most).sum(axis=1)).max(axis=1))
