"""The nodes of an ONNX graph, from its inputs on, as steps of a model.

Values have the axes (rows, columns), or (rows,) once a single column has lost its axis, or (rows, looked-up columns,
width) after a look-up. `find_function` finds functions that exporters write as several nodes (x · sigmoid(x)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.operations.affine import Norm, batch_norm, scaling
from fairmend_check.readers.onnx_nodes import ELEMENTS, Node, find_function

Tensor = NDArray[Any]

WHOLE = (ELEMENTS["int32"], ELEMENTS["int64"])
_MAX_NUMBERS = 2**28  # in all steps together: many nodes could share the same constants
_END = 2**31 - 1  # an end of a slice from here on means: all the rest
_LOST = 2.0**-150  # the largest number that float32 rounds to 0
_SELU = (float(np.float32(1.6732631921768188)), float(np.float32(1.0507010221481323)))


@dataclass(frozen=True)
class Entry:
    """What a node gives: a value of the graph, its elements and axes, and what is stacked along a new axis of it.

    ``cut`` says that a cast to whole numbers may have cut off digits, or to fewer bits: only a look-up may read it.
    """

    value: int
    element: int
    axes: int = 2
    stacked: tuple[int, ...] = ()
    along: int = 0
    cut: bool = False


class OnnxGraph:
    """The steps read so far, the constants, and the types of the values on the way."""

    def __init__(self, inputs: list[tuple[str, int, list[int | str]]]) -> None:
        """Put the inputs, each with its elements and shape, side by side in one row."""
        widths = []
        for _, element, shape in inputs:
            if len(inputs) > 1 and len(shape) == 1 and element in WHOLE:
                widths.append(1)
            elif len(shape) == 2 and isinstance(shape[1], int):
                widths.append(shape[1])
            else:
                raise CheckError("each input must be declared as rows of a known number of columns")
        floats = {element for _, element, _ in inputs} - set(WHOLE)
        if len(floats) > 1:
            raise CheckError("the inputs have several types of numbers")
        self.element = min(floats, default=ELEMENTS["float32"])
        self.rows = inputs[0][2][0]
        self.graph = Graph(sum(widths))
        self.tensors: dict[str, Tensor] = {}
        self.nodes: dict[str, Node] = {}
        self.entries: dict[str, Entry | CheckError] = {}
        self.types: dict[str, tuple[int, list[int]]] = {}  # elements and columns of each value on the way
        self.elements: dict[str, int] = {}  # elements of values of other shapes, and of those inside a pattern
        self.biases: set[str] = set()  # nodes that add the bias of the product before them
        self.outputs: frozenset[str] = frozenset()  # which callers read
        self._numbers = 0
        start = 0
        for (name, element, shape), width in zip(inputs, widths, strict=True):
            value = self.graph.columns(self.graph.input, list(range(start, start + width)))
            self._put(name, Entry(value, element, len(shape)))
            start += width

    def append(self, node: Node, readers: dict[str, list[Node]]) -> None:
        """Add what a node computes from earlier values."""
        self.nodes[node.output] = node
        self._numbers += 1 + sum(self.tensors[name].size for name in node.inputs if name in self.tensors)
        if self._numbers > _MAX_NUMBERS:
            raise CheckError(f"the nodes of the graph use more than {_MAX_NUMBERS:,} numbers")
        try:
            self._convert(node, readers)
        except CheckError as error:
            self.entries[node.output] = error  # which counts unless a pattern has the node in it
            self.elements[node.output] = ELEMENTS["bool"] if node.kind == "Greater" else self.element

    def entry(self, name: str) -> Entry:
        """Return what is known of a value that depends on the inputs."""
        found = self.entries.get(name)
        if found is None:
            raise CheckError(f"a node reads {name[:40]!r}, which no node before it computes from the input")
        if isinstance(found, CheckError):
            raise found
        return found

    def _convert(self, node: Node, readers: dict[str, list[Node]]) -> None:
        found = find_function(node, self)
        if found is not None:
            name, activation = found
            self._put(node.output, self._function(name, activation))
        elif node.kind == "MatMul":
            self._put(node.output, self._matmul(node, readers.get(node.output, [])))
        elif node.kind == "Split":
            self._split(node)
        elif node.kind in _OPERATORS:
            self._put(node.output, _OPERATORS[node.kind](self, node))
        else:
            raise CheckError(f"node {node.kind} cannot be checked at this place")

    def _put(self, name: str, entry: Entry) -> None:
        self.entries[name] = entry
        width = self.graph.width(entry.value)
        if entry.axes < 3:
            self.types[name] = (entry.element, [] if entry.axes == 1 else [width])
        else:
            self.elements[name] = entry.element

    def pass_constant(self, node: Node) -> bool:
        """Pass on a constant, or transpose it, as exporters do with weights; return whether the node does that."""
        if node.kind not in ("Identity", "Transpose") or node.inputs[0] not in self.tensors:
            return False
        tensor = self.tensors[node.inputs[0]]
        if node.kind == "Transpose":
            # Before a Gemm, ONNX Runtime up to 1.29 exchanges the axes whatever the order is.
            if tensor.ndim != 2 or node.attributes["perm"] not in ([], [1, 0]):
                raise CheckError("node Transpose does not exchange the two axes of a matrix")
            tensor = tensor.T
        self.tensors[node.output] = tensor
        return True

    def number(self, name: str) -> float | None:
        """Return a constant that is one number, and adds no axis to what it is combined with."""
        tensor = self.tensors.get(name)
        single = tensor is not None and tensor.shape in ((), (1,)) and tensor.dtype != object
        return float(tensor.reshape(())) if tensor is not None and single else None

    def _row_value(self, name: str, node: Node) -> int:
        """Return a value of numbers with the axes (rows, columns)."""
        entry = self.entry(name)
        if entry.axes != 2 or entry.stacked or entry.element != self.element:
            raise CheckError(f"node {node.kind} reads a value that is not (rows, columns) of the input's type")
        return entry.value

    def _out(self, value: int, axes: int = 2) -> Entry:
        return Entry(value, self.element, axes)

    def _constant(self, name: str) -> Tensor:
        """Return a constant of the type of the input."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise CheckError(f"the value {name[:40]!r} must be a constant")
        if ELEMENTS.get(tensor.dtype.name) != self.element:
            raise CheckError(f"the constant {name[:40]!r} is {tensor.dtype.name}, unlike the input")
        return tensor

    def _whole_numbers(self, name: str) -> list[int]:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.dtype != np.int64 or tensor.ndim > 1:
            raise CheckError(f"the value {name[:40]!r} is not a constant list of whole numbers")
        return [int(number) for number in tensor.reshape(-1)]

    def _row(self, name: str, columns: int) -> Tensor:
        """Return a constant that is the same for every row: one number, or one for each column."""
        tensor = self._constant(name)
        if tensor.shape not in ((), *((*ones, n) for ones in ((), (1,)) for n in (1, columns))):
            raise CheckError(f"a constant of shape {tensor.shape} is combined with rows of {columns} numbers")
        return tensor.reshape(() if tensor.size == 1 and columns != 1 else tensor.size)

    def _added(self, name: str, columns: int) -> Tensor:
        """Return what a node adds or subtracts; ONNX Runtime leaves out one number if it is 0 in float32."""
        tensor = self._row(name, columns)
        if tensor.size == 1 and 0 < abs(float(tensor.reshape(()))) <= _LOST:
            raise CheckError(f"the constant {name[:40]!r} is so small that ONNX Runtime takes it for 0")
        return tensor

    def _affine(self, node: Node, weight: Tensor, bias: Tensor | None, norm: Norm | None = None) -> Entry:
        source = self._row_value(node.inputs[0], node)
        if weight.ndim != 2 or weight.shape[1] != self.graph.width(source):
            raise CheckError(f"node {node.kind} has a matrix of another size than its input")
        wide = None if bias is None else np.broadcast_to(bias, (len(weight),))
        value = self.graph.affine(source, weight, wide)
        return self._out(value if norm is None else self.graph.norm(value, norm))

    def _gemm(self, node: Node) -> Entry:
        node.expect("transA", 0)
        node.expect("transB", 0, 1)  # runtimes take every transB but 0 for 1
        weight = self._constant(node.inputs[1])
        weight = weight if node.attributes["transB"] else weight.T
        given = len(node.inputs) == 3 and node.inputs[2]
        bias = self._row(node.inputs[2], len(weight)) if given else None
        alpha, beta = node.attributes["alpha"], node.attributes["beta"]
        if alpha == beta == 1:
            return self._affine(node, weight, bias)
        norm = scaling(0.0, alpha, None if bias is None else bias.astype(np.float64) * beta)
        return self._affine(node, weight, None, replace(norm, reach=norm.reach * scaling(0.0, beta, None).reach))

    def _matmul(self, node: Node, readers: list[Node]) -> Entry:
        weight = self._constant(node.inputs[1]).T
        alone = len(readers) == 1 and node.output not in self.outputs
        if weight.ndim == 2 and alone and readers[0].kind == "Add":
            others = [name for name in readers[0].inputs if name != node.output and name in self.tensors]
            if len(others) == 1:
                self.biases.add(readers[0].output)
                return self._affine(node, weight, self._added(others[0], len(weight)))
        return self._affine(node, weight, None)

    def _arithmetic(self, node: Node) -> Entry:
        """Read a sum, difference, product or quotient of each column with constants, or a sum of two values."""
        constants = [name in self.tensors for name in node.inputs]
        if all(constants):
            raise CheckError(f"node {node.kind} computes a constant, which cannot be checked")
        if not any(constants):
            values = [self._row_value(name, node) for name in node.inputs]
            if node.kind == "Sub":
                values[1] = self.graph.norm(values[1], scaling(0.0, -1.0, None))
            elif node.kind != "Add":
                raise CheckError(f"node {node.kind} combines two values that depend on the input")
            return self._out(self.graph.sum(*values))
        source = self._row_value(node.inputs[constants.index(False)], node)
        if node.kind == "Add" and node.output in self.biases:
            return self._out(source)
        row = self._added if node.kind in ("Add", "Sub") else self._row
        value = row(node.inputs[constants.index(True)], self.graph.width(source)).astype(np.float64)
        if node.kind == "Div" and (constants[0] or not value.all()):
            raise CheckError("node Div divides by 0, or by a value that depends on the input")
        gain = value if node.kind == "Mul" else 1 / value if node.kind == "Div" else -1.0 if constants[0] else 1.0
        gain = 1.0 if node.kind == "Add" else gain
        shift = {"Add": value, "Sub": value if constants[0] else -value}.get(node.kind)
        return self._out(self.graph.norm(source, scaling(0.0, gain, shift)))

    def _negative(self, node: Node) -> Entry:
        return self._out(self.graph.norm(self._row_value(node.inputs[0], node), scaling(0.0, -1.0, None)))

    def _total(self, node: Node) -> Entry:
        values = [self._row_value(name, node) for name in node.inputs]
        value = values[0] if len(values) == 1 else self.graph.sum(*values)
        if node.kind == "Mean" and len(values) > 1:
            value = self.graph.norm(value, scaling(0.0, 1 / len(values), None))
        return self._out(value)

    def _reduced(self, node: Node) -> Entry:
        """Read the sum or mean of values that were stacked, or of the columns of a value."""
        axes = self._whole_numbers(node.inputs[1]) if len(node.inputs) == 2 else list(node.attributes["axes"])
        node.expect("keepdims", 0, 1)
        node.expect("noop_with_empty_axes", 0)
        entry, keep = self.entry(node.inputs[0]), node.attributes["keepdims"]
        if entry.element != self.element:  # a mean of whole numbers is cut off, and a sum of them can overflow
            raise CheckError(f"node {node.kind} adds up whole numbers, which cannot be checked")
        if entry.stacked and axes in ([entry.along], [entry.along - 3]) and not keep:
            parts, left = list(entry.stacked), 2
        elif not entry.stacked and axes in ([1], [-1]):
            source = self._row_value(node.inputs[0], node)
            parts = [self.graph.columns(source, [column]) for column in range(self.graph.width(source))]
            left = 2 if keep else 1
        else:
            raise CheckError(f"node {node.kind} is over other axes than can be checked")
        value = parts[0] if len(parts) == 1 else self.graph.sum(*parts)
        if node.kind == "ReduceMean" and len(parts) > 1:
            value = self.graph.norm(value, scaling(0.0, 1 / len(parts), None))
        return self._out(value, left)

    def _batch_norm(self, node: Node) -> Entry:
        node.expect("training_mode", 0)
        source = self._row_value(node.inputs[0], node)
        gain, shift, mean, variance = (self._constant(name) for name in node.inputs[1:])
        if any(part.shape != (self.graph.width(source),) for part in (gain, shift, mean, variance)):
            raise CheckError("node BatchNormalization does not have one number of each kind for each column")
        norm = batch_norm(mean, variance, gain, shift, node.attributes["epsilon"])
        return self._out(self.graph.norm(source, norm))

    def _scaler(self, node: Node) -> Entry:
        source = self._row_value(node.inputs[0], node)
        offset, scale = (np.array(node.attributes[name], np.float64) for name in ("offset", "scale"))
        if self.element != 1 or any(part.size not in (1, self.graph.width(source)) for part in (offset, scale)):
            raise CheckError("node Scaler does not give float32, or has another number of columns than its input")
        offset, scale = (part.reshape(()) if part.size == 1 else part for part in (offset, scale))
        return self._out(self.graph.norm(source, scaling(offset, scale, None)))

    def _function(self, name: str, activation: Activation) -> Entry:
        entry = self.entry(name)
        if entry.axes == 3 or entry.element != self.element:
            raise CheckError(f"{activation.name} is taken of a value that is not (rows, columns) of the input's type")
        return self._out(self.graph.function(entry.value, activation), entry.axes)

    def _activation(self, node: Node) -> Entry:
        return self._function(node.inputs[0], self._activation_of(node))

    def _activation_of(self, node: Node) -> Activation:
        given = node.attributes
        if node.kind == "LeakyRelu":
            return Activation("leaky_relu", given["alpha"])
        if node.kind == "PRelu":
            width = self.graph.width(self._row_value(node.inputs[0], node))
            slopes = self._row(node.inputs[1], width).reshape(-1)
            if np.unique(slopes).size == 1 and slopes[0] >= 0:
                return Activation("leaky_relu", float(slopes[0]))
            return Activation("prelu", 0.0, tuple(np.broadcast_to(slopes, (width,)).tolist()))
        if node.kind == "Clip":
            return self._clip(node)
        if node.kind in ("Elu", "Celu"):
            return Activation(node.kind.lower(), 0.0, (given["alpha"],))
        if node.kind == "Selu" and (given["alpha"], given["gamma"]) != _SELU:
            raise CheckError("node Selu has other numbers than those of SELU")
        if node.kind == "Softplus":
            return Activation("softplus", 0.0, (1.0,))
        if node.kind == "HardSigmoid":
            return Activation("hardsigmoid", 0.0, (given["alpha"], given["beta"]))
        if node.kind == "Gelu":
            if given["approximate"] not in ("none", "tanh"):
                raise CheckError("node Gelu has an unknown form")
            return Activation("gelu" if given["approximate"] == "none" else "gelu_tanh")
        if node.kind == "HardSwish" and self.element != ELEMENTS["float32"]:
            raise CheckError("node HardSwish is defined by 1/6 in float32, which is another number in float64")
        if node.kind in ("Softmax", "LogSoftmax"):
            node.expect("axis", -1, 1)
            return Activation("softmax" if node.kind == "Softmax" else "log_softmax")
        return Activation(node.kind.lower())

    def _clip(self, node: Node) -> Activation:
        if node.given and len(node.inputs) > 1:
            raise CheckError("node Clip has its limits twice")
        limits = [node.attributes["min"], node.attributes["max"]]
        for k, name in enumerate(node.inputs[1:]):
            if name:
                limits[k] = float(self._constant(name).reshape(-1)[0]) if self._constant(name).size == 1 else np.nan
        if limits[0] == 0 and limits[1] == np.inf:
            return Activation("relu")
        if np.isnan(limits).any():
            raise CheckError("node Clip has limits that are not single numbers")
        largest = float(np.finfo(np.float32 if self.element == ELEMENTS["float32"] else np.float64).max)
        return Activation("clip", 0.0, (max(limits[0], -largest), min(limits[1], largest)))

    def _pass(self, node: Node) -> Entry:
        """Read a node that passes on a value, possibly in other axes."""
        entry = self.entry(node.inputs[0])
        if node.kind == "Cast":
            node.expect("to", self.element, *WHOLE)
            to = node.attributes["to"]
            if entry.cut and to not in WHOLE:
                raise CheckError("node Cast makes numbers of what a cast to whole numbers may have cut off")
            shorter = to == ELEMENTS["int32"] and entry.element != to
            return replace(entry, element=to, cut=entry.cut or shorter or (to in WHOLE and entry.element not in WHOLE))
        if node.kind == "Dropout":
            training = self.tensors[node.inputs[2]] if len(node.inputs) == 3 and node.inputs[2] else np.zeros(1)
            if training.any():
                raise CheckError("node Dropout is in training mode")
            if len(node.inputs) > 1 and node.inputs[1] and self.number(node.inputs[1]) is None:
                raise CheckError("node Dropout has a ratio that is not a constant number, which runtimes refuse")
        return entry

    def _flatten(self, node: Node) -> Entry:
        entry = self.entry(node.inputs[0])
        if entry.stacked or entry.axes == 1:
            raise CheckError("node Flatten reads a value that is not rows")
        node.expect("axis", 1, 1 - entry.axes)
        return replace(entry, axes=2)

    def _reshape(self, node: Node) -> Entry:
        shape, entry = self._whole_numbers(node.inputs[1]), self.entry(node.inputs[0])
        columns = self.graph.width(entry.value)
        node.expect("allowzero", 0, 1)
        same = [[-1, columns]] + ([[0, columns], [0, -1]] if node.attributes["allowzero"] == 0 else [])
        if shape == [-1] and columns == 1 and not entry.stacked:
            return replace(entry, axes=1)
        if entry.axes == 1 or entry.stacked or shape not in same:
            raise CheckError("node Reshape changes the shape of a value, which cannot be checked")
        return replace(entry, axes=2)

    def _squeeze(self, node: Node) -> Entry:
        axes = node.attributes["axes"] if len(node.inputs) == 1 else self._whole_numbers(node.inputs[1])
        entry = self.entry(node.inputs[0])
        columns = self.graph.width(entry.value)
        if entry.axes == 2 and not entry.stacked and columns == 1 and axes in ([], [1], [-1]):
            return replace(entry, axes=1)
        if entry.axes == 1 and axes == []:
            return entry
        raise CheckError("node Squeeze is over another axis than one of a single column")

    def _unsqueeze(self, node: Node) -> Entry:
        axes = node.attributes["axes"] if len(node.inputs) == 1 else self._whole_numbers(node.inputs[1])
        entry = self.entry(node.inputs[0])
        if entry.axes == 1 and axes in ([1], [-1]):
            return replace(entry, axes=2)
        if entry.axes != 2 or entry.stacked or len(axes) != 1 or not -3 <= axes[0] < 3:
            raise CheckError("node Unsqueeze adds an axis that cannot be checked")
        return Entry(entry.value, entry.element, 3, (entry.value,), axes[0] % 3, entry.cut)

    def _concat(self, node: Node) -> Entry:
        entries, axis = [self.entry(name) for name in node.inputs], node.attributes["axis"]
        first = entries[0]
        if any((each.element, each.axes, each.along) != (first.element, first.axes, first.along) for each in entries):
            raise CheckError("node Concat joins values of several types or shapes")
        if all(each.stacked for each in entries) and axis in (first.along, first.along - 3):
            stacked = tuple(value for each in entries for value in each.stacked)
            return replace(first, stacked=stacked, cut=any(each.cut for each in entries))
        if any(each.stacked for each in entries) or (first.axes, axis) not in ((2, 1), (2, -1), (3, 1), (3, -2)):
            raise CheckError("node Concat is along an axis that cannot be checked")
        joined = self.graph.concatenate(*(each.value for each in entries))
        return replace(first, value=joined, cut=any(each.cut for each in entries))

    def _gather(self, node: Node) -> Entry:
        """Read a look-up in a constant table, or a choice of columns."""
        axis, table = node.attributes["axis"], self.tensors.get(node.inputs[0])
        if table is not None:
            entry = self.entry(node.inputs[1])
            if axis != 0 or table.ndim != 2 or entry.element not in WHOLE or entry.stacked or entry.axes > 2:
                raise CheckError("node Gather looks up what cannot be checked")
            return self._out(self._looked_up(entry.value, self._constant(node.inputs[0])), entry.axes + 1)
        entry, indices = self.entry(node.inputs[0]), self.tensors.get(node.inputs[1])
        if indices is None or indices.dtype != np.int64 or indices.ndim > 1 or axis not in (1, -1) or entry.axes != 2:
            raise CheckError("node Gather chooses what cannot be checked")
        columns = self.graph.width(entry.value)
        chosen = [int(index) + columns * (index < 0) for index in indices.reshape(-1)]
        return replace(entry, value=self.graph.columns(entry.value, chosen), axes=1 + indices.ndim)

    def _looked_up(self, source: int, table: Tensor) -> int:
        columns = [self.graph.columns(source, [column]) for column in range(self.graph.width(source))]
        return self.graph.concatenate(*(self.graph.lookup(column, table) for column in columns))

    def _one_hot(self, node: Node) -> Entry:
        entry, depth = self.entry(node.inputs[0]), self._whole_numbers(node.inputs[1])
        node.expect("axis", 1, -1)
        if entry.axes != 1 or entry.element not in WHOLE or len(depth) != 1 or not 0 < depth[0] <= 2**16:
            raise CheckError("node OneHot does not encode one column")
        if self._constant(node.inputs[2]).tolist() != [0, 1]:
            raise CheckError("node OneHot has other values than 0 and 1")
        dtype = self._constant(node.inputs[2]).dtype
        return self._out(self._looked_up(entry.value, np.eye(depth[0], dtype=dtype)))

    def _slice(self, node: Node) -> Entry:
        entry = self.entry(node.inputs[0])
        if len(node.inputs) < 3 or entry.axes != 2 or entry.stacked or node.given:
            raise CheckError("node Slice is not one of columns by constants")
        lists = [self._whole_numbers(name) for name in node.inputs[1:]]
        starts, ends = lists[:2]
        axes = lists[2] if len(lists) > 2 else list(range(len(starts)))
        steps = lists[3] if len(lists) > 3 else [1] * len(starts)
        if not len(starts) == len(ends) == len(axes) == len(steps) or len(set(axes)) != len(axes):
            raise CheckError("node Slice has lists of different lengths")
        value, columns = entry.value, self.graph.width(entry.value)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            if axis in (0, -2) and (start, step) == (0, 1) and end >= _END:
                continue
            if axis not in (1, -1) or step == 0:
                raise CheckError("node Slice chooses among the rows")
            value = self.graph.columns(value, list(range(columns)[slice(start, end, step)]))
        return replace(entry, value=value)

    def _split(self, node: Node) -> None:
        entry = self.entry(node.inputs[0])
        node.expect("axis", 1, -1)
        if len(node.inputs) != 2 or entry.axes != 2 or entry.stacked or node.given - {"axis"}:
            raise CheckError("node Split is not one of columns into given sizes")
        sizes = self._whole_numbers(node.inputs[1])
        if len(sizes) != len(node.outputs) or min(sizes, default=0) < 1 or sum(sizes) != self.graph.width(entry.value):
            raise CheckError("node Split has sizes that do not fit")
        start = 0
        for name, size in zip(node.outputs, sizes, strict=True):
            self._put(name, replace(entry, value=self.graph.columns(entry.value, list(range(start, start + size)))))
            start += size


_FUNCTIONS = (
    "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "Mish", "PRelu", "Relu",
    "Selu", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
)  # fmt: skip
_OPERATORS: dict[str, Callable[[OnnxGraph, Node], Entry]] = {
    "Gemm": OnnxGraph._gemm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), OnnxGraph._arithmetic),
    "Neg": OnnxGraph._negative,
    **dict.fromkeys(("Sum", "Mean"), OnnxGraph._total),
    **dict.fromkeys(("ReduceSum", "ReduceMean"), OnnxGraph._reduced),
    "BatchNormalization": OnnxGraph._batch_norm,
    "Scaler": OnnxGraph._scaler,
    **dict.fromkeys(_FUNCTIONS, OnnxGraph._activation),
    **dict.fromkeys(("Cast", "Dropout", "Identity"), OnnxGraph._pass),
    "Flatten": OnnxGraph._flatten,
    "Reshape": OnnxGraph._reshape,
    "Squeeze": OnnxGraph._squeeze,
    "Unsqueeze": OnnxGraph._unsqueeze,
    "Concat": OnnxGraph._concat,
    "Gather": OnnxGraph._gather,
    "OneHot": OnnxGraph._one_hot,
    "Slice": OnnxGraph._slice,
}
