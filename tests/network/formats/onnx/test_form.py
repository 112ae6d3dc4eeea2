"""ONNX files keep all but their weights: names, shapes, further outputs, metadata, nodes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from fairmend.network import Affine, load_network
from fairmend_check.readers.read_model import read_model
from support.onnx_files import node

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)).astype(np.float32)
ARRAYS = {name: RNG.normal(size=(3, 3) if name in "wv" else 3).astype(np.float32) for name in "wvbgm"}
ARRAYS |= {"flat": np.array([-1])}
ARRAYS |= {"s": np.float32([0.5, 1, 2]), "one": np.float32([1]), "o": RNG.normal(size=(3, 1)).astype(np.float32)}


def write(path, nodes, outputs):
    """Write a graph with names, metadata and constants of its own: half of them in Constant nodes."""
    used = [name for name in ARRAYS if any(name in one.input for one in nodes)]
    tensors = {name: numpy_helper.from_array(ARRAYS[name], name) for name in used}
    constants = [helper.make_node("Constant", [], [name], value=tensors[name]) for name in used[::2]]
    values = [helper.make_tensor_value_info("people", TensorProto.FLOAT, ["N", 3])], outputs
    graph = helper.make_graph([*constants, *nodes], "mine", *values, [tensors[name] for name in used[1::2]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9, producer_name="me")
    helper.set_model_props(model, {"owner": "bank"})
    onnx.save(model, path)
    return path


def score(name, columns=1):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", columns])


GRAPHS = {
    "a constant that two layers read": (
        [node("Gemm", "people w b", "p"), node("Relu", "p", "q"), node("Gemm", "q v b", "risk")],
        [score("risk", 3)],
    ),
    "a norm": (
        [
            *(node("MatMul", "people w", "p"), node("BatchNormalization", "p g b m s", "q"), node("Relu", "q", "r")),
            *(node("Gemm", "r o one", "t"), node("Sigmoid", "t", "risk")),
        ],
        [score("risk")],
    ),
    "no bias": (
        [node("Gemm", "people w", "p"), node("Relu", "p", "q"), node("MatMul", "q o", "risk")],
        [score("risk")],
    ),
    "scaling": (
        [node("Sub", "people m", "p"), node("Div", "p s", "q"), node("Gemm", "q w b", "risk")],
        [score("risk", 3)],
    ),
}


def signature(session):
    return [[(one.name, one.shape, one.type) for one in ends] for ends in (session.get_inputs(), session.get_outputs())]


@pytest.mark.parametrize("name", GRAPHS)
def test_only_the_weights_change(name, tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS[name])
    network, before = load_network(path), InferenceSession(path)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 0.5) for a in network.affines])
    changed.save(path)
    after = InferenceSession(path)
    assert signature(after) == signature(before)
    assert after.get_modelmeta().custom_metadata_map == {"owner": "bank"}
    assert after.get_modelmeta().producer_name == "me"
    assert load_network(path) == changed
    expected = changed.probabilities(X)[:, None] if changed.closing == "sigmoid" else changed.logits(X)
    found = after.run(["risk"], {"people": X})[0]
    assert np.allclose(found, expected.reshape(found.shape), atol=1e-4)
    kinds = [one.op_type for one in onnx.load(path).graph.node if one.op_type != "Constant"]
    assert kinds == [one.op_type for one in GRAPHS[name][0]]


def test_a_network_that_did_not_change_gives_the_same_bytes(tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS["a norm"])
    before = path.read_bytes()
    load_network(path).save(path)
    assert path.read_bytes() == before


def test_weights_are_no_longer_inputs_that_a_caller_could_replace(tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS["scaling"])
    model = onnx.load(path)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    onnx.save(model, path)
    network = load_network(path)
    network.save(path)
    assert [value.name for value in onnx.load(path).graph.input] == ["people"]
    assert load_network(path) == network
    read_model(path)  # the checker reads it now


def plain(path, nodes, outputs):
    """Return a network of a file, the same in fairmend's own form, and what that changes for a program."""
    network = load_network(write(path / "m.onnx", nodes, outputs))
    network.save(path / "own.onnx", keep_form=False)
    return network, onnx.load(path / "own.onnx").graph, network.form.changes_in((path / "own.onnx").read_bytes())


def test_fairmends_own_form_has_the_names_of_the_original_where_rows_stay_the_same(tmp_path):
    nodes = [node("Gemm", "people w b", "p"), node("Relu", "p", "q"), node("Gemm", "q o", "risk")]
    network, graph, changes = plain(tmp_path, nodes, [score("risk")])
    assert [value.name for value in (*graph.input, *graph.output)] == ["people", "risk"]
    assert changes == ""
    session = InferenceSession(tmp_path / "own.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["risk"], {"people": X})[0][:, 0], network.logits(X), atol=1e-5)


def test_fairmends_own_form_names_other_outputs_anew_and_says_so(tmp_path):
    """A program that reads probabilities by the name of their logarithms would decide on other numbers."""
    nodes = [node("Gemm", "people w b", "p"), node("LogSoftmax", "p", "logs", axis=1)]
    _, graph, changes = plain(tmp_path, nodes, [score("logs", 3)])
    assert [value.name for value in (*graph.input, *graph.output)] == ["people", "output"]
    assert "the output 'logs' (float32, 3 columns) became 'output' (float32, 3 columns)" in changes
    assert "probabilities took the place of their logarithms" in changes
    nodes = [node("Gemm", "people w b", "p"), node("Gemm", "p o", "q"), node("Reshape", "q flat", "risk")]
    _, graph, changes = plain(tmp_path, nodes, [helper.make_tensor_value_info("risk", TensorProto.FLOAT, ["N"])])
    assert graph.output[0].name == "output"
    assert changes == "the output 'risk' (float32, 1 axis) became 'output' (float32, 1 column)"
