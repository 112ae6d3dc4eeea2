"""An ONNX graph: its nodes, and the constants that they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import SUPPORTED
from fairmend.network.formats.onnx.classifier import find_scores

Node = Any  # onnx.NodeProto, whose package carries no types
_WHOLE = (TensorProto.INT64, TensorProto.INT32)
_DTYPES: dict[int, np.dtype[Any]] = {TensorProto.FLOAT: np.dtype(np.float32), TensorProto.DOUBLE: np.dtype(np.float64)}


@dataclass(frozen=True)
class LayerNodes:
    """The outputs of the nodes that compute an affine layer: the product, and the sum with its bias, if there is one.

    `transposed` says whether the file stores the weight as (out, in), as Gemm with transB does.
    """

    product: str
    transposed: bool
    bias_node: str | None
    bias_position: int = 2


@dataclass(frozen=True)
class GraphInput:
    """An input of the graph: how many columns it has (None: not stated), and whether it holds whole numbers."""

    name: str
    columns: int | None
    whole: bool


class Graph:
    """The inputs of a model, one output of scores, the nodes between them and the constants that they read."""

    def __init__(self, model: Any, source: str) -> None:
        """Read a checked model; refuse several outputs, and elements other than float and double."""
        self.source = source
        self.layers: dict[str, LayerNodes] = {}
        self.tables: dict[str, str] = {}
        graph = model.graph
        self._constants: dict[str, npt.NDArray[Any]] = {}
        self._nodes: list[Node] = list(graph.node)
        self._producers: dict[str, Node] = {out: node for node in graph.node for out in node.output if out}
        for tensor in graph.initializer:
            self._constants[tensor.name] = self._array(tensor)
        for node in graph.node:
            self._fold_constant(node)
        # Before IR version 4 initialisers were listed as inputs too.
        inputs = [value for value in graph.input if value.name not in self._constants]
        if not inputs:
            raise FairmendError(f"{source}: the graph has no input")
        self.output, self.ranked = find_scores(self, graph.output)
        self.inputs = [self._input(value, alone=len(inputs) == 1) for value in inputs]
        elements = {value.type.tensor_type.elem_type for value in inputs} & set(_DTYPES)
        self.element: int = min(elements, default=TensorProto.FLOAT)
        self.dtype: np.dtype[Any] = _DTYPES[self.element]

    def nodes(self) -> list[Node]:
        """Return the nodes that the output depends on, in order, constants aside."""
        needed = {self.output}
        found: list[Node] = []
        for node in reversed(self._nodes):
            if needed & set(node.output) and node.output[0] not in self._constants:
                self._refuse_subgraph(node)
                found.append(node)
                needed.update(node.input)
        if not needed & {value.name for value in self.inputs}:
            raise FairmendError(f"{self.source}: the graph's output does not depend on its input")
        return found[::-1]

    def _refuse_subgraph(self, node: Node) -> None:
        """Refuse a loop or branch: its graph may read any value, and so any input."""
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise FairmendError(
                f"{self.source}: {describe_node(node)} runs a graph of its own, which fairmend does not read. PyTorch "
                "exports an EmbeddingBag so: look up each column with an Embedding, and add up what it gives"
            )

    def readers(self, name: str) -> list[Node]:
        """Return the nodes that read a value."""
        return [node for node in self._nodes if name in node.input]

    def constant(self, name: str) -> npt.NDArray[Any] | None:
        """Return the value of an initialiser or Constant node; None for a value that depends on the input."""
        return self._constants.get(name)

    def producer(self, name: str) -> Node | None:
        """Return the node that computes a value; None for inputs and constants."""
        return None if name in self._constants else self._producers.get(name)

    def _input(self, value: Any, *, alone: bool) -> GraphInput:
        tensor_type = value.type.tensor_type
        whole = tensor_type.elem_type in _WHOLE
        if not whole and tensor_type.elem_type not in _DTYPES:
            name = TensorProto.DataType.Name(tensor_type.elem_type)
            raise FairmendError(
                f"{self.source}: the graph's input is {name}; fairmend computes in float32 or float64: "
                "convert the model first (for float16, export it from a model.float())"
            )
        if not tensor_type.HasField("shape"):
            return GraphInput(value.name, None, whole)
        dims = tensor_type.shape.dim
        if len(dims) == 1 and not alone:
            return GraphInput(value.name, 1, whole)
        if len(dims) != 2:
            raise FairmendError(
                f"{self.source}: the graph's input has {len(dims)} axes, not (rows, features); {SUPPORTED}"
            )
        return GraphInput(value.name, int(dims[1].dim_value) if dims[1].HasField("dim_value") else None, whole)

    def _array(self, tensor: Any) -> npt.NDArray[Any]:
        if min(tensor.dims, default=0) < 0:  # older releases of onnx take -1 for "whatever fits"
            raise FairmendError(f"{self.source}: the tensor {tensor.name!r} has a negative dimension; export it again")
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as error:
            raise FairmendError(f"{self.source}: the tensor {tensor.name!r} cannot be read ({error})") from error

    def _fold_constant(self, node: Node) -> None:
        """Evaluate a Constant node, or an Identity or Transpose that an exporter put between a constant and its use."""
        if node.op_type == "Constant" and node.attribute:
            attribute = node.attribute[0]
            value = helper.get_attribute_value(attribute)
            if attribute.name == "value":
                self._constants[node.output[0]] = self._array(value)
            elif attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
                kind = np.float32 if "float" in attribute.name else np.int64
                self._constants[node.output[0]] = np.array(value, kind)
        elif node.op_type in ("Identity", "Transpose") and len(node.input) == 1:
            value = self._constants.get(node.input[0])
            if value is not None:
                self._constants[node.output[0]] = value if node.op_type == "Identity" else self._transpose(node, value)

    def _transpose(self, node: Node, matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a matrix with its axes exchanged, which ONNX Runtime up to 1.29 does whatever the order of axes is."""
        perm = attributes(node).get("perm", [1, 0])
        if matrix.ndim != 2 or list(perm) != [1, 0]:
            raise FairmendError(
                f"{self.source}: {describe_node(node)} gives a constant of shape {matrix.shape} the order of axes "
                f"{list(perm)}, which ONNX Runtime up to 1.29 ignores before a Gemm; store the constant as it is used"
            )
        return matrix.T


def describe_node(node: Node) -> str:
    """Return the name and operator of a node, for errors."""
    return f"node {node.name or node.output[0]!r} ({node.op_type})"


def attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
