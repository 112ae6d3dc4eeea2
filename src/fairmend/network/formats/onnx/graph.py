"""An ONNX graph: its nodes, and the constants that they read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from fairmend.base.errors import FairmendError
from fairmend.base.text import listed
from fairmend.network.formats.build import SUPPORTED
from fairmend.network.formats.onnx.arrays import MOST, attributes, compute, has_rows

# The outputs of converted classifiers: a label, a map of probabilities, the column 1 − p beside p.
#
# skl2onnx gives an MLPClassifier two outputs, label and probabilities. fairmend reads the network that computes the
# probabilities. The label must be the largest of them, because that is fairmend's decision rule.


_LABELS = (TensorProto.INT64, TensorProto.STRING)
_KEEP_VALUES = ("Cast", "Reshape", "Identity", "ArrayFeatureExtractor")
_ML = "ai.onnx.ml"
_INSTEAD = "convert it with one output of scores, or with skl2onnx's options={'zipmap': False}"
_EXTRACT = "fairmend reads models with one: keep the one that decides with onnx.utils.extract_model, from the inputs {}"
_LINEAR = (
    "a linear model in one node. Give the estimator itself; in Python: "
    'fairmend.load_network(estimator).save("model.onnx")'
)
_OTHER = "not a neural network; fairmend reads neural networks, such as scikit-learn's MLPClassifier"


def find_scores(graph: Graph, outputs: Sequence[Any]) -> tuple[str, bool]:
    """Return the name of the value that the network computes: the one output, or the probabilities beside a label.

    And whether a label is the largest of this very value, which must then have a number for each class.
    """
    labels = [value for value in outputs if value.type.tensor_type.elem_type in _LABELS]
    others = [value for value in outputs if value not in labels]
    if len(labels) > 1 or len(others) != 1:
        names = listed([value.name for value in outputs])
        instead = _INSTEAD if labels else _EXTRACT.format(listed([value.name for value in graph.given], most=None))
        raise FairmendError(f"{graph.source}: the graph has {len(outputs)} outputs ({names}); {instead}")
    given = _before(graph, others[0].name, ("Identity", "ZipMap"))
    for label in labels:
        chosen = graph.producer(_before(graph, label.name, _KEEP_VALUES))
        _refuse_other_models(graph, chosen)
        largest = chosen if chosen is not None and chosen.op_type == "ArgMax" else None
        of = None if largest is None else _before(graph, largest.input[0], ("Identity",))
        if of != given or _attribute(largest, "axis", 0) not in (1, -1):
            raise FairmendError(
                f"{graph.source}: the output {label.name!r} is not the class of the largest score; "
                "convert the model with one output of scores"
            )
    mapped = getattr(graph.producer(others[0].name), "op_type", "") == "ZipMap"
    scores = _second_of_two(graph, given) if labels or mapped else given
    return scores, bool(labels) and scores == given


def _refuse_other_models(graph: Graph, node: Node | None) -> None:
    """Refuse a classifier that is one node: a linear model, a tree ensemble, a support vector machine."""
    if node is not None and node.domain == _ML and node.op_type.endswith("Classifier"):
        what = _LINEAR if node.op_type == "LinearClassifier" else _OTHER
        raise FairmendError(f"{graph.source}: node {(node.name or node.op_type)!r} ({node.op_type}) is {what}")


def _before(graph: Graph, value: str, passing: Sequence[str]) -> str:
    """Return the value before the nodes that only pass it on or rename it."""
    node = graph.producer(value)
    while node is not None and node.op_type in passing:
        # An ArrayFeatureExtractor picks from a constant, the classes, by its second input.
        data = [name for name in node.input if name and graph.constant(name) is None]
        if len(data) != 1:
            break
        value = data[0]
        node = graph.producer(value)
    return value


def _second_of_two(graph: Graph, value: str) -> str:
    """Return p if the value is the row (1 − p, p) of a binary classifier; else the value."""
    node = graph.producer(value)
    if node is None or node.op_type != "Concat" or len(node.input) != 2 or _attribute(node, "axis", 0) not in (1, -1):
        return value
    rest, second = node.input
    difference = graph.producer(rest)
    if difference is None or difference.op_type != "Sub" or list(difference.input[1:]) != [second]:
        return value
    one = graph.constant(difference.input[0])
    if one is None or one.size != 1 or not (one == 1).all():
        return value
    # Only of a probability is the label p > 0.5 the sign of a logit.
    source = graph.producer(_before(graph, second, ("Cast", "Reshape", "Identity")))
    return second if source is not None and source.op_type == "Sigmoid" else value


def _attribute(node: Node, name: str, default: int) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


Node = Any  # onnx.NodeProto, whose package carries no types
_WHOLE = (TensorProto.INT64, TensorProto.INT32)
_DTYPES: dict[int, np.dtype[Any]] = {TensorProto.FLOAT: np.dtype(np.float32), TensorProto.DOUBLE: np.dtype(np.float64)}


@dataclass(frozen=True)
class LayerNodes:
    """The outputs of the nodes that compute an affine layer: the product, and the sum with its bias, if there is one.

    `transposed` says whether the file stores the weight as (out, in), as Gemm with transB does, and `position` which
    input of the product it is.
    """

    product: str
    transposed: bool
    bias_node: str | None
    bias_position: int = 2
    position: int = 1


@dataclass(frozen=True)
class GraphInput:
    """An input of the graph: how many columns it has (None: not stated), and whether it holds whole numbers.

    ``single`` says that it has one column, and no axis for it.
    """

    name: str
    columns: int | None
    whole: bool
    single: bool = False


class Graph:
    """The inputs of a model, one output of scores, the nodes between them and the constants that they read."""

    def __init__(self, model: Any, source: str) -> None:
        """Read a checked model; refuse several outputs, and elements other than float and double."""
        self.source = source
        self.layers: dict[str, LayerNodes] = {}
        self.derived: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any] | None]] = {}
        self.tables: dict[str, str] = {}
        graph = model.graph
        self.opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
        self._constants: dict[str, npt.NDArray[Any]] = {}
        self._folded = 0  # numbers that nodes made of constants
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
        self.given = inputs
        self.declared = {value.name: _numbers_of(value) for value in (*graph.value_info, *graph.output)}
        self.row_counts = {next(iter(_numbers_of(value)), None) for value in inputs}
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
            way_out = "an EmbeddingBag so: look up each column with an Embedding, and add up what it gives"
            if node.op_type == "If":
                way_out = "squeeze() so with dynamo=False: write x[:, 0] instead, or export with dynamo=True"
            raise FairmendError(
                f"{self.source}: {describe_node(node)} runs a graph of its own, which fairmend does not read. PyTorch "
                f"exports {way_out}"
            )

    def readers(self, name: str) -> list[Node]:
        """Return the nodes that read a value."""
        return [node for node in self._nodes if name in node.input]

    def constant(self, name: str) -> npt.NDArray[Any] | None:
        """Return the value of an initialiser or Constant node; None for a value that depends on the input."""
        return self._constants.get(name)

    def constants(self) -> Collection[npt.NDArray[Any]]:
        """Return the values of all initialisers and Constant nodes, and what nodes compute of them."""
        return self._constants.values()

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
            return GraphInput(value.name, 1, whole, single=True)
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
        """Evaluate a Constant node, or a node that reads constants alone."""
        if node.op_type == "Constant" and node.attribute:
            attribute = node.attribute[0]
            value = helper.get_attribute_value(attribute)
            if attribute.name == "value":
                self._constants[node.output[0]] = self._array(value)
            elif attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
                kind = np.float32 if "float" in attribute.name else np.int64
                self._constants[node.output[0]] = np.array(value, kind)
        elif node.input and all(not name or name in self._constants for name in node.input):
            self.fold(node, [self._constants.get(name) for name in node.input])

    def fold(self, node: Node, given: Sequence[npt.NDArray[Any] | None]) -> Sequence[npt.NDArray[Any]]:
        """Return what a node gives of constants and sizes, and keep it as constants; nothing if that is not known."""
        if node.op_type == "Transpose" and given[0] is not None:
            self._check_transpose(node, given[0])
        found = compute(node, given) or []
        self._folded += sum(array.size for array in found)
        if self._folded > MOST:
            raise FairmendError(f"{self.source}: nodes make constants of more than {MOST:,} numbers")
        for name, array in zip(node.output, found, strict=False):
            if name and not has_rows(array):
                self._constants[name] = array
        return found

    def _check_transpose(self, node: Node, matrix: npt.NDArray[Any]) -> None:
        """Refuse what ONNX Runtime up to 1.29 takes for an exchange of two axes before a Gemm, whatever the order."""
        perm = list(attributes(node).get("perm", range(matrix.ndim)[::-1]))
        gemm = any(reader.op_type == "Gemm" for reader in self.readers(node.output[0]))
        if (gemm or matrix.ndim == 2) and perm != [1, 0]:
            raise FairmendError(
                f"{self.source}: {describe_node(node)} gives a constant of shape {matrix.shape} the order of axes "
                f"{perm}, which ONNX Runtime up to 1.29 ignores before a Gemm; store the constant as it is used"
            )


def _numbers_of(value: Any) -> list[int | None]:
    """Return the declared sizes of the axes of a value, with None for those that are no numbers."""
    dims = value.type.tensor_type.shape.dim
    return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in dims]


def describe_node(node: Node) -> str:
    """Return the name and operator of a node, for errors."""
    return f"node {node.name or node.output[0]!r} ({node.op_type})"
