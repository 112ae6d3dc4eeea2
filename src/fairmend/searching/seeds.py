"""Seeds, the inputs that a search starts from: drawn in turn from clusters of the data, to cover all kinds of people.

Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020 (ADF): k-means with 4 clusters.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray

CLUSTERS = 4
# More rows than this do not improve the clusters.
_MOST_ROWS = 100_000


def draw_seeds(X: FloatArray, seeds: int, rng: np.random.Generator) -> FloatArray:
    """Return this many rows of X, or all if there are fewer, taking turns between the clusters."""
    from sklearn.cluster import KMeans

    X = X[rng.permutation(len(X))[: max(_MOST_ROWS, seeds)]]
    distinct = len(np.unique(X, axis=0))
    means = KMeans(min(CLUSTERS, distinct), n_init=1, random_state=int(rng.integers(2**31)))
    clusters = means.fit_predict(X.astype(np.float64))
    turn = np.empty(len(X), np.int64)  # the first of each cluster come first, then the second of each
    for cluster in range(means.n_clusters):
        rows = np.flatnonzero(clusters == cluster)
        turn[rows] = np.arange(len(rows))
    return X[np.lexsort((clusters, turn))[:seeds]]
