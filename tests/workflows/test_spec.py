"""What the model gave is loaded, and refused where it verifies nothing."""

from pathlib import Path

import numpy as np

from fairmend.evaluate.encoding.given import match_matrix, match_scores
from fairmend.spec import Label
from fairmend.workflows.spec import describe_match, load_scores, require_with
from support.cli_case import small_network, small_people, small_spec
from support.spec_cases import refused

PEOPLE, NET = small_people(), small_network()
X = small_spec().encode(PEOPLE, np.float64)


def test_scores_come_from_a_file_or_from_the_column_of_the_label(tmp_path):
    scores = NET.probabilities(X.astype(np.float32)).astype(np.float64)
    np.save(tmp_path / "s.npy", scores)
    data = Path("people.csv")
    np.testing.assert_array_equal(load_scores(tmp_path / "s.npy", None, PEOPLE, NET, data)[:, 0], scores)
    frame, label = PEOPLE.assign(p=scores), Label("good", "yes", score="p")
    np.testing.assert_array_equal(load_scores(None, label, frame, NET, data)[:, 0], scores)
    assert load_scores(None, Label("good", "yes"), frame, NET, data) is None
    with refused('people.csv, column "p"', "classes, or rounded"):
        load_scores(None, label, PEOPLE.assign(p=NET.predict(X)), NET, data)


def test_options_need_their_files():
    require_with("--scores", None, model=None)
    require_with("--scores", Path("s.csv"), model=Path("m.onnx"))
    with refused("--scores needs --data and --model"):
        require_with("--scores", Path("s.csv"), data=None, model=None)


def test_comparisons_become_plain_data():
    scores = NET.probabilities(X.astype(np.float32)).astype(np.float64)[:, None]
    match = match_scores(NET, X, np.where(np.arange(len(X))[:, None] == 3, 0.0, scores))
    document = describe_match(match)["scores"]
    assert (document["verified"], document["differing_rows"], document["first_rows"].tolist()) == (False, 1, [3])
    document = describe_match(match_matrix(X, X[:, :2], small_spec().column_names))["encoded"]
    assert describe_match(None) == {}
    assert document["verified"] is False
    assert document["largest_difference"] is None
