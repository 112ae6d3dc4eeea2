"""ONNX files whose label does not follow from the scores are refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fairmend
from fairmend.base.errors import FairmendError


def test_a_label_that_is_above_a_half_of_no_probability_is_refused(tmp_path):
    nodes = [
        helper.make_node("Gemm", ["X", "W", "b"], ["p"]),
        helper.make_node("Sub", ["one", "p"], ["q"]),
        helper.make_node("Concat", ["q", "p"], ["both"], axis=1),
        helper.make_node("ArgMax", ["both"], ["label"], axis=1, keepdims=0),
        helper.make_node("Identity", ["both"], ["probabilities"]),
    ]
    arrays = {"W": [[0.4], [0.0]], "b": [0.3], "one": [1.0]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
        ],
        [numpy_helper.from_array(np.array(values, np.float32), name) for name, values in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(FairmendError, match="Concat"):
        fairmend.load_network(path)


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_a_label_that_is_the_largest_of_one_number_is_refused(tmp_path, scores):
    """It is always the first class, whatever the number is."""
    closing = {
        "softmax": [
            helper.make_node("Softmax", ["z"], ["both"], axis=1),
            helper.make_node("Gather", ["both", "second"], ["p"], axis=1),
        ],
        "sigmoid": [helper.make_node("Sigmoid", ["z"], ["p"])],
    }[scores]
    nodes = [
        helper.make_node("Gemm", ["X", "W", "b"], ["z"]),
        *closing,
        helper.make_node("ArgMax", ["p"], ["label"], axis=1, keepdims=0),
    ]
    outputs = 2 if scores == "softmax" else 1
    arrays = {"W": np.ones((2, outputs), np.float32), "b": np.zeros(outputs, np.float32), "second": np.int64([1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("p", TensorProto.FLOAT, [None, 1]),
        ],
        [numpy_helper.from_array(values, name) for name, values in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(FairmendError, match="label is the largest of 1 number, and so always the first class"):
        fairmend.load_network(path)
