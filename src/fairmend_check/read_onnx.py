"""Read .onnx files: one chain of Gemm (or MatMul and Add) and activations."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairmend_check import protobuf
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.onnx_external_data import ExternalData

Tensor = NDArray[np.floating]

_ACTIVATIONS = {"Relu": "relu", "LeakyRelu": "leaky_relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Identity": "identity"}
_TYPES = {1: ("<f4", 4), 11: ("<f8", 10)}  # element type: how it is stored, and in which field unless raw
_MAX_NODES = 10_000


@dataclass(frozen=True)
class _Node:
    kind: str
    inputs: tuple[str, ...]
    output: str
    numbers: dict[str, float]

    def expect(self, **allowed: float) -> None:
        """Refuse every attribute that does not have the allowed value."""
        for name, value in self.numbers.items():
            if name not in allowed or value != allowed[name]:
                raise CheckError(f"node {self.kind} has {name} = {value:g}, which cannot be checked")


def read_onnx(content: bytes, folder: Path) -> Model:
    """Return the model, if it is a plain chain from one input to one output; ``folder`` may hold external data."""
    (graph_bytes,) = protobuf.messages(protobuf.collect(memoryview(content)), 7) or [memoryview(b"")]
    graph = protobuf.collect(graph_bytes)
    external = ExternalData(folder)
    tensors = dict(_tensor(message, external) for message in protobuf.messages(graph, 5))
    if len(tensors) != len(graph.get(5, [])):
        raise CheckError("two tensors have the same name")
    if len(graph.get(1, [])) > _MAX_NODES or 15 in graph:
        raise CheckError("the graph is not a plain chain of layers")
    nodes = [_node(message) for message in protobuf.messages(graph, 1)]
    ends = [
        [protobuf.text(protobuf.collect(message), 1) for message in protobuf.messages(graph, field)]
        for field in (11, 12)
    ]
    starts = [name for name in ends[0] if name not in tensors]
    if len(starts) != 1 or len(ends[1]) != 1:
        raise CheckError("the model must have one input and one output")
    return _model(_chain(nodes, tensors, starts[0], ends[1][0]), tensors)


def _chain(nodes: list[_Node], tensors: dict[str, Tensor], start: str, end: str) -> list[_Node]:
    """Return the nodes from the input to the output, each fed by the one before and by nothing else but weights."""
    by_input: dict[str, _Node] = {}
    for node in nodes:
        fed = [name for name in node.inputs if name and name not in tensors]
        if len(fed) != 1 or fed[0] in by_input or node.output in tensors:
            raise CheckError("the graph is not a plain chain of layers")
        by_input[fed[0]] = node
    chain, name = [], start
    while name != end:
        if name not in by_input:
            raise CheckError("the graph is not a plain chain of layers")
        chain.append(by_input.pop(name))
        name = chain[-1].output
    if by_input:
        raise CheckError("the graph contains nodes outside of the chain from input to output")
    return chain


def _model(chain: list[_Node], tensors: dict[str, Tensor]) -> Model:
    layers: list[tuple[Tensor, Tensor | None]] = []
    activations: list[Activation] = []
    closed = False
    for place, node in enumerate(chain):
        if closed:
            raise CheckError(f"node {node.kind} follows a closing sigmoid or softmax")
        last, fresh = place == len(chain) - 1, len(layers) > len(activations)  # fresh: an affine layer comes before
        if node.kind in ("Gemm", "MatMul"):
            if fresh:
                activations.append(Activation("identity"))
            layers.append(_affine(node, tensors))
        elif node.kind == "Add" and fresh and layers[-1][1] is None and chain[place - 1].kind == "MatMul":
            node.expect()
            (name,) = [name for name in node.inputs if name in tensors]
            layers[-1] = (layers[-1][0], _bias(tensors[name], len(layers[-1][0])))
        elif last and fresh and node.kind == ("Sigmoid" if len(layers[-1][0]) == 1 else "Softmax"):
            if node.numbers.get("axis", -1) not in (-1, 1):
                raise CheckError("the Softmax is not over the outputs")
            closed = True
        elif node.kind == "PRelu" and fresh and not last:
            node.expect()
            slope = tensors.get(node.inputs[-1], np.zeros(0))
            if slope.size != 1:  # one number for all neurons: how a LeakyReLU in double precision is written
                raise CheckError("node PRelu has several slopes, which cannot be checked")
            activations.append(Activation("leaky_relu", float(slope.reshape(()))))
        elif node.kind in _ACTIVATIONS and fresh and not last:
            alpha = node.numbers.pop("alpha", float(np.float32(0.01))) if node.kind == "LeakyRelu" else 0.0
            node.expect()
            activations.append(Activation(_ACTIVATIONS[node.kind], alpha))
        else:
            raise CheckError(f"node {node.kind[:40]} at place {place} cannot be checked there")
    return make_model(layers, activations)


def _affine(node: _Node, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    if len(node.inputs) < 2 or node.inputs[0] in tensors or node.inputs[1] not in tensors:
        raise CheckError(f"node {node.kind} does not multiply its input by a stored matrix")
    weight = tensors[node.inputs[1]]
    if weight.ndim != 2:
        raise CheckError(f"node {node.kind} has a matrix of {weight.ndim} dimensions")
    if node.kind == "MatMul":
        node.expect()
        return weight.T, None
    transposed = node.numbers.pop("transB", 0)
    if transposed not in (0, 1):  # runtimes take anything but 0 for 1
        raise CheckError(f"node {node.kind} has transB = {transposed}")
    node.expect(alpha=1, beta=1, transA=0)
    weight = weight if transposed else weight.T
    with_bias = len(node.inputs) > 2 and node.inputs[2] != ""
    return weight, _bias(tensors[node.inputs[2]], len(weight)) if with_bias else None


def _bias(bias: Tensor, width: int) -> Tensor:
    if bias.shape not in ((width,), (1, width)):
        raise CheckError(f"a bias of shape {bias.shape} is added to {width} values")
    return bias.reshape(width)


def _node(message: memoryview) -> _Node:
    found = protobuf.collect(message)
    outputs = [bytes(name).decode("utf-8") for name in protobuf.messages(found, 2)]
    domain, kind = protobuf.text(found, 7), protobuf.text(found, 4)
    if domain not in ("", "ai.onnx") or len(outputs) != 1:
        raise CheckError(f"node {kind[:40]} cannot be checked")
    numbers: dict[str, float] = {}
    for attribute in protobuf.messages(found, 5):
        parts = protobuf.collect(attribute)
        name = protobuf.text(parts, 1)
        if 2 in parts and not isinstance(parts[2][-1][1], int):
            numbers[name] = struct.unpack("<f", parts[2][-1][1])[0]
        elif 3 in parts:
            numbers[name] = protobuf.integers(parts, 3)[-1]
        elif protobuf.integers(parts, 20)[-1:] in ([1], [2]):
            numbers[name] = 0  # a number at its default is not written
        else:
            raise CheckError(f"node {kind[:40]} has the attribute {name[:40]}, which cannot be checked")
    return _Node(kind, tuple(bytes(name).decode("utf-8") for name in protobuf.messages(found, 1)), outputs[0], numbers)


def _tensor(message: memoryview, external: ExternalData) -> tuple[str, Tensor]:
    found = protobuf.collect(message)
    name, shape = protobuf.text(found, 8), protobuf.integers(found, 1)
    where = f"tensor {name[:40]}"
    kind = protobuf.integers(found, 2)[-1:]
    if not kind or kind[0] not in _TYPES:
        raise CheckError(f"{where} is neither float32 nor float64")
    stored, field = _TYPES[kind[0]]
    dtype = np.dtype(stored)
    size = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape):
        raise CheckError(f"{where} does not fit its shape")
    if 3 in found:
        raise CheckError(f"{where} is stored in segments, which cannot be checked")
    if protobuf.integers(found, 14)[-1:] == [1]:
        if 9 in found or field in found:
            raise CheckError(f"{where} is stored both in the model and in another file")
        data = external.read([_entry(entry) for entry in protobuf.messages(found, 13)], size, where)
    elif 13 in found or protobuf.integers(found, 14)[-1:] not in ([], [0]):
        raise CheckError(f"{where} names another file but does not say that it is stored there")
    else:
        typed = b"".join(bytes(value) for _, value in found.get(field, []) if not isinstance(value, int))
        data = (protobuf.messages(found, 9) or [memoryview(typed)])[-1]
    if len(data) != size:
        raise CheckError(f"{where} does not fit its shape")
    return name, np.frombuffer(data, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _entry(message: memoryview) -> tuple[str, str]:
    found = protobuf.collect(message)
    return protobuf.text(found, 1), protobuf.text(found, 2)
