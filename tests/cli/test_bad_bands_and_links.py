"""Bands and links that make no sense, and models that are none: one line, exit 2, and nothing is written."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.spec import Spec
from support import people_models
from support.canonical_cases import FEATURES, forest, people
from support.cli_case import run

BANDS = {  # tests/spec/test_bands.py has all others
    "hours = [10, 30]": "leave a gap below 10",
    'job = [["a", "b"], ["b", "c"]]': '"b" is in two bands',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with trees in a file with raw inputs, and people."""
    folder = tmp_path_factory.mktemp("bad")
    frame = people_models.people(300)
    people_models.save_tree_pipeline(people_models.tree_pipeline(frame), folder / "trees.onnx")
    frame.to_csv(folder / "people.csv", index=False)
    return folder


def is_refused_in_a_line(done, *words):
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.output
    said = " ".join(done.stderr.split())
    for word in words:
        assert word in said
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("bands", BANDS)
@pytest.mark.parametrize("command", ["audit", "repair", "certify", "search"])
def test_bands_that_make_no_sense(folder, tmp_path, monkeypatch, bands, command):
    monkeypatch.chdir(tmp_path)
    name, _, value = bands.partition(" = ")
    people_models.people_spec().save(tmp_path / "spec.toml")
    text = (tmp_path / "spec.toml").read_text()
    (tmp_path / "spec.toml").write_text(text.replace(f'name = "{name}"\n', f'name = "{name}"\nbands = {value}\n'))
    options = {"repair": ["--out", "out"], "search": ["--method", "grft"]}.get(command, [])
    done = run(command, folder / "trees.onnx", "--data", folder / "people.csv", "--spec", "spec.toml", *options)
    is_refused_in_a_line(done, "spec.toml", f'"{name}"', BANDS[bands])
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


SWALLOWING = [{"when": {"sex": "Female"}, "then": {"hours": {"offset": 1}}}]


def spec_that_swallows():
    return Spec.from_dict({"label": {"column": "paid", "positive": "1"}, "feature": FEATURES, "link": SWALLOWING})


@pytest.mark.parametrize("method", ["auto", "average"])
def test_links_that_leave_nothing_of_a_feature(tmp_path, method):
    skl2onnx = pytest.importorskip("skl2onnx")
    spec, (X, y) = spec_that_swallows(), people(400)
    model = forest(X, y)
    (tmp_path / "forest.onnx").write_bytes(skl2onnx.to_onnx(model, X[:1], target_opset=17).SerializeToString())
    spec.save(tmp_path / "spec.toml")
    spec.decode(X).assign(paid=y).to_csv(tmp_path / "people.csv", index=False)
    files = ["--data", tmp_path / "people.csv", "--spec", tmp_path / "spec.toml", "--out", tmp_path / "out"]
    done = run("repair", tmp_path / "forest.onnx", *files, "--method", method)
    is_refused_in_a_line(done, "links connect all values of hours to one class", "Narrow the links, or protect it")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FairmendError, match="links connect all values of hours"):
        fairmend.repair(model, spec, X[:50], X[50:], y[50:], method=method)


def changes_its_input(frame):
    frame["age"] = 30
    return np.full(len(frame), 0.5)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (lambda frame: np.ones(3), "for 128 rows; it must be (128,) or (128, classes)"),
        (lambda frame: np.ones((len(frame), 2, 2)), "it must be (128,) or (128, classes)"),
        (lambda frame: frame["no such column"], "fails on 128 rows: KeyError"),
        (lambda frame: np.random.default_rng().random(len(frame)), "is not deterministic"),
        (lambda frame: (frame["age"] > frame["age"].mean()) * 0.5, "who else is in the batch"),
        (changes_its_input, "changes the rows that it is given; let it work on a copy"),
    ],
)
@pytest.mark.parametrize("command", [fairmend.audit, fairmend.certify, fairmend.search])
def test_a_function_of_people_that_is_no_model(command, score, said):
    frame, spec = people_models.people(60), people_models.people_spec()
    with pytest.raises(FairmendError) as caught:
        command(fairmend.load_model(score, takes="people"), spec, frame)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
