"""The process that runs a model: what it feeds to ONNX Runtime and Keras, and what it leaves behind."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairmend_check.run import runtimes
from support import onnx_files


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Run a job as the process does, without its limits, which would stay."""
    monkeypatch.setattr(runtimes, "_limit", lambda: None)
    monkeypatch.setenv("KERAS_BACKEND", "torch")

    def run(model, rows, sizes=(1, 7, 20), runtime="onnxruntime"):
        job = {"runtime": runtime, "model": str(model), "sizes": list(sizes)}
        (tmp_path / runtimes.JOB).write_text(json.dumps(job))
        np.save(tmp_path / runtimes.ROWS, rows)
        runtimes.main(tmp_path)
        found = json.loads((tmp_path / runtimes.ANSWER).read_text())
        return found, np.load(tmp_path / runtimes.OUTPUTS) if "version" in found else None

    return run


def test_every_row_is_run_in_every_size(answer, tmp_path):
    model = onnx_files.save(tmp_path / "model.onnx", [onnx_files.node("Gemm", "x w b")], **onnx_files.A)
    found, outputs = answer(model, onnx_files.X)
    assert found["version"]
    assert np.bincount(outputs["numbers"]).min() >= 1
    assert np.bincount(outputs["numbers"])[0] >= 3
    exact = onnx_files.X.astype(float) @ onnx_files.W.T.astype(float) + onnx_files.B
    np.testing.assert_allclose(outputs["outputs"], exact[outputs["numbers"]], rtol=1e-4, atol=1e-4)


def test_columns_are_those_of_the_inputs_in_their_order(answer, tmp_path):
    """An input of whole numbers gets whole numbers, and one without an axis of columns gets rows alone."""
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    nodes = [
        helper.make_node("Gather", ["table", "code"], ["row"], axis=0),
        helper.make_node("Concat", ["x", "row"], ["y"], axis=1),
    ]
    inputs = [("x", TensorProto.FLOAT, ["n", 2]), ("code", TensorProto.INT64, ["n"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(table, "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rows = np.array([[0.5, 1.5, 2], [2.5, 3.5, 0]], np.float32)
    _, outputs = answer(tmp_path / "m.onnx", rows, sizes=[2])
    assert outputs["outputs"].tolist() == [[0.5, 1.5, 4, 5], [2.5, 3.5, 0, 1]]


def test_labels_and_maps_of_probabilities(answer, tmp_path):
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    X = onnx_files.X
    fitted = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    for zipmap in (True, False):
        model = to_onnx(fitted, X[:1], options={"zipmap": zipmap})
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        _, outputs = answer(tmp_path / "model.onnx", X)
        np.testing.assert_allclose(outputs["outputs"], fitted.predict_proba(X)[outputs["numbers"]], atol=1e-5)
        assert (outputs["labels"] == (X[outputs["numbers"], 0] > 0)).mean() > 0.9


def test_an_error_is_an_answer(answer, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    found, _ = answer(tmp_path / "model.onnx", onnx_files.X)
    assert found["refused"].startswith("ONNX Runtime ")
    found, _ = answer(tmp_path / "model.h5", onnx_files.X, runtime="keras")
    assert found["refused"].startswith("Keras ")
    model = onnx_files.save(tmp_path / "model.onnx", [onnx_files.node("Gemm", "x w b")], **onnx_files.A)
    found, _ = answer(model, onnx_files.X[:, :2])
    assert "error" in found
