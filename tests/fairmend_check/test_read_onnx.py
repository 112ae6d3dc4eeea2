"""The .onnx reader: chains of layers are read, everything else is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fairmend
from fairmend.network import Activation, Network
from fairmend.prove.certificate import certificate_of_blindness
from fairmend_check.errors import CheckError
from fairmend_check.read_model import read_model
from support.checker_cases import TWO_FEATURES, affine, outputs_of


def onnx_file(path, nodes, tensors, inputs=("x",), outputs=("y",)):
    value = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in side] for side in (inputs, outputs)
    ]
    arrays = [numpy_helper.from_array(np.asarray(array, dtype=np.float32), name) for name, array in tensors.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *value, arrays)), path)
    return path


W1, B1 = np.arange(6.0).reshape(2, 3), [1.0, 2.0, 3.0]  # (in, out)


W2 = np.arange(3.0).reshape(3, 1)


def test_matmul_and_add_are_an_affine_layer(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["b1", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "w2"], ["y"]),
    ]
    model, _ = read_model(onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2}))
    assert np.array_equal(model.weights[0], W1.T)
    assert np.array_equal(model.biases[0], B1)
    assert np.array_equal(model.weights[1], W2.T)
    assert np.array_equal(model.biases[1], [0.0])


GEMM = helper.make_node("Gemm", ["x", "w1", "b1"], ["a"])


LAST = helper.make_node("MatMul", ["c", "w2"], ["y"])


REFUSED = {
    "alpha": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], alpha=2.0)],
    "transA": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], transA=1)],
    "not a plain chain": [GEMM, helper.make_node("Add", ["a", "x"], ["y"])],
    "Conv": [GEMM, helper.make_node("Conv", ["a", "w2"], ["c"]), LAST],
    "outside of the chain": [GEMM, helper.make_node("Relu", ["z"], ["q"]), helper.make_node("Identity", ["a"], ["y"])],
    "Softmax at place": [GEMM, helper.make_node("Softmax", ["a"], ["c"]), LAST],
    "over the outputs": [GEMM, helper.make_node("Softmax", ["a"], ["y"], axis=0)],
    "several slopes": [GEMM, helper.make_node("PRelu", ["a", "b1"], ["c"]), LAST],
    "Tanh at place": [GEMM, helper.make_node("Tanh", ["a"], ["y"])],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_graphs_that_are_no_chain_of_layers(reason, tmp_path):
    nodes = REFUSED[reason]
    ends = nodes[-1].output
    path = onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2}, outputs=ends)
    with pytest.raises(CheckError, match=reason):
        read_model(path)


def test_a_circle_is_no_chain(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["x"])]
    with pytest.raises(CheckError, match="the graph is not a plain chain of layers"):
        read_model(onnx_file(tmp_path / "m.onnx", nodes, {}))


def test_the_oracle_of_these_tests_agrees_with_onnx_runtime(tmp_path):
    import onnxruntime

    from support.checker_cases import case

    for activation in ("relu", "leaky_relu", "tanh", "sigmoid", "identity"):
        made = case(activation=activation, outputs=3)
        made.network.save(tmp_path / "m.onnx")
        X = made.spec.sample_inputs(20, np.random.default_rng(0))
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {session.get_inputs()[0].name: X})
        assert np.allclose(found, outputs_of(made.network, X), atol=1e-5)


def test_runtimes_take_any_trans_b_but_0_for_1(tmp_path):
    stored, path = np.array([[0, 0], [1, 1]], np.float32), tmp_path / "m.onnx"
    network = Network([affine(stored.T, [0, 0]), affine([[1, 1]], [-0.5])], [Activation("relu")])
    network.save(path)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tuple(tensor.dims) == (2, 2):
            tensor.CopyFrom(numpy_helper.from_array(stored, tensor.name))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "transB":
            attribute.i = 2
    onnx.save(model, path)
    certificate_of_blindness(network, TWO_FEATURES, [0], method="blind").save(tmp_path / "c.json", path)
    assert not fairmend.check(tmp_path / "c.json", path).valid
