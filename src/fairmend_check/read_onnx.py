"""Read .onnx files: one chain of Gemm (or MatMul and Add) and activations.

Whoever writes a model could also write its certificate, so a file is read only if every program that follows the
standard runs it as the same network: what programs could read differently, or what a caller could replace, is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import protobuf
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.onnx_external_data import ExternalData
from fairmend_check.protobuf import Message

Tensor = NDArray[Any]

_ELEMENTS = {"float32": 1, "int64": 7, "float64": 11}
_STORED = {1: ("float_data", "<f4"), 7: ("int64_data", "<i8"), 11: ("double_data", "<f8")}  # where unless raw, and how
_ATTRIBUTE_TYPES = {1: ("f", float), 2: ("i", int), 4: ("t", dict)}  # field of the value, and its type
# The standard of today. Gemm and Add had other meanings before 7, weights were inputs before 4; later is unknown.
_OPSETS, _IR_VERSIONS = range(7, 29), range(4, 15)
_MAX_NODES = 10_000
# Operators: how many inputs they may have, and their attributes with the values that count if a file does not set them.
_OPERATORS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "Add": ((2,), {}),
    "Cast": ((1,), {"to": 0}),
    "Constant": ((0,), {"value": {}}),
    "Flatten": ((1,), {"axis": 1}),
    "Gemm": ((2, 3), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    "Identity": ((1,), {}),
    "LeakyRelu": ((1,), {"alpha": float(np.float32(0.01))}),
    "MatMul": ((2,), {}),
    "PRelu": ((2,), {}),
    "Relu": ((1,), {}),
    "Reshape": ((2,), {}),
    "Sigmoid": ((1,), {}),
    "Softmax": ((1,), {"axis": -1}),
    "Tanh": ((1,), {}),
}


@dataclass(frozen=True)
class _Node:
    kind: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]

    def expect(self, name: str, *allowed: float) -> None:
        """Refuse an attribute that has none of the allowed values."""
        if self.attributes[name] not in allowed:
            raise CheckError(f"node {self.kind} has {name} = {self.attributes[name]:g}, which cannot be checked")


def read_onnx(content: bytes, folder: Path) -> Model:
    """Return the model, if it is a plain chain from one input to one output; ``folder`` may hold external data."""
    if content[4:8] == b"ORTM":
        raise CheckError("bytes 4 to 8 are ORTM, so ONNX Runtime could take the file for one of its own format")
    model = protobuf.read_message("Model", content)
    _check_versions(model)
    graph = model.get("graph", {})
    inputs, outputs, nodes = (graph.get(key, []) for key in ("input", "output", "node"))
    if len(inputs) != 1 or len(outputs) != 1:
        raise CheckError("the model must have one input and one output; weights must not be inputs")
    if len(nodes) > _MAX_NODES:
        raise CheckError(f"the graph has more than {_MAX_NODES:,} nodes")
    external = ExternalData(folder)
    chain = _Chain(inputs[0])
    for tensor in graph.get("initializer", []):
        chain.define(tensor.get("name", ""), _tensor(tensor, external))
    for node in map(_node, nodes):
        if node.kind == "Constant":
            chain.define(node.output, _tensor(node.attributes["value"], external))
        else:
            chain.append(node)
    if chain.value != outputs[0].get("name", ""):
        raise CheckError("the output of the graph is not the output of its last node")
    chain.close()
    network = make_model(chain.layers, chain.activations)
    if _ELEMENTS.get(network.dtype) != chain.element:
        raise CheckError(f"the input is not {network.dtype}, as the weights are")
    for value in inputs + outputs + graph.get("value_info", []):
        _check_value(value, chain)
    return network


class _Chain:
    """The layers read so far. Each node must read the value of the node before it, and constants."""

    def __init__(self, start: Message) -> None:
        self.element, shape = _declared(start)
        self.rows = shape[0] if shape else ""
        self.layers: list[tuple[Tensor, Tensor | None]] = []
        self.activations: list[Activation] = []
        self.tensors: dict[str, Tensor] = {}
        self.places: dict[str, int] = {}  # of each value on the way: how many layers come before it
        self._lacks_bias = False  # a MatMul comes before, and no Add yet
        self._advance(start.get("name", ""))

    def define(self, name: str, tensor: Tensor) -> None:
        """Add a constant."""
        self._expect_new(name)
        self.tensors[name] = tensor

    def append(self, node: _Node) -> None:
        """Add what a node computes from the value before it."""
        data = [name for name in node.inputs if name and name not in self.tensors]
        if data != [self.value] or (node.inputs[0] != self.value and node.kind != "Add"):
            raise CheckError(f"node {node.kind} must read the value of the node before it, and constants")
        fresh = len(self.layers) > len(self.activations)  # no activation since the last affine layer
        if node.kind in ("Gemm", "MatMul"):
            if fresh:
                self.activations.append(Activation("identity"))
            self.layers.append(self._affine(node))
            self._lacks_bias = node.kind == "MatMul"
        elif node.kind == "Add" and self._lacks_bias and fresh:
            weight, _ = self.layers[-1]
            (name,) = (name for name in node.inputs if name != self.value)
            self.layers[-1] = (weight, self._bias(name, len(weight)))
            self._lacks_bias = False
        elif node.kind in ("Cast", "Flatten", "Identity", "Reshape"):
            self._expect_no_change(node)
        elif node.kind != "Add" and fresh:
            self.activations.append(self._activation(node))
        else:
            raise CheckError(f"node {node.kind} cannot be checked at this place")
        self._advance(node.output)

    def close(self) -> None:
        """Take away a closing sigmoid of one output or softmax of several."""
        if self.layers and len(self.activations) == len(self.layers):
            closing = self.activations.pop().name
            if closing != ("sigmoid" if self.width(self.value) == 1 else "softmax"):
                raise CheckError(f"the model ends with {closing}, which cannot be checked there")

    def width(self, value: str) -> int:
        """Return the number of columns of a value on the way."""
        place = self.places[value]
        return int(self.layers[place - 1][0].shape[0] if place else self.layers[0][0].shape[1])

    def _expect_new(self, name: str) -> None:
        if not name or name in self.tensors or name in self.places:
            raise CheckError(f"two values have the name {name[:40]!r}" if name else "a value has no name")

    def _advance(self, name: str) -> None:
        self._expect_new(name)
        self.value = name
        self.places[name] = len(self.layers)

    def _affine(self, node: _Node) -> tuple[Tensor, Tensor | None]:
        weight = self.tensors[node.inputs[1]]
        if weight.ndim != 2:
            raise CheckError(f"node {node.kind} has a matrix of {weight.ndim} dimensions")
        if node.kind == "MatMul":
            return weight.T, None
        for name, *allowed in (("alpha", 1), ("beta", 1), ("transA", 0), ("transB", 0, 1)):
            node.expect(name, *allowed)  # runtimes take every transB but 0 for 1
        weight = weight if node.attributes["transB"] else weight.T
        with_bias = len(node.inputs) == 3 and node.inputs[2] != ""
        return weight, self._bias(node.inputs[2], len(weight)) if with_bias else None

    def _bias(self, name: str, width: int) -> Tensor:
        bias = self.tensors[name]
        if bias.shape not in ((width,), (1, width)):
            raise CheckError(f"a bias of shape {bias.shape} is added to {width} values")
        return bias.reshape(width)

    def _activation(self, node: _Node) -> Activation:
        if node.kind == "LeakyRelu":
            return Activation("leaky_relu", node.attributes["alpha"])
        if node.kind == "PRelu":  # how a LeakyReLU in double precision is written: one number for all neurons
            slope = self.tensors[node.inputs[1]]
            if slope.shape not in ((), (1,), (1, 1)) or slope.dtype != self.layers[-1][0].dtype:
                raise CheckError(f"node PRelu has slopes of shape {slope.shape} in {slope.dtype}, not one for all")
            return Activation("leaky_relu", float(slope.reshape(())))
        if node.kind == "Softmax":
            node.expect("axis", -1, 1)
        return Activation(node.kind.lower())

    def _expect_no_change(self, node: _Node) -> None:
        """Refuse a node that does more than pass on a value of shape (rows, columns)."""
        if node.kind == "Cast":
            node.expect("to", self.element)
        elif node.kind == "Flatten":
            node.expect("axis", 1)
        elif node.kind == "Reshape":
            shape = self.tensors[node.inputs[1]]
            if shape.dtype != np.int64 or not self.layers or shape.tolist() != [-1, self.width(self.value)]:
                raise CheckError("node Reshape changes the shape of a value, which cannot be checked")


def _check_versions(model: Message) -> None:
    """Refuse versions that this checker does not know, and two versions of the operators."""
    imports = [entry for entry in model.get("opset_import", []) if entry.get("domain", "") in ("", "ai.onnx")]
    if len(imports) != 1 or imports[0].get("domain", "") != "":
        raise CheckError("the model must import one version of ONNX's operators")
    for what, version, known in (
        ("operators", imports[0].get("version", 0), _OPSETS),
        ("format", model.get("ir_version", 0), _IR_VERSIONS),
    ):
        if version not in known:
            raise CheckError(f"version {version} of ONNX's {what} is not one of {known[0]} to {known[-1]}")


def _declared(info: Message) -> tuple[int, list[int | str]]:
    """Return the declared type and dimensions of a value: each a number, a name, or "" for neither."""
    kind = info.get("type", {}).get("tensor_type", {})
    dimensions = kind.get("shape", {}).get("dim", [])
    if any(len(dimension) > 1 or dimension.get("dim_value", 1) < 1 for dimension in dimensions):
        raise CheckError("a dimension must be a number above 0 or a name")
    return kind.get("elem_type", 0), [next(iter(dimension.values()), "") for dimension in dimensions]


def _check_value(info: Message, chain: _Chain) -> None:
    """Refuse a declaration that does not agree with what the graph computes: runtimes plan their memory by it."""
    name, (element, shape) = info.get("name", ""), _declared(info)
    if name in chain.tensors:
        tensor = chain.tensors[name]
        agrees = (element, shape) == (_ELEMENTS[tensor.dtype.name], list(tensor.shape))
    elif name in chain.places:
        rows = shape[0] if shape and isinstance(shape[0], str) else chain.rows
        agrees = (element, shape) == (chain.element, [rows, chain.width(name)])
    else:
        raise CheckError(f"the graph declares {name[:40]!r}, a value that it does not compute")
    if not agrees:
        raise CheckError(f"the type or shape of {name[:40]!r} is not what the graph declares")


def _node(message: Message) -> _Node:
    kind, inputs, outputs = message.get("op_type", ""), message.get("input", []), message.get("output", [])
    if message.get("domain", "") != "" or kind not in _OPERATORS:
        raise CheckError(f"node {kind[:40]!r} cannot be checked")
    counts, attributes = _OPERATORS[kind]
    if len(outputs) != 1 or len(inputs) not in counts:
        raise CheckError(f"node {kind} has {len(inputs)} inputs and {len(outputs)} outputs")
    given: dict[str, Any] = {}
    for attribute in message.get("attribute", []):
        name = attribute.get("name", "")
        field, kind_of_value = _ATTRIBUTE_TYPES.get(attribute.get("type", 0), ("", None))
        fields = set(attribute) - {"doc_string"}
        if type(attributes.get(name)) is not kind_of_value or fields != {"name", "type", field} or name in given:
            raise CheckError(f"node {kind} has the attribute {name[:40]!r}, which cannot be checked")
        given[name] = attribute[field]
    return _Node(kind, inputs, outputs[0], {**attributes, **given})


def _tensor(message: Message, external: ExternalData) -> Tensor:
    shape, where = message.get("dims", []), f"tensor {message.get('name', '')[:40]!r}"
    if message.get("data_type") not in _STORED:
        raise CheckError(f"{where} is neither float32 nor float64")
    typed, stored = _STORED[message["data_type"]]
    size = math.prod(shape) * np.dtype(stored).itemsize
    found = {"raw_data", "external_data", *(field for field, _ in _STORED.values())} & set(message)
    if len(found) != 1 or not found <= {"raw_data", "external_data", typed}:
        raise CheckError(f"{where} must have its data in one field, that of its type")
    if message.get("data_location", 0) != (found == {"external_data"}):
        raise CheckError(f"{where} is said to be both in the model and in another file")
    data = message[found.pop()]
    if "external_data" in message:
        data = external.read(data, size, where)
    elif "int64_data" in message:
        data = np.array(protobuf.unpack_integers(data), stored).tobytes()
    if min(shape, default=0) < 0 or len(data) != size:
        raise CheckError(f"{where} does not fit its shape")
    return np.frombuffer(data, stored).reshape(shape).astype(np.dtype(stored).newbyteorder("="))
