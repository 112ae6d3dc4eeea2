"""Logging to MLflow, with a module in its place that writes down what it is given."""

import json
import sys
import types
import warnings
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
        self.metrics, self.tags, self.artifacts, self.folders = {}, {}, {}, {}

    def log_metrics(self, metrics):
        assert all(isinstance(value, int | float) for value in metrics.values())
        self.metrics.update(metrics)

    def set_tags(self, tags):
        assert all(isinstance(value, str) for value in tags.values())
        self.tags.update(tags)

    def log_artifact(self, path, folder):
        self.artifacts[f"{folder}/{Path(path).name}"] = Path(path).read_bytes()

    def log_artifacts(self, path, folder):
        files = [file for file in Path(path).rglob("*") if file.is_file()]
        self.folders[folder] = {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


class Flavor(types.ModuleType):
    """A flavor's module, which writes a folder as MLflow does, the file in bytes of its own."""

    def save_model(self, model, path, pip_requirements):
        self.model = model
        Path(path).mkdir()
        (Path(path) / "MLmodel").write_text("flavors:\n  onnx:\n    data: model.onnx\n")
        (Path(path) / "model.onnx").write_bytes(b"other bytes")


@pytest.fixture
def mlflow(monkeypatch):
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", recorder)
    for flavor in ("onnx", "pytorch", "sklearn", "keras"):
        recorder.__dict__[flavor] = Flavor(f"mlflow.{flavor}")
        monkeypatch.setitem(sys.modules, f"mlflow.{flavor}", recorder.__dict__[flavor])
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


# The model with its flavor


def test_the_file_in_the_model_folder_is_the_one_that_the_certificate_is_about(mlflow, tmp_path):
    log_repair(repaired("blind")[0], folder="fair")
    folder = mlflow.folders["fair/model"]
    assert set(folder) == {"MLmodel", "model.onnx", "certificate.json"}
    assert folder["model.onnx"] == mlflow.artifacts["fair/model.onnx"]
    for name, content in folder.items():
        (tmp_path / name).write_bytes(content)
    assert run("check", tmp_path / "certificate.json", tmp_path).exit_code == 0


def repaired_from(model):
    _, spec, _, frame, y = repaired("blind")
    X = spec.encode(frame)
    return fairmend.repair(model, spec, X[:10], X[30:60], y[30:60], method="blind")


def test_a_module_is_logged_as_pytorch_and_as_onnx_if_asked(mlflow):
    from torch import nn

    result = repaired_from(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)))
    log_repair(result)
    assert isinstance(mlflow.pytorch.model, nn.Module)
    log_repair(result, flavor="onnx")
    assert mlflow.onnx.model.graph.node
    with pytest.raises(fairmend.FairmendError, match="the repaired model is no sklearn model"):
        log_repair(result, flavor="sklearn")


def test_an_estimator_is_logged_as_sklearn(mlflow):
    from sklearn.tree import DecisionTreeClassifier

    _, spec, _, frame, y = repaired("blind")
    X = spec.encode(frame)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    result = fairmend.repair(model, spec, X[:10], X[30:60], y[30:60])
    log_repair(result)
    assert mlflow.sklearn.model.predict(X[:3]).shape == (3,)


def test_a_flavor_that_is_none_is_refused_and_nothing_logged(mlflow):
    with pytest.raises(fairmend.FairmendError, match="'xgboost' is not one of onnx, keras, pytorch, sklearn"):
        log_repair(repaired("blind")[0], flavor="xgboost")
    assert (mlflow.artifacts, mlflow.metrics) == ({}, {})


def test_with_mlflow_itself_a_registered_model_is_read_and_checked(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'fairmend[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
        with mlflow.start_run() as active:
            log_repair(repaired("blind")[0])
        uri = f"runs:/{active.info.run_id}/fairmend/model"
        mlflow.register_model(uri, "credit")
        for source in (uri, "models:/credit/1"):
            assert fairmend.load_network(source).inputs == 5
        certificate = mlflow.artifacts.download_artifacts(artifact_uri=f"{uri}/certificate.json")
        assert run("check", certificate, "models:/credit/1").exit_code == 0
        refused = run("check", certificate, "models:/credit/2")
    assert refused.exit_code == 2
    assert "Error: models:/credit/2: MLflow cannot download the model" in refused.stderr
