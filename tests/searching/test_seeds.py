"""Seeds come from all clusters of the data."""

import numpy as np

from fairmend.searching.seeds import draw_seeds


def test_seeds_come_from_all_clusters_in_turn():
    centres = np.array([[0, 0], [50, 0], [0, 50], [50, 50]], dtype=np.float32)
    sizes = (400, 30, 20, 10)
    X = np.repeat(centres, sizes, axis=0) + np.random.default_rng(0).normal(size=(sum(sizes), 2)).astype(np.float32)
    seeds = draw_seeds(X, 40, np.random.default_rng(0))
    near = np.linalg.norm(seeds[:, None] - centres, axis=2).argmin(axis=1)
    assert np.bincount(near).tolist() == [10, 10, 10, 10]
    assert len(draw_seeds(X, 10_000, np.random.default_rng(0))) == len(X)
