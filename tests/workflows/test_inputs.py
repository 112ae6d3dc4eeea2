"""The files of a command are read, and refused if they do not fit together."""

import json

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.spec import Label, Spec
from fairmend.spec.out_of_range import OutOfRange, Outside
from fairmend.workflows.inputs import (
    InputOptions,
    Inputs,
    load_people,
    save_widened_spec,
    widened_spec_file,
    without_scores,
)
from support.cli_case import Case, refused_in_one_line, run, small_network, small_people, small_spec
from support.threshold_cases import probabilities


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def load(case, **options):
    return Inputs(case.model, case.spec, None, InputOptions(activation="relu", **options)).load()


def test_a_model_and_its_spec_are_read(case):
    assert load(case) == (small_spec(), small_network())


def test_a_model_of_another_width_is_refused_with_both_files(case):
    Network([Affine(np.ones((1, 3), np.float32), np.ones(1, np.float32))], []).save(case.model)
    with pytest.raises(FairmendError, match=r"model\.onnx.*reads 3 columns"):
        load(case)


def test_people_are_all_rows_or_some_drawn_by_seed(case):
    spec, net = small_spec(), small_network()
    everyone = load_people(case.data, spec, net)
    assert everyone.rows.tolist() == list(range(2, len(small_people()) + 2))  # as a spreadsheet counts
    np.testing.assert_array_equal(everyone.X, spec.encode(small_people()))
    some = load_people(case.data, spec, net, rows=7, seed=3)
    assert len(set(some.rows.tolist())) == 7
    np.testing.assert_array_equal(some.X, everyone.X[some.rows - 2])
    assert some.rows.tolist() == load_people(case.data, spec, net, rows=7, seed=3).rows.tolist()
    assert some.rows.tolist() != load_people(case.data, spec, net, rows=7, seed=4).rows.tolist()


def test_a_row_that_does_not_fit_is_named_with_its_file(case):
    case.write(small_people().assign(age=300))
    with pytest.raises(FairmendError, match=r"people\.csv: .*age.*row 2"):
        load_people(case.data, small_spec(), small_network())


def test_a_bad_row_among_drawn_ones_is_named_by_its_row_in_the_file(case):
    case.write(small_people().assign(age=lambda f: f["age"].where(f.index != 5, 300)))
    with pytest.raises(FairmendError, match="row 7: 300"):
        load_people(case.data, small_spec(), small_network(), rows=199, seed=1)


def test_the_spec_with_wider_ranges_is_written_beside_an_output_but_over_no_input(case):
    path = widened_spec_file(case.folder / "certificate.json", [case.spec])
    assert path.name == "certificate.spec.toml"
    spec, done = small_spec(), OutOfRange("widen", 1, {"credits": Outside(above=1)}, {"credits": (0, 9)})
    assert save_widened_spec(spec, OutOfRange("clip", 1), path) is None
    assert not path.exists()
    assert save_widened_spec(spec.widen(done.ranges), done, path) == path
    assert Spec.load(path).features[3].range == (0, 9)
    with pytest.raises(FairmendError, match="would overwrite an input"):
        widened_spec_file(case.folder / "certificate.json", [path])
    path.unlink()
    path.symlink_to(case.folder.parent / "profile")
    with pytest.raises(FairmendError, match="would be written outside of"):
        widened_spec_file(case.folder / "certificate.json", [case.spec])


