"""Read .onnx files: one chain of Gemm (or MatMul and Add) and activations, and perhaps a decision after it.

Whoever writes a model could also write its certificate, so a file is read only if every program that follows the
standard runs it as the same network: what programs could read differently, or what a caller could replace, is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import protobuf
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.onnx_decision import ELEMENTS, FIRST_NODES, ValueType, read_decision
from fairmend_check.onnx_external_data import ExternalData
from fairmend_check.onnx_nodes import ML, Node, read_node
from fairmend_check.protobuf import Message

Tensor = NDArray[Any]

# Where the elements of a tensor are stored unless raw, and how; O are texts.
_STORED = {
    1: ("float_data", "<f4"),
    6: ("int32_data", "<i4"),
    7: ("int64_data", "<i8"),
    8: ("string_data", "O"),
    11: ("double_data", "<f8"),
}
# The standard of today. Gemm and Add had other meanings before 7, weights were inputs before 4; later is unknown.
_OPSETS, _ML_OPSETS, _IR_VERSIONS = range(7, 29), range(1, 6), range(4, 15)
_MAX_NODES = 10_000


def read_onnx(content: bytes, folder: Path) -> Model:
    """Return the model, if it is a plain chain from one input to one output; ``folder`` may hold external data.

    After the chain, nodes may choose a label by its probabilities: then the outputs are labels and probabilities.
    """
    if content[4:8] == b"ORTM":
        raise CheckError("bytes 4 to 7 are ORTM, so ONNX Runtime could read the file in its own format")
    model = protobuf.read_message("Model", content)
    graph = model.get("graph", {})
    inputs, outputs, constants, messages = (graph.get(key, []) for key in ("input", "output", "initializer", "node"))
    _check_versions(model, messages)
    if len(inputs) != 1 or len(outputs) not in (1, 2):
        raise CheckError("the model must have one input and one or two outputs; weights must not be inputs")
    if len(messages) > _MAX_NODES:
        raise CheckError(f"the graph has more than {_MAX_NODES:,} nodes")
    nodes = [read_node(message) for message in messages]
    _check_names([value.get("name", "") for value in inputs + constants] + [node.output for node in nodes])
    external = ExternalData(folder)
    chain = _Chain(inputs[0])
    decision: list[Node] = []
    for tensor in constants:
        chain.tensors[tensor.get("name", "")] = _tensor(tensor, external)
    for node in nodes:
        if node.kind == "Constant":
            chain.tensors[node.output] = _tensor(node.attributes["value"], external)
        elif decision or node.kind in FIRST_NODES:
            decision.append(node)
        else:
            chain.append(node)
    closed = chain.close()
    network = make_model(chain.layers, chain.activations)
    if ELEMENTS[network.dtype] != chain.element:
        raise CheckError(f"the weights are {network.dtype}, but the input is not")
    types: dict[str, ValueType] = {name: (chain.element, [chain.width(name)]) for name in chain.places}
    names = [value.get("name", "") for value in outputs]
    if closed and decision:
        types |= read_decision(decision, names, chain.tensors, chain.value, network)
    elif decision or names != [chain.value]:
        raise CheckError("the output of the graph is not the output of its last node")
    for value in inputs + outputs + graph.get("value_info", []):
        _check_value(value, chain, types)
    return replace(network, closed=closed)


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

    def append(self, node: Node) -> None:
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

    def close(self) -> bool:
        """Take away a closing sigmoid of one output or softmax of several; return whether there is one."""
        closed = len(self.activations) == len(self.layers) > 0
        if closed:
            closing = self.activations.pop().name
            if closing != ("sigmoid" if self.width(self.value) == 1 else "softmax"):
                raise CheckError(f"the model ends with {closing}, which cannot be checked there")
        return closed

    def width(self, value: str) -> int:
        """Return the number of columns of a value on the way."""
        place = self.places[value]
        return int(self.layers[place - 1][0].shape[0] if place else self.layers[0][0].shape[1])

    def _advance(self, name: str) -> None:
        self.value = name
        self.places[name] = len(self.layers)

    def _affine(self, node: Node) -> tuple[Tensor, Tensor | None]:
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

    def _activation(self, node: Node) -> Activation:
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

    def _expect_no_change(self, node: Node) -> None:
        """Refuse a node that does more than pass on a value of shape (rows, columns)."""
        if node.kind == "Cast":
            node.expect("to", self.element)
        elif node.kind == "Flatten":
            node.expect("axis", 1)
        elif node.kind == "Reshape":
            shape = self.tensors[node.inputs[1]]
            if shape.dtype != np.int64 or not self.layers or shape.tolist() != [-1, self.width(self.value)]:
                raise CheckError("node Reshape changes the shape of a value, which cannot be checked")


def _check_names(names: list[str]) -> None:
    for name, occurrences in Counter(names).items():
        if occurrences > 1 or not name:
            raise CheckError(f"two values have the name {name[:40]!r}" if name else "a value has no name")


def _check_versions(model: Message, nodes: list[Message]) -> None:
    """Refuse versions that this checker does not know, and two versions of the operators."""
    imports = [(entry.get("domain", ""), entry.get("version", 0)) for entry in model.get("opset_import", [])]
    domains, versions = [domain for domain, _ in imports], dict(imports)
    used = {"", *(ML for node in nodes if node.get("domain", "") == ML)}
    if len(versions) != len(imports) or not used <= set(domains) or "ai.onnx" in domains:
        raise CheckError("the model must import one version of ONNX's operators")
    for what, version, known in (
        ("operators", versions[""], _OPSETS),
        (f"operators of {ML}", versions.get(ML, _ML_OPSETS[0]), _ML_OPSETS),
        ("format", model.get("ir_version", 0), _IR_VERSIONS),
    ):
        if version not in known:
            raise CheckError(f"version {version} of ONNX's {what} is not one of {known[0]} to {known[-1]}")


def _declared(info: Message) -> tuple[int, list[int | str]]:
    """Return the declared type and dimensions of a value: each a number, a name, or "" for neither."""
    if len(info.get("type", {})) > 1:
        raise CheckError("a value has more than one type")
    kind = info.get("type", {}).get("tensor_type", {})
    dimensions = kind.get("shape", {}).get("dim", [])
    if any(len(dimension) > 1 or dimension.get("dim_value", 1) < 1 for dimension in dimensions):
        raise CheckError("a dimension must be a number above 0 or a name")
    return kind.get("elem_type", 0), [next(iter(dimension.values()), "") for dimension in dimensions]


def _check_value(info: Message, chain: _Chain, types: dict[str, ValueType]) -> None:
    """Refuse a declaration that does not agree with what the graph computes: runtimes plan their memory by it."""
    name, (element, shape) = info.get("name", ""), _declared(info)
    computed = types.get(name)
    if name in chain.tensors:
        tensor = chain.tensors[name]
        agrees = (element, shape) == (ELEMENTS[tensor.dtype.name], list(tensor.shape))
    elif isinstance(computed, tuple):
        rows = shape[0] if shape and isinstance(shape[0], str) else chain.rows
        agrees = (element, shape) == (computed[0], [rows, *computed[1]])
    elif computed is not None:
        agrees = info["type"] == computed
    else:
        raise CheckError(f"the graph declares {name[:40]!r}, a value that it does not compute")
    if not agrees:
        raise CheckError(f"the type or shape of {name[:40]!r} is not what the graph declares")


def _tensor(message: Message, external: ExternalData) -> Tensor:
    shape, where = message.get("dims", []), f"tensor {message.get('name', '')[:40]!r}"
    if message.get("data_type") not in _STORED:
        raise CheckError(f"{where} has elements of a type that cannot be checked")
    typed, stored = _STORED[message["data_type"]]
    is_text = stored == "O"
    size = math.prod(shape) * (1 if is_text else np.dtype(stored).itemsize)
    found = {"raw_data", "external_data", *(field for field, _ in _STORED.values())} & set(message)
    if len(found) != 1 or not found <= ({typed} if is_text else {"raw_data", "external_data", typed}):
        raise CheckError(f"{where} must store its data in one field, the one for its type")
    if message.get("data_location", 0) != (found == {"external_data"}):
        raise CheckError(f"{where} contradicts itself about where its data is stored")
    data = message[found.pop()]
    if "external_data" in message:
        data = external.read(data, size, where)
    elif typed in ("int32_data", "int64_data") and typed in message:
        data = np.array(protobuf.unpack_integers(data, int(typed[3:5])), stored).tobytes()
    if min(shape, default=0) < 0 or len(data) != size:
        raise CheckError(f"{where} does not fit its shape")
    if is_text:
        return np.array(data, object).reshape(shape)
    return np.frombuffer(data, stored).reshape(shape).astype(np.dtype(stored).newbyteorder("="))
