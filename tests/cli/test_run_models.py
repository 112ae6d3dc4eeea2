"""Commands take any ONNX file, and refuse in one line what needs a network."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import fairmend
from fairmend import load_model
from fairmend.cli.main import main
from fairmend.workflows import check_spec_file, draft_spec_file
from support import people_models

FRAME = people_models.people(120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    people_models.save_tree_pipeline(people_models.tree_pipeline(FRAME), folder / "trees.onnx")
    people_models.people_spec().save(folder / "spec.toml")
    FRAME.to_csv(folder / "people.csv", index=False)
    return folder


def run(folder, command, *options, data=True):
    given = ["--data", str(folder / "people.csv")] if data else []
    spec = str(folder / "spec.toml")
    return CliRunner().invoke(main, [command, str(folder / "trees.onnx"), "--spec", spec, *given, *options])


def test_audit_says_what_runs_the_model_and_writes_a_report(folder, tmp_path):
    done = run(folder, "audit", "--report", str(tmp_path / "report"), "--out", str(tmp_path / "pairs.csv"))
    assert done.exit_code == 1, done.output
    line = next(line for line in done.output.splitlines() if "is run by" in line)
    assert line.startswith("trees.onnx is run by ONNX Runtime ")
    assert "TreeEnsembleClassifier" in line
    assert "only run" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "pairs.csv").stat().st_size > 0


def test_audit_and_certify_agree(folder):
    audited = json.loads(run(folder, "audit", "--no-report", "--json").stdout)
    certified = json.loads(run(folder, "certify", "--json").stdout)
    assert audited["exact"]
    assert certified["counts"]["unfair"] == audited["count"] > 0
    assert certified["runtime"].startswith("ONNX Runtime ")
    assert "by enumeration in ONNX Runtime " in run(folder, "certify").output


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("quantify", (), "quantify needs a network"),
        ("search", (), "search with adf follows gradients, but trees.onnx is only run"),
        ("export-vnnlib", ("--out", "problems"), "export-vnnlib needs a network"),
        ("certify", ("--certificate", "c.json"), "--certificate needs a network"),
        ("certify", ("--engine", "branch"), "use engine enumerate"),
        ("audit", ("--no-report", "--outputs", "number"), "predicts a number"),
    ],
)
def test_what_is_not_possible_is_refused_in_a_line(folder, tmp_path, monkeypatch, command, options, said):
    monkeypatch.chdir(tmp_path)
    done = run(folder, command, *options)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_search_runs_any_model_with_the_tester_that_needs_no_gradients(folder, tmp_path):
    options = ("--method", "grft", "--seeds", "20", "--local-steps", "20", "--json")
    done = run(folder, "search", *options, "--out", str(tmp_path / "found.csv"))
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    assert found["count"] > 0
    model, spec = load_model(folder / "trees.onnx"), people_models.people_spec()
    model = model.bind(spec)
    pairs = pd.read_csv(tmp_path / "found.csv")
    rows = pairs[list(FRAME.columns[:4])]
    assert len(pairs) == found["count"]
    assert fairmend.audit(model, spec, rows).count == len(rows)  # the audit, which knows nothing of the tester, agrees


def test_search_in_python_takes_an_estimator_and_a_function():
    pipeline, spec = people_models.tree_pipeline(FRAME), people_models.people_spec()
    for model in (pipeline, load_model(pipeline.predict_proba, takes="people")):
        found = fairmend.search(model, spec, FRAME, "grft", seeds=40, local_steps=5)
        assert found.count
        with pytest.raises(fairmend.FairmendError, match="use method grft, which needs none"):
            fairmend.search(model, spec, FRAME)


def test_spec_init_reads_the_names_and_types_of_the_inputs(folder, tmp_path):
    frame = FRAME.assign(note="x", extra=1.5)[["note", "hours", "job", "extra", "sex", "age", "good"]]
    frame.to_csv(tmp_path / "other.csv", index=False)
    arguments = [str(tmp_path / "other.csv"), "--model", str(folder / "trees.onnx"), "--label", "good"]
    done = CliRunner().invoke(
        main, ["spec", "init", *arguments, "--protected", "sex", "--out", str(tmp_path / "spec.toml")]
    )
    assert done.exit_code == 0, done.output
    spec = fairmend.Spec.load(tmp_path / "spec.toml")
    assert [(f.name, f.kind, f.width, f.scale) for f in spec.features] == [
        ("age", "integer", 1, None),
        ("sex", "categorical", 1, None),
        ("job", "categorical", 1, None),
        ("hours", "integer", 1, None),
    ]
    assert (
        fairmend.audit(folder / "trees.onnx", spec, FRAME).count
        == json.loads(run(folder, "audit", "--no-report", "--json").stdout)["count"]
    )


def test_spec_check_runs_the_model_and_says_what_does_not_fit(folder, tmp_path):
    def check(spec):
        model, data = str(folder / "trees.onnx"), str(folder / "people.csv")
        return CliRunner().invoke(main, ["spec", "check", str(spec), "--data", data, "--model", model])

    done = check(folder / "spec.toml")
    assert done.exit_code == 0, done.output
    assert "trees.onnx reads 4 columns, as the spec describes" in done.output
    assert "With this spec the model has accuracy" in done.output
    people_models.people_spec(sex={"encoding": "one-hot"}).save(tmp_path / "spec.toml")
    done = check(tmp_path / "spec.toml")
    assert done.exit_code == 2
    assert 'trees.onnx: input "sex" is string, but feature "sex" is one-hot' in " ".join(done.output.split())


def test_a_spec_is_drafted_for_an_estimator_in_memory(tmp_path):
    FRAME.assign(note="x")[["good", "note", "hours", "job", "sex", "age"]].to_csv(tmp_path / "people.csv", index=False)
    pipeline = people_models.tree_pipeline(FRAME)
    drafted = draft_spec_file(tmp_path / "people.csv", ["sex"], tmp_path / "spec.toml", label="good", model=pipeline)
    assert drafted.fits
    spec = fairmend.Spec.load(tmp_path / "spec.toml")
    assert [f.name for f in spec.features] == ["age", "sex", "job", "hours"]
    assert check_spec_file(tmp_path / "spec.toml", tmp_path / "people.csv", pipeline).check.fits
