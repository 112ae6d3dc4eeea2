"""ONNX graphs: one input of rows, one output, a chain between them."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend_check.errors import CheckError
from fairmend_check.readers.read_model import read_model
from support.onnx_files import A, B, W, node, save
from support.sklearn_models import LABELS, X, both, fitted

# Converted classifiers: label and probabilities of skl2onnx, and models that are no network.


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
    with pytest.raises(FairmendError, match=r"4 outputs \(.*\); convert it with one output of scores"):
        load_network(path)
    path = converted(tmp_path / "m.onnx", fitted("three"), X.astype(np.float32), zipmap=False)
    model = onnx.load(path)
    (largest,) = [node for node in model.graph.node if node.op_type == "ArgMax"]
    largest.op_type = "ArgMin"
    onnx.save(model, path)
    with pytest.raises(FairmendError, match="is not the class of the largest score"):
        load_network(path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_one_of_several_outputs_is_read_from_the_file_that_the_message_names(tmp_path):
    parts = {name: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)) for name in "ab"}

    class Two(torch.nn.ModuleDict):
        def forward(self, x):
            return self["a"](x), self["b"](x)

    several, one = str(tmp_path / "m.onnx"), str(tmp_path / "one.onnx")
    torch.onnx.export(
        Two(parts).eval(), (torch.zeros(2, 3),), several, dynamo=False, input_names=["x"], output_names=["a", "b"],
        dynamic_axes={"x": {0: "n"}},
    )  # fmt: skip
    with pytest.raises(FairmendError, match=r"2 outputs \(a and b\); .*onnx\.utils\.extract_model, from the inputs x"):
        load_network(several)
    with pytest.raises(CheckError, match="two outputs, and the first is not the label of the second"):
        read_model(Path(several))
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    for name, part in parts.items():
        onnx.utils.extract_model(several, one, ["x"], [name])
        given = part(torch.tensor(rows)).detach().numpy()[:, 0]
        assert np.allclose(load_network(one).logits(rows), given, atol=1e-6)


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


def test_inputs_that_are_no_rows_of_floats_are_refused(tmp_path):
    gemm = [node("Gemm", "x w b")]
    half = {"w": W.T.astype(np.float16), "b": B.astype(np.float16)}
    cases = [
        ({"element": TensorProto.FLOAT16, **half}, "input is FLOAT16.*float32 or float64"),
        ({"element": TensorProto.DOUBLE, **A}, "input is float64, the weights are float32"),
        ({"axes": ["n", 2, 2], **A}, "3 axes"),
        ({"axes": ["n", 5], **A}, "takes 4 values, but the layer before it gives 5"),
    ]
    for options, words in cases:
        with pytest.raises(FairmendError, match=words):
            load_network(save(tmp_path / "m.onnx", gemm, **options))
    assert load_network(save(tmp_path / "m.onnx", gemm, axes=["n", "features"], **A)).inputs == 4


def test_inputs_that_nothing_reads_are_refused_and_listed_initialisers_are_not_inputs(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Gemm", "x w b")], **A)
    model = onnx.load(path)
    for name in ("w", "b"):
        shape = A[name].shape
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    onnx.save(model, path)
    assert load_network(path).outputs == 3
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    onnx.save(model, path)
    with pytest.raises(FairmendError, match="2 inputs, and its output does not depend on 'z'"):
        load_network(path)


def test_a_transpose_that_does_not_exchange_two_axes_is_refused(tmp_path):
    """ONNX Runtime up to 1.29 takes any Transpose before a Gemm for one that does."""
    nodes = [node("Transpose", "w", "t", perm=[0, 1]), node("Gemm", "x t b")]
    with pytest.raises(FairmendError, match=r"the order of axes \[0, 1\], which ONNX Runtime up to 1.29 ignores"):
        load_network(save(tmp_path / "m.onnx", nodes, **A))
    nodes[0] = node("Transpose", "w", "t")
    with pytest.raises(FairmendError, match=r"a constant of shape \(1, 3, 4\)"):
        load_network(save(tmp_path / "m.onnx", nodes, w=W[None], b=B))
    assert np.array_equal(load_network(save(tmp_path / "m.onnx", nodes, w=W, b=B)).affines[0].weight, W)


def test_a_loop_is_refused_for_what_it_is(tmp_path):
    """Its graph reads the input, which no node outside reads: the output depends on the input all the same."""
    rows = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
    state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "o")]
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    on = helper.make_tensor_value_info("on", TensorProto.BOOL, [])
    still = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
    body = helper.make_graph(
        [node("Identity", "on", "still"), node("Add", "s x", "o")], "body", [count, on, state[0]], [still, rows]
    )
    loop = helper.make_node("Loop", ["times", "", "start"], ["sum"], body=body)
    constants = {"times": np.array(2), "start": np.zeros((1, 4), np.float32)}
    path = save(tmp_path / "m.onnx", [loop, node("Gemm", "sum w b")], **constants, **A)
    with pytest.raises(FairmendError, match=r"'sum' \(Loop\) runs a graph of its own.*EmbeddingBag"):
        load_network(path)
