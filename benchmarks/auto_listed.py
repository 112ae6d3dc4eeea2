"""What a proof for the repair inputs costs at least, the weakest guarantee there is.

Such a proof gives one prediction to everyone in a neighbourhood of a repair input, and so to all neighbourhoods that
are connected (`fairmend.repair.connected`). Elsewhere a network is free. The best that it can do is to predict there
as the original does, and in each group of connected neighbourhoods the class that is right more often. Here that class
is taken from the very rows that judge: no repair knows it, so every repair can be expected to lose more.
"""

from __future__ import annotations

import numpy as np

from fairmend import Network, Spec
from fairmend.metrics import accuracy, balanced_accuracy
from fairmend.repair.connected import connected_groups, groups_of_rows


def listed_figures(
    original: Network, spec: Spec, X_repair: np.ndarray, X: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Return the least losses on ``X (rows, inputs)``, ``y (rows,)`` in points, and how many rows are not free.

    The keys are "listed lost", "listed fall" and "listed rows". Two classes.
    """
    regions = spec.regions(X_repair, original.dtype)
    group = groups_of_rows(X, regions, connected_groups(regions))
    before = original.predict(X)
    rare = 1 / np.bincount(y, minlength=2)
    accurate = _best_decisions(before, y, group, np.ones(2))
    balanced = _best_decisions(before, y, group, rare)
    return {
        "listed lost": 100 * (accuracy(y, before) - accuracy(y, accurate)),
        "listed fall": 100 * (balanced_accuracy(y, before) - balanced_accuracy(y, balanced)),
        "listed rows": 100 * float(np.mean(group >= 0)),
    }


def _best_decisions(before: np.ndarray, y: np.ndarray, group: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the decisions with one class in each group: that with the larger weight of rows."""
    inside = group >= 0
    votes = np.zeros((group.max(initial=0) + 1, 2))
    np.add.at(votes, (group[inside], y[inside]), weights[y[inside]])
    return np.where(inside, votes.argmax(axis=1)[group], before)
