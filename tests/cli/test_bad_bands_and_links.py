"""Bands and links that make no sense, and models that are none: one line, exit 2, and nothing is written."""

import re

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper

import fairmend
from fairmend import FairmendError
from fairmend.spec import Spec
from support import people_models
from support.canonical_cases import FEATURES, forest, people
from support.cli_case import run

# What is added to a feature of the spec, and what the line says; tests/spec/test_bands.py has all others.
BANDS = {
    ("hours", "bands = [[1, 30], [20, 60]]"): "lower ends such as [0, 500]",  # they overlap
    ("hours", "bands = [1, 30, 30]"): "must increase, but 30 comes after 30",
    ("hours", "bands = [60, 30, 1]"): "must increase, but 30 comes after 60",
    ("hours", "bands = [10, 30]"): "leave a gap below 10",
    ("hours", "bands = [1, 90]"): "90 is above 60",
    ("hours", "bands = [1, nan]"): "finite number, got nan",
    ("hours", "bands = {width = nan}"): "finite number, got nan",
    ("hours", "bands = {width = 0}"): "width must be above 0",
    ("hours", "bands = {width = -5}"): "width must be above 0",
    ("hours", "bands = {width = 1e-300}"): "more than 1,000,000,000 bands are too many",
    ("hours", "bands = [1, 30]\ntolerance = 2"): "bands and tolerance say two things",
    ("job", 'bands = [["a", "b"], ["b", "c"]]'): '"b" is in two bands',
    ("job", 'bands = [["a", "b"]]'): 'leave out category "c"',
    ("job", 'bands = [["a", "b"], ["c", "d"]]'): '"d" is not one of its categories',
    ("sex", 'bands = [["female"], ["male"]]'): "bands and protected say two things",
    ("wage", "bands = [0, 5]"): "has no kind",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with trees in a file with raw inputs, people, and a repaired file with its certificate."""
    folder = tmp_path_factory.mktemp("bad")
    frame = people_models.people(300)
    people_models.save_tree_pipeline(people_models.tree_pipeline(frame), folder / "trees.onnx")
    frame.to_csv(folder / "people.csv", index=False)
    spec, halves = people_models.people_spec(), (frame[:100], frame[100:])
    repaired = fairmend.repair(folder / "trees.onnx", spec, *halves, spec.labels(halves[1]), method="average")
    repaired.network.save(folder / "fair.onnx")
    repaired.certificate.save(folder / "fair.json", folder / "fair.onnx")
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


def commands(folder, model):
    """Every command that reads a spec, with options that let it write files."""
    files = [folder / model, "--data", folder / "people.csv", "--spec", "spec.toml"]
    return {
        "audit": ["audit", *files, "--report", "report"],
        "certify": ["certify", *files],
        "repair": ["repair", *files, "--out", "out"],
        "search": ["search", *files, "--method", "grft", "--seeds", 10, "--local-steps", 2, "--out", "found.csv"],
        "quantify": ["quantify", folder / model, "--spec", "spec.toml", "--seconds", 1, "--report", "report"],
        "export-vnnlib": ["export-vnnlib", *files, "--out", "problems"],
        "spec check": ["spec", "check", "spec.toml", "--data", folder / "people.csv", "--model", folder / model],
    }


def test_bands_that_make_no_sense(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people_models.people_spec().save(tmp_path / "spec.toml")
    text = (tmp_path / "spec.toml").read_text()
    for (name, added), said in BANDS.items():
        head = f'name = "{name}"\n'
        banded = text.replace(head, f"{head}{added}\n") if head in text else f"{text}\n[[feature]]\n{head}{added}\n"
        (tmp_path / "spec.toml").write_text(banded)
        for arguments in commands(folder, "trees.onnx").values():
            is_refused_in_a_line(run(*arguments), "spec.toml", f'"{name}"', said)
        with pytest.raises(FairmendError, match=re.escape(said)) as caught:
            Spec.load(tmp_path / "spec.toml")
        assert "\n" not in str(caught.value)
        # A checker that cannot read what the certificate should be about has no verdict.
        done = run("check", folder / "fair.json", folder / "fair.onnx", "--spec", "spec.toml")
        assert (done.exit_code, done.stderr) == (2, "")
        assert done.stdout.startswith("UNREADABLE")
        assert f'feature "{name}"' in done.stdout
        assert done.stdout.count("\n  - ") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_bands_of_a_feature_that_the_model_does_not_have(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people_models.people_spec().save(tmp_path / "spec.toml")
    with (tmp_path / "spec.toml").open("a") as file:
        file.write('\n[[feature]]\nname = "wage"\nkind = "integer"\nrange = [0, 9]\nbands = [0, 5]\n')
    for name, arguments in commands(folder, "trees.onnx").items():
        done = run(*arguments)
        if name == "spec check":  # which lists all that does not fit
            assert (done.exit_code, done.stderr) == (2, "")
            assert 'has no column "wage" for feature "wage"' in " ".join(done.stdout.split()), done.stdout
        elif name not in ("quantify", "export-vnnlib"):
            is_refused_in_a_line(done, "spec.toml", "which of them reads feature")
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


def test_links_that_leave_nothing_of_a_feature_concern_classes_alone(folder, tmp_path, monkeypatch):
    """Who is similar stays clear, so people are compared; a repair by classes is refused, and `spec check` says why."""
    monkeypatch.chdir(tmp_path)
    links = {
        "hours": [{"when": {"sex": "female"}, "then": {"hours": {"offset": 1}}}],
        "job": [{"when": {"sex": "female"}, "then": {"job": {"a": ["a", "b", "c"]}}}],
    }
    for name, given in links.items():
        spec = Spec.from_dict({**people_models.people_spec().to_dict(), "link": given})
        spec.save(tmp_path / "spec.toml")
        done = {command: run(*arguments) for command, arguments in commands(folder, "trees.onnx").items()}
        is_refused_in_a_line(done["repair"], f"links connect all values of {name} to one class")
        assert not (tmp_path / "out").exists()
        assert f"{name} does not count (links connect all values)" in done["spec check"].output
        assert [done[command].exit_code for command in ("audit", "certify", "search", "spec check")] == [1, 1, 1, 0]


# Functions and files that are no models


def changes_its_input(frame):
    frame["age"] = 30
    return np.full(len(frame), 0.5)


def probability(frame):
    return 1 / (1 + np.exp(10 * (0.8 - frame["age"] / 70 - 0.3 * (frame["sex"] == "male")).to_numpy()))


class Later:
    """Gives probabilities in its first six calls, with which a model is tried, and then something else."""

    def __init__(self, other):
        self.other, self.calls = other, 0

    def __call__(self, frame):
        self.calls += 1
        return probability(frame) if self.calls <= 6 else self.other(frame, self.calls)


class NoTextError(Exception):
    def __str__(self):
        raise ValueError


def raises(error):
    def score(frame):
        raise error

    return score


RANDOM = np.random.default_rng(0)
WRONG = {
    "for 128 rows; it must be (128,) or (128, classes)": [
        lambda frame: np.ones(3),
        lambda frame: np.ones((len(frame), 2, 2)),
        lambda frame: probability(frame)[None],
        lambda frame: np.append(probability(frame), 0.5),
        lambda frame: np.zeros((len(frame), 0)),
        lambda frame: 0.5,
        lambda frame: None,
        lambda frame: set(probability(frame)),
    ],
    "for 7 rows; it must be (7,)": [lambda frame: probability(frame)[: len(frame) // 2 * 2]],
    "not an array of scores": [lambda frame: [[0.5], *[[0.5, 0.5]] * (len(frame) - 1)]],
    'gives classes such as "yes"': [lambda frame: ["yes"] * len(frame), lambda frame: pd.Series(["yes"] * len(frame))],
    "gives classes such as": [
        lambda frame: probability(frame).astype(str),
        lambda frame: np.array(["a\nb"] * len(frame)),
    ],
    "gives complex128, not scores": [lambda frame: probability(frame) + 0j],
    "whole numbers such as classes": [lambda frame: probability(frame) > 0.5],
    "masked values": [lambda frame: np.ma.masked_less(probability(frame), 0.5)],
    "which is not finite, for {'age'": [
        lambda frame: np.where(frame["age"] > 40, np.nan, 0.5),
        lambda frame: np.full(len(frame), np.inf),
        Later(lambda frame, calls: np.full(len(frame), np.nan)),
    ],
    "fails on 128 rows: KeyError": [lambda frame: frame["no such column"]],
    "fails on 128 rows: ValueError: first": [raises(ValueError("first\nsecond"))],
    "fails on 128 rows: NoTextError": [raises(NoTextError())],
    "rows: ZeroDivisionError": [Later(lambda frame, calls: 1 / 0)],
    "is not deterministic": [
        lambda frame: RANDOM.random(len(frame)),
        Later(lambda frame, calls: RANDOM.random(len(frame))),
        Later(lambda frame, calls: np.clip(probability(frame) + 0.01 * (calls - 6), 0, 1)),
        Later(lambda frame, calls: probability(frame) / 2),
    ],
    "2 scores for each person, and 1 in another run": [
        Later(lambda frame, calls: np.column_stack([1 - probability(frame), probability(frame)]))
    ],
    "who else is in the batch": [lambda frame: (frame["age"] > frame["age"].mean()) * 0.5],
    "changes the rows that it is given; let it work on a copy": [
        changes_its_input,
        lambda frame: frame.insert(0, "new", 1) or probability(frame),
        Later(lambda frame, calls: changes_its_input(frame)),
    ],
}


def repair_by_average(model, spec, frame):
    return fairmend.repair(model, spec, frame[:20], frame[20:], spec.labels(frame[20:]), method="average")


def search_without_gradients(model, spec, frame):
    return fairmend.search(model, spec, frame, "grft", seeds=10, local_steps=2)


COMMANDS = [fairmend.audit, fairmend.certify, search_without_gradients, repair_by_average]


def test_functions_of_people_that_are_no_models():
    frame, spec = people_models.people(60), people_models.people_spec()
    for said, functions in WRONG.items():
        for score in functions:
            for command in COMMANDS:
                if isinstance(score, Later):
                    score.calls = 0
                with pytest.raises(FairmendError) as caught:
                    command(fairmend.load_model(score, takes="people"), spec, frame)
                assert said in str(caught.value)
                assert "\n" not in str(caught.value)


def test_what_interrupts_a_program_is_no_failure_of_a_function():
    frame, spec = people_models.people(60), people_models.people_spec()
    for error in (KeyboardInterrupt(), GeneratorExit()):
        for score in (raises(error), Later(lambda frame, calls, error=error: raises(error)(frame))):
            for command in COMMANDS:
                if isinstance(score, Later):
                    score.calls = 0
                with pytest.raises(type(error)) as caught:
                    command(fairmend.load_model(score, takes="people"), spec, frame)
                assert caught.value is error


def test_functions_that_keep_something_but_score_people_alike_are_models():
    frame, spec = people_models.people(60), people_models.people_spec()
    buffer, kept, count = np.zeros((10_000, 3)), {}, []

    def into_its_own_memory(given):
        p = probability(given)
        buffer[: len(p)] = np.stack([p / 2, p / 2, 1 - p], axis=1)
        return buffer[: len(p)]

    def remembers(given):
        pairs = zip(given.itertuples(index=False), probability(given), strict=True)
        return np.array([kept.setdefault(person, p) for person, p in pairs])

    def counts(given):
        count.append(len(given))
        return probability(given)

    def three(given):
        return into_its_own_memory(given).copy()

    for score, plain in ((into_its_own_memory, three), (remembers, probability), (counts, probability)):
        found, expected = (
            [
                fairmend.audit(model, spec, frame).unequal.tolist(),
                fairmend.certify(model, spec, frame).counts,
                search_without_gradients(model, spec, frame).count,
            ]
            for model in (fairmend.load_model(each, takes="people") for each in (score, plain))
        )
        assert found == expected
        assert sum(found[0]) > 0


def bad_file(path, nodes, outputs=("rows", 1), kind=TensorProto.FLOAT):
    """Write a graph that reads `x` (rows, 4) and gives `p`; one and two are constants."""
    numbers = {"weight": np.full((4, 1), 0.01, np.float32), "one": np.ones(1, np.float32)}
    numbers |= {"first": np.array([0], np.int64), "far": np.array([10**6], np.int64)}
    graph = helper.make_graph(
        [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("p", kind, list(outputs))],
        [onnx.numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


SUM = ("MatMul", ["x", "weight"], ["s"])
FILES = {
    "is not deterministic": [SUM, ("RandomUniformLike", ["s"], ["r"]), ("Mul", ["s", "r"], ["p"])],
    "which is not finite": [SUM, ("Sub", ["one", "s"], ["d"]), ("Log", ["d"], ["p"])],
    "for 128 rows; it must be (128,)": [SUM, ("Concat", ["s", "s"], ["p"], {"axis": 0})],
    "who else is in the batch": [
        SUM, ("ReduceMean", ["s"], ["m"], {"axes": [0], "keepdims": 1}), ("Sub", ["s", "m"], ["p"])
    ],
    "fails on 128 rows": [("Gather", ["x", "far"], ["p"], {"axis": 1})],
}  # fmt: skip


def test_files_that_are_no_models(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people_models.people_spec(sex={"encoding": "ordinal"}, job={"encoding": "ordinal"}).save(tmp_path / "spec.toml")
    for said, nodes in FILES.items():
        bad_file(folder / "bad.onnx", nodes)
        for name, arguments in commands(folder, "bad.onnx").items():
            done = run(*arguments)
            if name in ("quantify", "export-vnnlib"):
                is_refused_in_a_line(done, "needs a network")
            elif name == "spec check":
                assert done.exit_code == 2
                assert said in " ".join(done.output.split())
            else:
                is_refused_in_a_line(done, said)
        assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
