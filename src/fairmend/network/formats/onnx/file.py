""".onnx files: read as a graph of layers, and written as one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.build import SUPPORTED
from fairmend.network.formats.onnx.external_data import load_external_data
from fairmend.network.formats.onnx.form import OnnxForm
from fairmend.network.formats.onnx.graph import Graph
from fairmend.network.formats.onnx.nodes import convert_graph
from fairmend.network.formats.torch.state_dict import tensor_key
from fairmend.text import first_line

# Old enough for every recent runtime, new enough for double precision in every operator.
_OPSET, _IR_VERSION = 17, 8
_ELEMENT = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}
_OPERATORS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softmax": "Softmax"}


def read(path: Path, activation: Activation) -> Network:
    """Return the network in the file; its graph names the activations."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own errors among them, which carry no types to name
        raise FairmendError(f"{path}: not a readable ONNX file ({error})") from error
    source = str(path)
    load_external_data(model, path)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise FairmendError(f"{path}: not a valid ONNX model: {first_line(error)}") from error
    graph = Graph(model, source)
    builder, output = convert_graph(graph)
    form = OnnxForm(model.SerializeToString(), graph.layers, graph.tables, source)
    network = builder.network(output, form)
    if network.dtype != graph.dtype:
        raise FairmendError(f"{path}: the input is {graph.dtype}, the weights are {network.dtype}; {SUPPORTED}")
    return network


def to_bytes(network: Network) -> bytes:
    """Return a graph from input (batch, inputs) to output (batch, outputs): Gemm nodes, activations, the closing."""
    nodes, initializers = [], []
    value = "input"
    for i, (name, affine) in enumerate(zip(network.names, network.affines, strict=True)):
        weight, bias = tensor_key(name, "weight"), tensor_key(name, "bias")
        initializers += [
            numpy_helper.from_array(affine.weight, weight),
            numpy_helper.from_array(affine.bias, bias),
        ]
        nodes.append(helper.make_node("Gemm", [value, weight, bias], [f"/{i}/affine"], f"/{i}/Gemm", transB=1))
        value = f"/{i}/affine"
        activation = network.activations[i] if i < len(network.activations) else None
        if activation is not None and activation.name != "identity":
            inputs, attributes = [value], {}
            operator = _OPERATORS.get(activation.name, "LeakyRelu")
            if activation.name == "leaky_relu":
                attributes["alpha"] = activation.slope
                if float(np.float32(activation.slope)) != activation.slope:
                    # LeakyRelu's alpha is a float32 whatever the tensors are; PRelu's slope is a tensor.
                    slope = f"/{i}/slope"
                    initializers.append(numpy_helper.from_array(np.array([activation.slope], network.dtype), slope))
                    operator, inputs, attributes = "PRelu", [value, slope], {}
            value = f"/{i}/activation"
            nodes.append(helper.make_node(operator, inputs, [value], f"/{i}/{operator}", **attributes))
    if network.closing != "none":
        operator = _OPERATORS[network.closing]
        attributes = {"axis": -1} if network.closing == "softmax" else {}
        nodes.append(helper.make_node(operator, [value], ["output"], f"/{operator}", **attributes))
    nodes[-1].output[0] = "output"
    element = _ELEMENT[network.dtype]
    graph = helper.make_graph(
        nodes,
        "fairmend",
        [helper.make_tensor_value_info("input", element, ["batch", network.inputs])],
        [helper.make_tensor_value_info("output", element, ["batch", network.outputs])],
        initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="fairmend",
    )
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
