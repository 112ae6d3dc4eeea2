"""Scores and encoded matrices are read from tables and arrays, and what cannot be compared is refused."""

import numpy as np
import pandas as pd
import pytest

from fairmend.evaluate.given_outputs import read_matrix, read_score_column, read_scores
from fairmend.spec import Label
from support.spec_cases import refused

SCORES = np.linspace(0.1, 0.9, 12)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
@pytest.mark.parametrize("columns", [1, 2])
def test_scores_come_from_any_table_or_array(tmp_path, suffix, columns):
    path, table = tmp_path / f"scores{suffix}", pd.DataFrame({f"p{i}": SCORES for i in range(columns)})
    if suffix == ".npy":
        np.save(path, table.to_numpy() if columns > 1 else SCORES)
    elif suffix == ".csv":
        table.to_csv(path)  # with row numbers, as pandas writes them by default
    else:
        table.to_parquet(path)
    np.testing.assert_array_equal(read_scores(path, 12, 1), table.to_numpy())
    if columns > 1 or suffix != ".npy":
        assert read_matrix(path, 12).shape == (12, columns)


@pytest.mark.parametrize(
    ("content", "outputs", "words"),
    [
        ({"p": SCORES[1:]}, 1, ["has 11 rows, but the data has 12", "header"]),
        ({"a": SCORES, "b": SCORES, "c": SCORES}, 1, ["has 3 columns", "2 classes"]),
        ({"a": SCORES}, 3, ["has one column of scores, but the network has 3"]),
        ({"p": ["high"] * 12}, 1, ["column p holds text"]),
        ({"p": [None] * 12, "q": [None] * 12}, 1, ["has no scores"]),
    ],
)
def test_scores_that_do_not_fit_are_refused(tmp_path, content, outputs, words):
    pd.DataFrame(content).to_csv(tmp_path / "s.csv", index=False)
    with refused("s.csv", *words):
        read_scores(tmp_path / "s.csv", 12, outputs)


def test_files_that_hold_no_numbers_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "texts.npy", np.array(["a"]))
    np.save(tmp_path / "holes.npy", np.full((3, 2), np.nan))
    np.save(tmp_path / "line.npy", np.zeros(3))
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    for name, words in {
        "objects.npy": "not a readable .npy file of numbers",
        "cut.npy": "not a readable .npy file of numbers",
        "texts.npy": "holds no array of numbers",
        "absent.npy": "no such file",
        "holes.npy": "row 0, column 0: not a finite number",
        "line.npy": "has the shape (3,)",
        "scores.txt": "read from .csv, .parquet or .npy",
    }.items():
        with refused(name, words):
            read_matrix(tmp_path / name, 3)


def test_a_column_of_the_data_is_read_if_the_label_names_it():
    frame = pd.DataFrame({"y": [0, 1], "p": [0.25, None]})
    np.testing.assert_array_equal(read_score_column(Label("y", "1", score="p"), frame), [[0.25], [np.nan]])
    for label in (None, Label("y", "1"), Label("y", "1", score="q")):
        assert read_score_column(label, frame) is None
