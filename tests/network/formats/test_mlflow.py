"""Model folders of MLflow, which are read without MLflow, and URIs, which are not."""

import sys
import types
from pathlib import Path

import pytest

from fairmend import FairmendError, load_model, load_network
from fairmend.network.formats.mlflow import model_file
from support.cli_case import Case, run, small_network

DESCRIPTION = """artifact_path: model
flavors:
  {flavor}:
    {key}: {data}
    version: 1.0
  python_function:
    data: elsewhere
    loader_module: mlflow.{flavor}
mlflow_version: 3.1.0
"""


def folder_of(path, flavor="onnx", key="data", data="model.onnx"):
    path.mkdir()
    (path / "MLmodel").write_text(DESCRIPTION.format(flavor=flavor, key=key, data=data))
    return path


@pytest.fixture
def onnx_folder(tmp_path):
    folder = folder_of(tmp_path / "served")
    small_network().save(folder / "model.onnx")
    return folder


def test_the_onnx_file_of_a_folder_is_read_without_mlflow(onnx_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for load in (load_network, load_model):
        assert load(onnx_folder).inputs == small_network().inputs
        assert load(str(onnx_folder)).inputs == small_network().inputs


@pytest.mark.parametrize(
    ("flavor", "key", "file"), [("keras", "data", "model.keras"), ("tensorflow", "data", "model.keras")]
)
def test_the_file_in_the_data_of_a_folder_is_found(tmp_path, flavor, key, file):
    folder = folder_of(tmp_path / "served", flavor, key, "data")
    (folder / "data").mkdir()
    small_network().save(folder / "data" / file)
    (folder / "data" / "keras_module.txt").write_text("keras")
    assert load_network(folder).inputs == small_network().inputs


def test_a_folder_is_a_model_for_the_commands(tmp_path, onnx_folder):
    case = Case(tmp_path)
    expected = run("audit", case.model, "--data", case.data, "--spec", case.spec, "--json")
    (onnx_folder / "model.onnx").write_bytes(Path(case.model).read_bytes())
    found = run("audit", onnx_folder, "--data", case.data, "--spec", case.spec, "--json")
    assert found.exit_code == expected.exit_code == 1
    assert found.stdout.split('"count"')[1][:20] == expected.stdout.split('"count"')[1][:20]


def one_line(result):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_folder_without_a_model_is_one_line(tmp_path):
    case = Case(tmp_path)
    folder = folder_of(tmp_path / "served")
    asked = ["--data", case.data, "--spec", case.spec]
    assert f"{folder}: the MLflow model folder names 'model.onnx', which is not there" in one_line(
        run("audit", folder, *asked)
    )
    (folder / "MLmodel").write_text("")
    assert "without a file that fairmend reads (its flavors: none)" in one_line(run("audit", folder, *asked))
    (folder / "MLmodel").unlink()
    assert "this is a folder; give the model file in it" in one_line(run("audit", folder, *asked))


@pytest.mark.parametrize(
    ("flavor", "key", "data", "words"),
    [
        ("xgboost", "data", "model.ubj", "save it as one file"),
        ("pytorch", "model_data", "data/model.pth", "mlflow.pytorch.load_model"),
    ],
)
def test_what_could_run_code_is_refused_by_name(tmp_path, flavor, key, data, words):
    folder = folder_of(tmp_path / "served", flavor, key, data.partition("/")[0])
    (folder / data).parent.mkdir(exist_ok=True)
    (folder / data).write_bytes(b"x")
    with pytest.raises(FairmendError, match=rf"is an MLflow model folder without.*its flavors: {flavor}.*{words}"):
        load_network(folder)


@pytest.mark.parametrize("name", ["model.pkl", "model.skops"])
def test_a_pipeline_is_for_commands_which_open_pickles_only_if_told_to(tmp_path, name):
    folder = folder_of(tmp_path / "served", "sklearn", "pickled_model", name)
    (folder / name).write_bytes(b"x")
    assert model_file(folder) == folder / name
    with pytest.raises(FairmendError, match=rf"{name}.*cannot read files with the suffix"):
        load_network(folder)


def test_a_folder_does_not_lead_out_of_itself(tmp_path):
    small_network().save(tmp_path / "secret.onnx")
    folder = folder_of(tmp_path / "served", data="../secret.onnx")
    with pytest.raises(FairmendError, match="leads out of"):
        load_network(folder)


def test_a_uri_without_mlflow_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    case = Case(tmp_path)
    for uri in ("models:/credit/1", "runs:/abc/model"):
        with pytest.raises(FairmendError, match=r"needs mlflow: pip install 'fairmend\[mlflow\]'"):
            load_network(uri)
        assert "pip install" in one_line(run("certify", uri, "--data", case.data, "--spec", case.spec))


def test_what_mlflow_downloads_is_read(monkeypatch, onnx_folder, tmp_path):
    asked = []

    def download(artifact_uri, dst_path):
        asked.append(artifact_uri)
        if "missing" in artifact_uri:
            raise RuntimeError("no such model\nand more")
        return str(tmp_path if "empty" in artifact_uri else onnx_folder)

    mlflow = types.ModuleType("mlflow")
    mlflow.artifacts = types.SimpleNamespace(download_artifacts=download)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    assert model_file("models:/credit/1") == onnx_folder / "model.onnx"
    assert load_model("runs:/abc/model").inputs == small_network().inputs
    assert asked == ["models:/credit/1", "runs:/abc/model"]
    with pytest.raises(FairmendError, match=r"^models:/missing/1: MLflow cannot download the model \(no such model\)$"):
        load_network("models:/missing/1")
    with pytest.raises(FairmendError, match="holds no file MLmodel"):
        load_network("models:/empty/1")