COMMANDS = {
    "audit": ("--no-report",),
    "certify": ("--rows", 20),
    "search": ("--seeds", 5, "--local-steps", 2),
    "export-vnnlib": ("--out", "vnnlib", "--rows", 20),
    "repair": ("--out", "repaired", "--method", "blind", "--repair-rows", 10, "--calibration-rows", 50, "--steps", 2),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_spec_that_does_not_reproduce_the_scores_in_the_data_is_refused(case, command, monkeypatch):
    monkeypatch.chdir(case.folder)
    right = small_spec()
    case.write(small_people().assign(p=small_network().probabilities(right.encode(small_people()))))
    arguments = (command, case.model, "--spec", case.spec, "--data", case.data, *COMMANDS[command])
    age, gender, income, loans = right.features
    Spec([age, gender, loans, income], Label("good", "yes", score="p")).save(case.spec)
    before = case.listing()
    refused_in_one_line(run(*arguments), 'people.csv, column "p": not verified: ')
    assert case.listing() == before
    Spec(right.features, Label("good", "yes", score="p")).save(case.spec)
    assert run(*arguments).exit_code in (0, 1)
    if command == "repair":  # the scores are not those of the repaired network
        again = ("audit", "repaired/model.onnx", "--spec", "repaired/spec.toml", "--data", case.data, "--no-report")
        assert run(*again).exit_code in (0, 1)
        assert run(*again[:3], case.spec, *again[4:]).exit_code == 2
        assert run(*again[:3], case.spec, *again[4:], "--ignore-scores").exit_code in (0, 1)


def test_a_spec_without_scores_keeps_everything_else():
    spec = Spec(small_spec().features, Label("good", "yes", score="p"))
    assert without_scores(spec) == small_spec()
    assert without_scores(small_spec()) is not None


def test_a_threshold_on_the_command_line_replaces_that_of_the_spec(case):
    small_spec().at_threshold(0.4).save(case.spec)
    spec, net = load(case)
    assert (spec.threshold, net.threshold) == (0.4, 0.4)
    spec, net = load(case, threshold=0.3)
    assert (spec, net) == (small_spec().at_threshold(0.3), small_network().at_threshold(0.3))
    Spec(small_spec().features).save(case.spec)
    with pytest.raises(FairmendError, match=r"spec\.toml: a threshold needs \[label\] in the spec"):
        load(case, threshold=0.3)


def test_every_command_decides_at_the_threshold(case, tmp_path):
    """The unequal people of an audit at 0.3 are those that enumeration of ONNX Runtime's probabilities finds."""
    spec, folder = small_spec(), tmp_path / "out"
    X = spec.as_inputs(small_people(), np.float32)
    points = [np.concatenate([chunk for _, chunk in spec.points(x[None], dtype=np.float32)]) for x in X]
    computed = probabilities(
        Network(small_network().affines, small_network().activations, "sigmoid"),
        tmp_path / "p.onnx",
        np.concatenate(points),
    )
    decisions = np.split(computed >= 0.3, np.cumsum([len(each) for each in points])[:-1])
    unequal = sum(len(set(each.tolist())) == 2 for each in decisions)
    files = ("--spec", case.spec, "--data", case.data, "--threshold", 0.3)
    audited = run("audit", case.model, *files, "--report", folder / "audit")
    assert audited.exit_code == 1
    assert f"{unequal}" in audited.stdout
    assert "at the threshold 0.3" in audited.stdout
    assert "a different prediction at the threshold 0.3 if only their" in (folder / "audit/report.html").read_text()
    certified = json.loads(run("certify", case.model, *files, "--json").stdout)
    assert certified["counts"]["unfair"] == unequal
    assert certified["threshold"] == 0.3
    exported = json.loads(
        run("export-vnnlib", case.model, *files, "--rows", 2, "--out", folder / "vnnlib", "--json").stdout
    )
    assert exported["threshold"] == 0.3
    repaired = json.loads(
        run(
            "repair", case.model, *files, "--method", "blind", "--steps", 2, "--out", folder / "repair", "--json"
        ).stdout
    )
    assert repaired["threshold"] == 0.3
    assert Spec.load(folder / "repair/spec.toml").threshold == 0.3
    searched = run("search", case.model, *files, "--seeds", 5, "--local-steps", 2)
    assert "at the threshold 0.3" in searched.stdout
    explained = run("spec", "check", case.spec, "--threshold", 0.3)
    assert "It is predicted from a probability of 0.3 on." in explained.stdout


def test_several_classes_with_a_threshold_are_refused_in_one_line(case):
    small_network(3).save(case.model)
    answer = run("certify", case.model, "--spec", case.spec, "--data", case.data, "--threshold", 0.3)
    assert answer.exit_code == 2
    assert answer.stderr.startswith("Error: a threshold of 0.3 needs two classes, but the network has 3 outputs.")
    assert answer.stderr.count("\n") == 1
