"""COMPAS: race is 0 for white defendants and 1 for all others, age is 0 below 25."""

import numpy as np

from fairmend.paper.datasets import compas
from support.raw_rows import TINY


def test_race_and_age_are_binary(tmp_path):
    for file, text in TINY["compas"][0].items():
        (tmp_path / file).write_text(text)
    dataset = compas.load(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    columns = [dataset.columns.index(name) for name in ("Race", "Age")]
    assert sorted(X[:, columns].tolist()) == [[0, 1], [1, 0]]
