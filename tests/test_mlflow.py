"""Logging to MLflow, with a module in its place that writes down what it is given."""

import json
import sys
import types
from pathlib import Path

import pytest

import fairmend
from fairmend.mlflow import log_repair
from support.cli_case import Case, run
from support.report_cases import audit_of, repair_of, repaired


class Recorder(types.ModuleType):
    """MLflow's functions that `log_repair` calls."""

    def __init__(self):
        super().__init__("mlflow")
        self.metrics, self.tags, self.artifacts = {}, {}, {}

    def log_metrics(self, metrics):
        assert all(isinstance(value, int | float) for value in metrics.values())
        self.metrics.update(metrics)

    def set_tags(self, tags):
        assert all(isinstance(value, str) for value in tags.values())
        self.tags.update(tags)

    def log_artifact(self, path, folder):
        self.artifacts[f"{folder}/{Path(path).name}"] = Path(path).read_bytes()


@pytest.fixture
def mlflow(monkeypatch):
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", recorder)
    return recorder


def test_a_result_is_logged_with_a_certificate_that_checks(mlflow, tmp_path):
    result = repaired("blind")[0]
    log_repair(result)
    assert set(mlflow.artifacts) == {"fairmend/model.onnx", "fairmend/certificate.json"}
    for name, content in mlflow.artifacts.items():
        (tmp_path / Path(name).name).write_bytes(content)
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid
    assert mlflow.metrics["fairmend.proven"] == result.proven
    assert mlflow.tags["fairmend.claim"] == result.certificate.claim


def test_a_report_adds_its_figures_and_files(mlflow):
    result, report = repaired("auto")[0], repair_of("auto")
    log_repair(result, report, folder="fair")
    assert {"fair/report.html", "fair/result.json", "fair/report.md"} <= set(mlflow.artifacts)
    assert mlflow.artifacts["fair/report.html"].decode() == report.html
    assert mlflow.metrics["fairmend.accuracy_after"] == report.document.after.utility.accuracy


def test_the_folder_of_the_command_is_logged_without_the_repair_inputs(mlflow, tmp_path):
    case = Case(tmp_path)
    (tmp_path / "about.toml").write_text('owner = "Credit risk"\n')
    arguments = ["--data", case.data, "--spec", case.spec, "--out", tmp_path / "out", "--repair-rows", 10]
    result = run("repair", case.model, *arguments, "--method", "blind", "--about", tmp_path / "about.toml")
    assert result.exit_code == 0, result.stderr
    assert json.loads((tmp_path / "out" / "result.json").read_text())["about"]["owner"] == "Credit risk"
    log_repair(tmp_path / "out")
    names = {name.removeprefix("fairmend/") for name in mlflow.artifacts}
    assert names == {
        *("model.onnx", "certificate.json", "spec.toml"),
        *("result.json", "report.html", "report.md"),
    }
    assert mlflow.tags["fairmend.about.owner"] == "Credit risk"
    assert mlflow.metrics["fairmend.idi_rate_after"] == 0


def test_what_is_no_repair_is_refused(mlflow, tmp_path):
    audit_of().save_data(tmp_path / "result.json")
    with pytest.raises(fairmend.FairmendError, match="holds the report on an audit"):
        log_repair(tmp_path)
    with pytest.raises(fairmend.FairmendError, match="the report is about an audit"):
        log_repair(repaired("auto")[0], audit_of())
    with pytest.raises(fairmend.FairmendError, match="Leave out report"):
        log_repair(tmp_path, repair_of())
    assert (mlflow.artifacts, mlflow.metrics) == ({}, {})


def test_without_mlflow_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(fairmend.FairmendError, match=r"pip install 'fairmend\[mlflow\]'"):
        log_repair(repaired("auto")[0])
