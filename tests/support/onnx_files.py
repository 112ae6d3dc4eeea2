"""ONNX files made by hand, node by node, and what ONNX Runtime computes with them."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

W = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)  # (out, in)
B = np.array([1, -2, 3], np.float32)
X = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)


def runtime(path, X: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0]


def save(path, nodes, outputs=3, opset=17, element=TensorProto.FLOAT, axes=("n", 4), rank1=False, **constants):
    """Write a graph from `x` to the last node's output; the constants are initialisers."""
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    shape = ["n"] if rank1 else ["n", outputs]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, axes)],
        [helper.make_tensor_value_info(nodes[-1].output[0], element, shape)],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


A = {"w": W.T, "b": B}
