"""Converted classifiers: label and probabilities of skl2onnx, and models that are no network."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.sklearn_models import LABELS, X, both, fitted


def converted(path, model, rows, **options):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed (extra: dev)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx.save(skl2onnx.to_onnx(model, rows[:1], options=options or None), path)
    return path


PIPELINES = {
    "plain": (None, np.float32, {}),
    "array": (None, np.float32, {"zipmap": False}),
    "standard": ([StandardScaler()], np.float32, {"zipmap": False}),
    "standard double": ([StandardScaler()], np.float64, {"zipmap": False}),
    "both scalers": ([MinMaxScaler(), StandardScaler()], np.float32, {}),
    "uncentred": ([StandardScaler(with_mean=False)], np.float32, {}),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("case", PIPELINES)
def test_what_skl2onnx_converts_is_read(labels, case, tmp_path):
    first, dtype, options = PIPELINES[case]
    rows = X.astype(dtype)
    model = fitted(labels, first=first, rows=rows)
    path = converted(tmp_path / "m.onnx", model, rows, **options)
    network = load_network(path)
    assert network.dtype == dtype
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    label, found = session.run(None, {session.get_inputs()[0].name: rows})
    if isinstance(found, list):
        found = np.array([[row[key] for key in model.classes_] for row in found])
    assert np.allclose(both(network.probabilities(rows)), found, atol=1e-5)
    assert (model.classes_[network.predict(rows)] == label).all()


def test_outputs_that_are_something_else_are_refused(tmp_path):
    path = converted(tmp_path / "m.onnx", fitted("three"), X.astype(np.float32), zipmap="columns")
    with pytest.raises(FairmendError, match="4 outputs; convert it with one output of scores"):
        load_network(path)
    path = converted(tmp_path / "m.onnx", fitted("three"), X.astype(np.float32), zipmap=False)
    model = onnx.load(path)
    (largest,) = [node for node in model.graph.node if node.op_type == "ArgMax"]
    largest.op_type = "ArgMin"
    onnx.save(model, path)
    with pytest.raises(FairmendError, match="is not the class of the largest score"):
        load_network(path)


def test_a_linear_model_is_refused_with_a_way_that_works(tmp_path):
    model = LogisticRegression().fit(X, LABELS["binary"])
    for options in ({}, {"zipmap": False}):
        path = converted(tmp_path / "m.onnx", model, X.astype(np.float32), **options)
        with pytest.raises(FairmendError, match=r"LinearClassifier\) is a linear model.*load_network\(est") as caught:
            load_network(path)
        assert "zipmap" not in str(caught.value)
    load_network(model).save(path)
    assert (load_network(path).predict(X) == model.predict(X)).all()


def test_trees_are_refused_as_no_network(tmp_path):
    path = converted(tmp_path / "m.onnx", DecisionTreeClassifier().fit(X, LABELS["binary"]), X.astype(np.float32))
    with pytest.raises(FairmendError, match=r"TreeEnsembleClassifier\) is not a neural network"):
        load_network(path)
