"""Scores and matrices are read as they are, and a spec that does not reproduce them is not verified."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fairmend.evaluate.encoding.given import (
    match_matrix,
    match_scores,
    read_matrix,
    read_score_column,
    read_scores,
    require_informative,
    require_scores,
)
from fairmend.network import Affine, load_network
from fairmend.network.model import scores_of
from fairmend.spec import Label, Spec
from support.cli_case import small_network, small_people, small_spec
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


PEOPLE = small_people()
X = small_spec().encode(PEOPLE)


def column(values):
    return np.asarray(values, np.float64).reshape(len(X), -1)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("on", ["probability", "logit"])
def test_scores_are_recognized_in_each_form(outputs, on):
    net = small_network(outputs)
    given = scores_of(net.logits(X), on)
    match = match_scores(net, X, given)
    assert match.verified
    assert match.form == {"probability": "probabilities", "logit": "logits"}[on] if outputs > 1 else on
    assert match.rows == len(X)
    assert match.largest < 1e-6
    assert "verified: 200 rows, largest difference" in str(match)
    if outputs == 2:
        assert match_scores(net, X, given[:, 1:] - (on == "logit") * given[:, :1]).form == on
    if outputs == 1 and on == "probability":
        assert match_scores(net, X, np.hstack([1 - given, given])).form == "probabilities"


@pytest.mark.parametrize("outputs", [2, 3])
def test_a_closing_log_softmax_gives_logarithms_of_probabilities(outputs):
    """Of a confident model, too, whose logarithms are far from 0 and whose probabilities are 0 and 1."""
    net = small_network(outputs)
    net = net.with_affines([*net.affines[:-1], Affine(300 * net.affines[-1].weight, 300 * net.affines[-1].bias)])
    logits = net.astype(np.float64).logits(X.astype(np.float64))
    given = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    match = match_scores(net, X, given)
    assert match.verified
    assert match.form == "log_probabilities"
    assert "the logarithms of the probabilities of the classes" in str(match)
    if outputs == 2:
        assert match_scores(net, X, given[:, 1:]).form == "log_probability"
        assert match_scores(net, X, given[:, 1:]).verified
    given[42, 0] -= 1
    assert match_scores(net, X, given).differing.tolist() == [42]


def test_one_wrong_score_is_found_and_missing_ones_are_skipped():
    net = small_network()
    given = column(net.probabilities(X))
    given[:10] = np.nan
    assert match_scores(net, X, given).rows == len(X) - 10
    given[42] += 0.001
    match = match_scores(net, X, given)
    assert not match.verified
    assert match.differing.tolist() == [42]
    assert "1 of 190 rows differ from the model's own scores, most in row 42" in str(match)


@pytest.mark.parametrize("digits", [2, 3, 6])
def test_rounded_scores_verify_to_their_last_digit(digits):
    net = small_network()
    given = np.round(column(net.probabilities(X)), digits)
    match = match_scores(net, X, given)
    assert match.verified
    assert match.tolerance < 10.0**-digits + 2e-5
    assert not match_scores(net, X[:, ::-1], given).verified


def test_the_other_class_is_named():
    net = small_network()
    match = match_scores(net, X, 1 - column(net.probabilities(X)))
    assert not match.verified
    assert "the probabilities of the other class" in str(match)


def test_scores_that_verify_nothing_are_refused():
    with refused("3 scores, too few"):
        require_informative(column(np.where(np.arange(len(X)) < 3, 0.5, np.nan)), "s.csv")
    with refused("all scores are equal"):
        require_informative(column(np.full(len(X), 0.25)), "s.csv")
    with refused("classes, or rounded too much"):
        require_informative(column(small_network().predict(X)), "s.csv")


def test_a_command_compares_the_column_that_the_label_names():
    net, label = small_network(), Label("good", "yes", score="p")
    spec = Spec(small_spec().features, label)
    right = PEOPLE.assign(p=net.probabilities(X))
    require_scores(spec, net, right, X, "people.csv")
    require_scores(spec, net, PEOPLE, X, "people.csv")  # the data has no such column
    require_scores(spec, net, right.assign(p=np.nan), X, "people.csv")
    with refused('people.csv, column "p": not verified', "most in row 105", "--ignore-scores"):
        require_scores(spec, net, right.assign(p=right.p.mask(right.index == 5, 0.9)), X, "people.csv", first_row=100)
    with refused("classes, or rounded"):
        require_scores(spec, net, right.assign(p=net.predict(X)), X, "people.csv")
    with refused("column p holds text"):
        require_scores(spec, net, right.assign(p="high"), X, "people.csv")


def test_a_sample_of_a_large_table_is_compared():
    net = small_network()
    spec = Spec(small_spec().features, Label("good", "yes", score="p"))
    many, table = np.tile(X, (20, 1)), pd.concat([PEOPLE] * 20, ignore_index=True)
    with refused("of 1,000 rows differ"):
        require_scores(spec, net, table.assign(p=1 - 0.9 * net.probabilities(many)), many, "people.csv")


def torch_scores():
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Sigmoid())
    with torch.no_grad():
        return module, module(torch.from_numpy(X)).numpy()


def sklearn_scores():
    from sklearn.neural_network import MLPClassifier

    y = (PEOPLE["good"] == "yes").to_numpy(int)
    model = MLPClassifier((8,), solver="lbfgs", max_iter=20, max_fun=10_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        model.fit(X, y)
    return model, model.predict_proba(X)


def onnx_scores(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    small_network().save(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    return tmp_path / "model.onnx", session.run(None, {session.get_inputs()[0].name: X})[0]


@pytest.mark.parametrize("framework", ["torch", "sklearn", "onnx"])
def test_what_a_framework_computes_is_reproduced_and_exchanged_columns_are_not(tmp_path, framework):
    """Income and credits in each other's place: width and types are the same, and the accuracy is plausible."""
    made = {"torch": torch_scores, "sklearn": sklearn_scores, "onnx": lambda: onnx_scores(tmp_path)}
    model, given = made[framework]()
    net, given = load_network(model), column(given)
    assert match_scores(net, X, given).verified
    exchanged = X[:, [0, 1, 2, 4, 3]]
    assert not match_scores(net, exchanged, given).verified


SPEC = small_spec()
OURS = SPEC.encode(small_people(), np.float64)


def test_float32_is_rounding_and_a_changed_column_is_named():
    match = match_matrix(OURS, OURS.astype(np.float32).astype(np.float64), SPEC.column_names)
    assert match.verified
    assert str(match).startswith("verified: 200 rows of 5 columns, largest difference")
    given = OURS.copy()
    given[7, 3] += 0.01
    match = match_matrix(OURS, given, SPEC.column_names)
    assert [(found.column, found.name, found.rows, found.row) for found in match.differing] == [(3, "income", 1, 7)]
    assert "1 of 5 columns differ" in str(match)
    assert "column 3 (income): 1 row, most in row 7" in str(match.differing[0])


def test_exchanged_columns_are_both_named():
    match = match_matrix(OURS, OURS[:, [0, 2, 1, 3, 4]], SPEC.column_names)
    assert [found.name for found in match.differing] == ["gender=f", "gender=m"]


def test_other_widths_are_a_problem():
    match = match_matrix(OURS, OURS[:, :4], SPEC.column_names)
    assert not match.verified
    assert "the matrix has 4 columns, the spec describes 5" in str(match)
