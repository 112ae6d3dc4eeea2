""".onnx files: read as a graph of layers, and written as one file."""

from __future__ import annotations

from pathlib import Path

import onnx

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.network import Activation, Network
from fairmend.network.formats.build import SUPPORTED
from fairmend.network.formats.onnx.external_data import load_external_data
from fairmend.network.formats.onnx.form import OnnxForm
from fairmend.network.formats.onnx.graph import Graph
from fairmend.network.formats.onnx.nodes import convert_graph
from fairmend.network.formats.onnx.write import to_bytes

__all__ = ["read", "to_bytes"]


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
