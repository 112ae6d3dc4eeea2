"""The .onnx format: one chain of Gemm (or MatMul and Add) and activations, decoded by hand."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check import wire
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.refused import Refused

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
        """Refuse attributes other than these values, which are the ones the chain is understood with."""
        for name, value in self.numbers.items():
            if name not in allowed or value != allowed[name]:
                raise Refused(f"its node {self.kind} has {name} = {value:g}, which is not checked")


def read_onnx(content: bytes) -> Model:
    """Return the model, if it is a plain chain from one input to one output."""
    (graph_bytes,) = wire.messages(wire.collect(memoryview(content)), 7) or [memoryview(b"")]
    graph = wire.collect(graph_bytes)
    tensors = dict(_tensor(message) for message in wire.messages(graph, 5))
    if len(tensors) != len(graph.get(5, [])):
        raise Refused("two of its tensors have one name")
    if len(graph.get(1, [])) > _MAX_NODES or 15 in graph:
        raise Refused("its graph is not a plain chain of layers")
    nodes = [_node(message) for message in wire.messages(graph, 1)]
    ends = [[wire.text(wire.collect(message), 1) for message in wire.messages(graph, field)] for field in (11, 12)]
    starts = [name for name in ends[0] if name not in tensors]
    if len(starts) != 1 or len(ends[1]) != 1:
        raise Refused("it must have one input and one output")
    return _model(_chain(nodes, tensors, starts[0], ends[1][0]), tensors)


def _chain(nodes: list[_Node], tensors: dict[str, Tensor], start: str, end: str) -> list[_Node]:
    """Return the nodes from the input to the output, each fed by the one before and by nothing else but weights."""
    by_input: dict[str, _Node] = {}
    for node in nodes:
        fed = [name for name in node.inputs if name and name not in tensors]
        if len(fed) != 1 or fed[0] in by_input or node.output in tensors:
            raise Refused("its graph is not a plain chain of layers")
        by_input[fed[0]] = node
    chain, name = [], start
    while name != end:
        if name not in by_input:
            raise Refused("its graph is not a plain chain of layers")
        chain.append(by_input.pop(name))
        name = chain[-1].output
    if by_input:
        raise Refused("its graph holds nodes outside of the chain from input to output")
    return chain


def _model(chain: list[_Node], tensors: dict[str, Tensor]) -> Model:
    layers: list[tuple[Tensor, Tensor | None]] = []
    activations: list[Activation] = []
    closed = False
    for place, node in enumerate(chain):
        if closed:
            raise Refused(f"its node {node.kind} follows a closing sigmoid or softmax")
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
                raise Refused("its Softmax is not over the outputs")
            closed = True
        elif node.kind == "PRelu" and fresh and not last:
            node.expect()
            slope = tensors.get(node.inputs[-1], np.zeros(0))
            if slope.size != 1:  # one number for all neurons: how a LeakyReLU in double precision is written
                raise Refused("its node PRelu has several slopes, which are not checked")
            activations.append(Activation("leaky_relu", float(slope.reshape(()))))
        elif node.kind in _ACTIVATIONS and fresh and not last:
            alpha = node.numbers.pop("alpha", float(np.float32(0.01))) if node.kind == "LeakyRelu" else 0.0
            node.expect()
            activations.append(Activation(_ACTIVATIONS[node.kind], alpha))
        else:
            raise Refused(f"its node {node.kind[:40]} at place {place} is not one that can be checked there")
    return make_model(layers, activations)


def _affine(node: _Node, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    if len(node.inputs) < 2 or node.inputs[0] in tensors or node.inputs[1] not in tensors:
        raise Refused(f"its node {node.kind} does not multiply the values by a stored matrix")
    weight = tensors[node.inputs[1]]
    if weight.ndim != 2:
        raise Refused(f"its node {node.kind} has a matrix of {weight.ndim} dimensions")
    if node.kind == "MatMul":
        node.expect()
        return weight.T, None
    transposed = node.numbers.pop("transB", 0)
    if transposed not in (0, 1):  # runtimes take anything but 0 for 1
        raise Refused(f"its node {node.kind} has transB = {transposed}")
    node.expect(alpha=1, beta=1, transA=0)
    weight = weight if transposed else weight.T
    with_bias = len(node.inputs) > 2 and node.inputs[2] != ""
    return weight, _bias(tensors[node.inputs[2]], len(weight)) if with_bias else None


def _bias(bias: Tensor, width: int) -> Tensor:
    if bias.shape not in ((width,), (1, width)):
        raise Refused(f"a bias of shape {bias.shape} is added to {width} values")
    return bias.reshape(width)


def _node(message: memoryview) -> _Node:
    found = wire.collect(message)
    outputs = [bytes(name).decode("utf-8") for name in wire.messages(found, 2)]
    domain, kind = wire.text(found, 7), wire.text(found, 4)
    if domain not in ("", "ai.onnx") or len(outputs) != 1:
        raise Refused(f"its node {kind[:40]} is not one that can be checked")
    numbers: dict[str, float] = {}
    for attribute in wire.messages(found, 5):
        parts = wire.collect(attribute)
        name = wire.text(parts, 1)
        if 2 in parts and not isinstance(parts[2][-1][1], int):
            numbers[name] = struct.unpack("<f", parts[2][-1][1])[0]
        elif 3 in parts:
            numbers[name] = wire.integers(parts, 3)[-1]
        elif wire.integers(parts, 20)[-1:] in ([1], [2]):
            numbers[name] = 0  # a number at its default is not written
        else:
            raise Refused(f"its node {kind[:40]} has the attribute {name[:40]}, which is not checked")
    return _Node(kind, tuple(bytes(name).decode("utf-8") for name in wire.messages(found, 1)), outputs[0], numbers)


def _tensor(message: memoryview) -> tuple[str, Tensor]:
    found = wire.collect(message)
    name, shape = wire.text(found, 8), wire.integers(found, 1)
    kind = wire.integers(found, 2)[-1:]
    if not kind or kind[0] not in _TYPES:
        raise Refused(f"its tensor {name[:40]} is neither float32 nor float64")
    if 13 in found or 3 in found or wire.integers(found, 14)[-1:] == [1]:
        raise Refused(f"its tensor {name[:40]} is stored outside of the file")
    stored, field = _TYPES[kind[0]]
    typed = b"".join(bytes(value) for _, value in found.get(field, []) if not isinstance(value, int))
    raw = wire.messages(found, 9) or [memoryview(typed)]
    dtype = np.dtype(stored)
    if any(size < 0 for size in shape) or len(raw[-1]) != math.prod(shape) * dtype.itemsize:
        raise Refused(f"its tensor {name[:40]} does not fit its shape")
    return name, np.frombuffer(raw[-1], dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))
