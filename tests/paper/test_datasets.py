"""Each data set of the paper is encoded as its networks read it."""

import numpy as np

from fairmend.paper.datasets import BANK_CATEGORIES, BANK_MODES, load_adult, load_bank, load_compas, load_german
from support.raw_rows import GERMAN, TINY

# Adult: rows with a missing value are dropped, and capital gains are binned.


def test_rows_with_a_question_mark_are_dropped_and_gains_are_binned(tmp_path):
    for file, text in TINY["adult"][0].items():
        (tmp_path / file).write_text(text)
    dataset = load_adult(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    assert len(X) == 2  # of three rows, one has a ?
    gains = X[:, dataset.columns.index("capital-gain")]
    assert sorted(gains.tolist()) == [0, 19]


def test_unknown_is_the_mode_and_a_value_on_an_edge_is_in_the_lower_bin(tmp_path):
    for file, text in TINY["bank"][0].items():
        (tmp_path / file).write_text(text)
    dataset = load_bank(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    [row] = X[X[:, dataset.columns.index("age")] == 1]  # 25 is the first edge
    for column, mode in BANK_MODES.items():
        assert row[dataset.columns.index(column)] == BANK_CATEGORIES[column].split().index(mode)


def test_race_and_age_are_binary(tmp_path):
    for file, text in TINY["compas"][0].items():
        (tmp_path / file).write_text(text)
    dataset = load_compas(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    columns = [dataset.columns.index(name) for name in ("Race", "Age")]
    assert sorted(X[:, columns].tolist()) == [[0, 1], [1, 0]]


def test_sex_and_age_are_binary_and_property_may_exceed_the_published_bounds(tmp_path):
    (tmp_path / "german.data").write_text(GERMAN)
    dataset = load_german(tmp_path)
    X = np.concatenate([dataset.X_train, dataset.X_test])
    columns = [dataset.columns.index(name) for name in ("sex", "age", "property")]
    assert sorted(X[:, columns].tolist()) == [[0, 0, 3], [1, 1, 0]]
    assert dataset.bounds[columns[2]].tolist() == [0, 2]
    assert dataset.ranges[columns[2]].tolist() == [0, 3]
