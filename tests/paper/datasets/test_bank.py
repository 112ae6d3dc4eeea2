"""Bank: "unknown" is read as the most frequent value, and bins include their upper edge."""

import numpy as np

from fairmend.paper.datasets import bank
from support.raw_rows import TINY


def test_unknown_is_the_mode_and_a_value_on_an_edge_is_in_the_lower_bin(tmp_path):
    for file, text in TINY["bank"][0].items():
        (tmp_path / file).write_text(text)
    dataset = bank.load(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    [row] = X[X[:, dataset.columns.index("age")] == 1]  # 25 is the first edge
    for column, mode in bank.MODES.items():
        assert row[dataset.columns.index(column)] == bank.CATEGORIES[column].split().index(mode)
