"""What a proof for the repair inputs costs at least, the weakest guarantee there is.

Such a proof gives one prediction to everyone in a neighbourhood of a repair input, and so to all neighbourhoods that
are connected (`fairmend.repairing.certified`). Elsewhere a network is free. The best that it can do is to predict there
as the original does, and in each group of connected neighbourhoods the class that is right more often. Here that class
is taken from the very rows that judge: no repair knows it, so every repair can be expected to lose more. Beside it
stands what the same costs without hindsight, with the classes that are right more often among the rows that a repair
knows: the labelled ones, and the others with the original's probabilities.
"""

from __future__ import annotations

import numpy as np

from fairmend import Network, Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.repairing.certified import connected_groups, groups_of_rows


def listed_figures(
    original: Network, spec: Spec, known: dict[str, np.ndarray], y_known: np.ndarray, X: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Return the least losses on ``X (rows, inputs)``, ``y (rows,)`` in points, and how many rows are not free.

    ``known`` has the rows of a repair: "repair", "calibration" with the labels ``y_known``, and "pool". The keys are
    "listed lost", "listed fall", "listed known" (the accuracy lost without hindsight) and "listed rows". Two classes.
    """
    regions = spec.regions(known["repair"], original.dtype)
    groups = connected_groups(regions)
    group = groups_of_rows(X, regions, groups)
    before = original.predict(X)
    truth = np.eye(2)[y]

    def decisions(rows: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        votes = np.zeros((groups.max() + 1, 2))
        np.add.at(votes, rows[rows >= 0], probabilities[rows >= 0])
        return np.where(group >= 0, votes.argmax(axis=1)[group], before)

    accurate = decisions(group, truth)
    balanced = decisions(group, truth / np.bincount(y, minlength=2))
    seen = np.concatenate([known[part] for part in ("repair", "calibration", "pool")])
    unlabelled = [_probabilities(original, known[part]) for part in ("repair", "pool")]
    expected = np.concatenate([unlabelled[0], np.eye(2)[y_known], unlabelled[1]])
    foreseen = decisions(groups_of_rows(seen, regions, groups), expected)
    return {
        "listed lost": 100 * (accuracy(y, before) - accuracy(y, accurate)),
        "listed fall": 100 * (balanced_accuracy(y, before) - balanced_accuracy(y, balanced)),
        "listed known": 100 * (accuracy(y, before) - accuracy(y, foreseen)),
        "listed rows": 100 * float(np.mean(group >= 0)),
    }


def _probabilities(network: Network, X: np.ndarray) -> np.ndarray:
    found = np.asarray(network.probabilities(X), dtype=np.float64)
    return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found
