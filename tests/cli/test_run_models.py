"""`audit` and `certify` take any ONNX file, and other commands refuse it in one line."""

import json

import pytest
from click.testing import CliRunner

from fairmend.cli.main import main
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
        ("search", (), "search needs a network"),
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
