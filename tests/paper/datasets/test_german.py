"""German: sex comes from the personal status, and age is 1 from 26 on."""

import numpy as np

from fairmend.paper.datasets import german
from support.raw_rows import GERMAN


def test_sex_and_age_are_binary_and_property_may_exceed_the_published_bounds(tmp_path):
    (tmp_path / "german.data").write_text(GERMAN)
    dataset = german.load(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    columns = [dataset.columns.index(name) for name in ("sex", "age", "property")]
    assert sorted(X[:, columns].tolist()) == [[0, 0, 3], [1, 1, 0]]
    assert dataset.bounds[columns[2]].tolist() == [0, 2]
    assert dataset.ranges[columns[2]].tolist() == [0, 3]
