"""ONNX graphs: one input of rows, one output, a chain between them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fairmend.errors import FairmendError
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
