"""ONNX graphs: one input of rows, one output, a chain between them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.onnx_files import A, B, W, node, save


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
