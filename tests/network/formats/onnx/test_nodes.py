"""ONNX operators: every way to write a layer is read, the rest is refused by operator."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairmend import FairmendError, load_network
from support.onnx_files import A, B, W, X, node, runtime, save
from support.onnx_functions import NEAR_MISSES, WRITTEN, between_layers, function_of_function

# Functions that exporters write as several nodes are read as one; near misses are refused.


REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_function_of_several_nodes_is_read_as_one(name, tmp_path):
    function, nodes, constants = WRITTEN[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    network = load_network(path)
    assert [activation.name for activation in network.activations] == [function]
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-5)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_refused(name, tmp_path):
    nodes, constants = NEAR_MISSES[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    with pytest.raises(FairmendError, match=r"not supported|depend on the input|depends on the input"):
        load_network(path)


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "gelu_tanh", "hardswish"])
def test_a_function_of_a_product_is_read(name, tmp_path):
    network = function_of_function(name)
    network.save(tmp_path / "m.onnx")
    assert load_network(tmp_path / "m.onnx").nodes == network.nodes


AFFINE = {
    "gemm": ([node("Gemm", "x w b")], A),
    "gemm scaled": ([node("Gemm", "x w b", alpha=0.5, beta=2.0)], A),
    "gemm transposed": ([node("Gemm", "x w b", transB=1)], {"w": W, "b": B}),
    "gemm without bias": ([node("Gemm", "x w")], {"w": W.T}),
    "gemm scalar bias": ([node("Gemm", "x w b")], {"w": W.T, "b": np.float32(2)}),
    "gemm row bias": ([node("Gemm", "x w b")], {"w": W.T, "b": B[None]}),
    "matmul": ([node("MatMul", "x w")], {"w": W.T}),
    "matmul add": ([node("MatMul", "x w", "h"), node("Add", "h b")], A),
    "add matmul": ([node("MatMul", "x w", "h"), node("Add", "b h")], A),
    "second add": ([node("Gemm", "x w b", "h"), node("Add", "h b")], A),
    "scaled input": (
        [
            node("Sub", "x o", "x1"),
            node("Div", "x1 d", "x2"),
            node("Mul", "m x2", "x3"),
            node("Add", "x3 o", "x4"),
            node("Gemm", "x4 w b"),
        ],
        A | {"o": W[0], "d": np.arange(1, 5).astype(np.float32), "m": np.array([0.5], np.float32)},
    ),
    "constant node": (
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W.T.copy())),
            helper.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
            node("MatMul", "x w", "h"),
            node("Add", "b h"),
        ],
        {},
    ),
    "hidden constants": (
        [node("Transpose", "w", "t", perm=[1, 0]), node("Identity", "b", "c"), node("Gemm", "x t c")],
        {"w": W, "b": B},
    ),
    "passed through": (
        [
            node("Reshape", "x s", "x1"),
            node("Flatten", "x1", "x2"),
            node("Cast", "x2", "x3", to=TensorProto.FLOAT),
            node("Dropout", "x3", "x4"),
            node("Identity", "x4", "x5"),
            node("Gemm", "x5 w b", "h"),
            node("Reshape", "h t"),
        ],
        A | {"s": np.array([-1, 4]), "t": np.array([0, -1])},
    ),
    "norm": (
        [node("BatchNormalization", "x g c m v", "h", epsilon=0.1), node("Gemm", "h w b")],
        A | {k: np.arange(1, 5).astype(np.float32) for k in "gcmv"},
    ),
    "prelu": ([node("Gemm", "x w b", "h"), node("PRelu", "h s", "r"), node("Gemm", "r v")],
              A | {"s": np.full(3, 0.5, np.float32), "v": np.eye(3, dtype=np.float32)}),
    "leaky default": ([node("Gemm", "x w b", "h"), node("LeakyRelu", "h", "r"), node("Gemm", "r v")],
                      A | {"v": np.eye(3, dtype=np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("case", AFFINE)
def test_every_way_to_write_a_layer_is_read(case, tmp_path):
    nodes, constants = AFFINE[case]
    path = save(tmp_path / "m.onnx", nodes, **constants)
    assert np.allclose(load_network(path).logits(X), runtime(path, X), atol=1e-5)


ONE = {"w": W[:1].T, "b": B[:1]}
CLOSED = {
    "squeeze": ([node("Gemm", "x w b", "h"), node("Squeeze", "h a")], {"a": np.array([1])}),
    "squeeze all": ([node("Gemm", "x w b", "h"), node("Squeeze", "h")], {}),
    "reshape": ([node("Gemm", "x w b", "h"), node("Reshape", "h a")], {"a": np.array([-1])}),
    "sigmoid squeeze": (
        [node("Gemm", "x w b", "h"), node("Sigmoid", "h", "p"), node("Squeeze", "p a")],
        {"a": np.array([-1])},
    ),
    "reshape sigmoid": (
        [node("Gemm", "x w b", "h"), node("Reshape", "h a", "p"), node("Sigmoid", "p")],
        {"a": np.array([-1])},
    ),
}


@pytest.mark.parametrize("case", CLOSED)
def test_giving_up_the_axis_of_one_output_is_read(case, tmp_path):
    nodes, constants = CLOSED[case]
    path = save(tmp_path / "m.onnx", nodes, rank1=True, **ONE, **constants)
    network = load_network(path)
    got = network.probabilities(X) if network.closing == "sigmoid" else network.logits(X)
    assert np.allclose(got, runtime(path, X), atol=1e-6)


def test_a_column_of_one_output_and_old_squeezes_are_read(tmp_path):
    nodes = [node("Gemm", "x w b", "h"), node("Reshape", "h a")]
    assert load_network(save(tmp_path / "m.onnx", nodes, outputs=1, a=np.array([-1, 1]), **ONE)).outputs == 1
    nodes = [node("Gemm", "x w b", "h"), node("Squeeze", "h", axes=[1])]
    assert load_network(save(tmp_path / "n.onnx", nodes, rank1=True, opset=11, **ONE)).outputs == 1


def after(*nodes):
    return [node("Gemm", "x w b", "h"), *nodes]


VECTOR = np.ones(3, np.float32)
REFUSED = {
    "conv": ([node("Conv", "x k")], {"k": np.ones((1, 4, 1), np.float32)}, r"\(Conv\) is not supported"),
    "concat": (after(node("Concat", "h h", axis=1)), {}, r"\(Concat\)"),
    "late add": (after(node("Relu", "h", "r"), node("Add", "r b")), {}, r"\(Relu\) closes the network"),
    "constant over data": (after(node("Div", "b h")), {}, r"\(Div\)"),
    "division by 0": (after(node("Div", "h z")), {"z": np.zeros(3, np.float32)}, r"\(Div\) divides by 0"),
    "left matmul": ([node("MatMul", "q x")], {"q": np.ones((3, 3), np.float32)}, r"\(MatMul\)"),
    "transA": ([node("Gemm", "x w b", transA=1)], {}, "transA=1"),
    "closing relu": (after(node("Relu", "h")), {}, r"\(Relu\) closes"),
    "sigmoids": (after(node("Sigmoid", "h")), {}, r"\(Sigmoid\) closes a network of 3"),
    "softmax of rows": (after(node("Softmax", "h", axis=0)), {}, r"\(Softmax\) is not over the last axis"),
    "cast": (after(node("Cast", "h", to=TensorProto.DOUBLE)), {}, r"\(Cast\) casts"),
    "flatten": (after(node("Flatten", "h", axis=0)), {}, r"\(Flatten\) is not from axis 1"),
    "mixing reshape": (after(node("Reshape", "h s")), {"s": np.array([-1, 1])}, r"\(Reshape\) gives \(rows·3, 1\)"),
    "flat reshape": (after(node("Reshape", "h s")), {"s": np.array([-1])}, r"\(Reshape\) gives \(rows·3,\)"),
    "deep reshape": (after(node("Reshape", "h s")), {"s": np.array([-1, 3, 1])}, r"\(Reshape\) gives \(rows, 3, 1\)"),
    "opening reshape": (
        [node("Reshape", "x s", "h"), node("Gemm", "h w b")],
        {"s": np.array([-1, 2])},
        r"\(Gemm\) has a constant that does not fit \(rows·2, 2\)",
    ),
    "squeeze rows": (after(node("Squeeze", "h s")), {"s": np.array([0])}, r"\(Squeeze\).*axes \[0\]"),
    "learning norm": (
        after(helper.make_node("BatchNormalization", ["h", *"cccc"], ["y", "m", "v"], training_mode=1)),
        {"c": VECTOR},
        "training mode",
    ),
    "learning dropout": (
        after(node("Dropout", "h r t")),
        {"r": np.float32(0.5), "t": np.array(True)},
        r"\(Dropout\) is in training mode",
    ),
    "mask": (
        after(helper.make_node("Dropout", ["h"], ["d", "m"]), node("Cast", "m", to=TensorProto.FLOAT)),
        {},
        r"\(Dropout\)",
    ),
    "computed weight": (after(node("MatMul", "h h")), {}, r"\(MatMul\)"),
    "column bias": ([node("Gemm", "x w c")], {"c": VECTOR[:, None]}, r"shape \(3, 1\)"),
    "tensor weight": ([node("MatMul", "x t")], {"t": np.ones((2, 4, 3), np.float32)}, "not a matrix"),
    "constant output": ([node("Identity", "b")], {}, "does not depend on its input"),
    "other domain": ([helper.make_node("Relu", ["x"], ["y"], domain="mine")], {}, "mine|not supported"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_operator(case, tmp_path):
    nodes, constants, words = REFUSED[case]
    path = save(tmp_path / "m.onnx", nodes, **A, **constants)
    with pytest.raises(FairmendError, match=words):
        load_network(path)
