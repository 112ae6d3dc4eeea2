"""Adult: rows with a missing value are dropped, and capital gains are binned."""

import numpy as np

from fairmend.paper.datasets import adult
from support.raw_rows import TINY


def test_rows_with_a_question_mark_are_dropped_and_gains_are_binned(tmp_path):
    for file, text in TINY["adult"][0].items():
        (tmp_path / file).write_text(text)
    dataset = adult.load(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    assert len(X) == 2  # of three rows, one has a ?
    gains = X[:, dataset.columns.index("capital-gain")]
    assert sorted(gains.tolist()) == [0, 19]
