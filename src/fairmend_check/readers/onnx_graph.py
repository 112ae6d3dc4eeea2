"""The nodes of an ONNX graph, from its inputs on, as steps of a model.

Values are rows of numbers under any axes (`axes`), of which one is that of the rows: (rows, columns), (rows,) once a
single column has lost its axis, (rows, tokens, width). `find_function` finds functions that exporters write as
several nodes (x · sigmoid(x)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.operations.affine import Norm, batch_norm, scaling
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.readers.axes import (
    Dims,
    Factors,
    Rows,
    axis_of,
    broadcast,
    elementwise_factors,
    factors,
    matrix_factors,
    places,
    plain,
    reshaped,
    rows_axis,
)
from fairmend_check.readers.onnx_fusions import from_mean, refuse_other_normalisation
from fairmend_check.readers.onnx_nodes import ELEMENTS, Node, find_function, find_normalisation
from fairmend_check.readers.onnx_sizes import compute_sizes, known, sizes_of
from fairmend_check.readers.values import Value, Values

Tensor = NDArray[Any]

WHOLE = (ELEMENTS["int32"], ELEMENTS["int64"])
_MAX_NUMBERS = 2**28  # in all steps together: many nodes could share the same constants
_ONE_AXIS = 13  # the version of the operators from which on a softmax is over one axis, and not all from one on
_GAIN_OF_CHANNELS = 21  # the version from which on GroupNormalization has a gain for each channel, not for each group
_MOST_COMPARED = 64  # numbers of which the largest is found, one after the other
_MOST_FACTORS = 16  # of a product along axes
_MOST_UNITS = 2**13  # numbers of a row in a layer over axes, which becomes a whole matrix
_END = 2**31 - 1  # an end of a slice from here on means: all the rest
_LOST = 2.0**-150  # the largest number that float32 rounds to 0
_SELU = (float(np.float32(1.6732631921768188)), float(np.float32(1.0507010221481323)))

_POWERS = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
_TERMS = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square", "ReduceLogSumExp": "exp"}
_OF_SUMS = {"ReduceL2": "sqrt", "ReduceLogSum": "log", "ReduceLogSumExp": "log"}


@dataclass(frozen=True)
class Entry(Value):
    """What a node gives: a value of the graph with its axes, and its elements.

    ``cut`` says that a cast to whole numbers may have cut off digits, or to fewer bits: only a look-up may read it.
    ``hidden`` says which numbers, in its axes, a mask makes -infinity: only a softmax may read it.
    """

    element: int
    cut: bool = False
    hidden: NDArray[np.bool_] | None = None

    @property
    def axes(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def is_row(self) -> bool:
        """Whether the axes are (rows, columns)."""
        return len(self.dims) == 2 and self.dims[0] == Rows()


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
        self._values = Values(self.graph, _MAX_NUMBERS)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: dict[str, Node] = {}
        self.readers: dict[str, list[Node]] = {}
        self.entries: dict[str, Entry | CheckError] = {}
        self.types: dict[str, tuple[int, Dims | None]] = {}  # elements and axes of each value on the way, if known
        self.sizes: dict[str, Tensor] = {}  # lists of sizes that nodes compute, with that of the rows among them
        self.means: dict[str, str] = {}  # how values come from means, of which ONNX Runtime makes normalisations
        self.biases: set[str] = set()  # nodes that add the bias of the product before them
        self.outputs: frozenset[str] = frozenset()  # which callers read
        self.opset = 0  # the version of the operators
        self._numbers = 0
        start = 0
        for (name, element, shape), width in zip(inputs, widths, strict=True):
            value = self.graph.columns(self.graph.input, list(range(start, start + width)))
            self._put(name, Entry(value, (Rows(),) if len(shape) == 1 else (Rows(), width), element))
            start += width

    def append(self, node: Node, readers: dict[str, list[Node]]) -> None:
        """Add what a node computes from earlier values."""
        self.nodes[node.output], self.readers = node, readers
        self.means[node.output] = from_mean(node, self)
        self._numbers += 1 + sum(self.tensors[name].size for name in node.inputs if name in self.tensors)
        if self._numbers > _MAX_NUMBERS:
            raise CheckError(f"the nodes of the graph use more than {_MAX_NUMBERS:,} numbers")
        try:
            self._convert(node)
        except CheckError as error:
            for name in node.outputs or (node.output,):
                self.entries[name] = error  # which counts unless a pattern has the node in it
            read = [self.types[name][1] for name in node.inputs if name in self.types]
            element = ELEMENTS["bool"] if node.kind in ("Greater", "IsNaN") else self.element
            self.types[node.output] = element, next(iter(read), None)  # patterns keep the axes

    def entry(self, name: str, *, masked: bool = False) -> Entry:
        """Return what is known of a value that depends on the inputs."""
        found = self.entries.get(name)
        if found is None:
            raise CheckError(f"a node reads {name[:40]!r}, which no node before it computes from the input")
        if isinstance(found, CheckError):
            raise found
        if found.hidden is not None and not masked:
            raise CheckError(f"a node reads {name[:40]!r}, which is masked: only a softmax may read -infinity")
        return found

    def _convert(self, node: Node) -> None:
        if self.pass_constant(node) or self.compute_sizes(node):
            return
        found = find_function(node, self)
        if found is not None:
            name, activation = found
            self._put(node.output, self._function(name, activation))
        elif node.kind == "MatMul":
            self._put(node.output, self._matmul(node))
        elif node.kind == "Split":
            self._split(node)
        elif node.kind in _OPERATORS:
            self._put(node.output, _OPERATORS[node.kind](self, node))
        else:
            raise CheckError(f"node {node.kind} cannot be checked at this place")

    def _put(self, name: str, entry: Entry) -> None:
        self.entries[name] = entry
        self.types[name] = entry.element, entry.dims

    def _numeric(self, name: str, node: Node) -> Entry:
        """Return a value of numbers of the input's type."""
        entry = self.entry(name)
        if entry.element != self.element:
            raise CheckError(f"node {node.kind} reads a value that is not of the input's type")
        return entry

    def pass_constant(self, node: Node) -> bool:
        """Pass on a constant, transpose it or take parts of it, as exporters do; return whether the node does that."""
        if node.kind not in ("Identity", "Transpose", "Split", "Slice") or node.inputs[0] not in self.tensors:
            return False
        tensor = self.tensors[node.inputs[0]]
        if node.kind in ("Split", "Slice"):
            return tensor.dtype.kind == "f" and self._pass_parts(node, tensor)
        if node.kind == "Transpose":
            # Before a Gemm, ONNX Runtime up to 1.29 exchanges the axes whatever the order is.
            if tensor.ndim != 2 or node.attributes["perm"] not in ([], [1, 0]):
                raise CheckError("node Transpose does not exchange the two axes of a matrix")
            tensor = tensor.T
        self.tensors[node.output] = tensor
        return True

    def _pass_parts(self, node: Node, tensor: Tensor) -> bool:
        """Split weights, or take some, as of attention; not before all ends are known."""
        if not all(name in self.tensors for name in node.inputs[1:]):
            return False
        if node.kind == "Split":
            axis = node.attributes["axis"]
            if not -tensor.ndim <= axis < tensor.ndim:
                raise CheckError("node Split is not along an axis of weights")
            inner = np.cumsum(self._sizes_of_parts(node, tensor.shape[axis]))[:-1]
            parts = np.split(tensor, inner, axis)
            self.tensors.update(zip(node.outputs, parts, strict=True))
            return True
        chosen = [slice(None)] * tensor.ndim
        for axis, part in self._ranges(node, tensor.ndim):
            chosen[axis] = part
        self.tensors[node.output] = tensor[tuple(chosen)]
        if not self.tensors[node.output].size:
            raise CheckError("node Slice takes no weights")
        return True

    def number(self, name: str) -> float | None:
        """Return a constant that is one number, and adds no axis to what it is combined with."""
        tensor = self.tensors.get(name)
        single = tensor is not None and tensor.shape in ((), (1,)) and tensor.dtype != object
        return float(tensor.reshape(())) if tensor is not None and single else None

    def _row_value(self, name: str, node: Node) -> int:
        """Return a value of numbers with the axes (rows, columns)."""
        entry = self.entry(name)
        if not entry.is_row or entry.element != self.element:
            raise CheckError(f"node {node.kind} reads a value that is not (rows, columns) of the input's type")
        return entry.value

    def _out(self, value: int, dims: Dims | None = None) -> Entry:
        return Entry(value, (Rows(), self.graph.width(value)) if dims is None else dims, self.element)

    def _constant(self, name: str) -> Tensor:
        """Return a constant of the type of the input."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise CheckError(f"the value {name[:40]!r} must be a constant")
        if ELEMENTS.get(tensor.dtype.name) != self.element:
            raise CheckError(f"the constant {name[:40]!r} is {tensor.dtype.name}, unlike the input")
        return tensor

    def _whole_numbers(self, name: str) -> list[int]:
        tensor, found = self.tensors.get(name), self.entries.get(name)
        if isinstance(found, CheckError):
            raise found
        if tensor is None or tensor.dtype != np.int64 or tensor.ndim > 1:
            raise CheckError(f"the value {name[:40]!r} is not a constant list of whole numbers")
        return [int(number) for number in tensor.reshape(-1)]

    def _sizes(self, name: str) -> list[int | Rows]:
        """Return a list of sizes, in which that of the rows may be."""
        return list(self.sizes[name].reshape(-1)) if name in self.sizes else list(self._whole_numbers(name))

    def _row(self, name: str, dims: Dims) -> Tensor:
        """Return a constant that is the same for every row: one number, or one for each number of a row."""
        tensor = self._constant(name)
        width = math.prod(plain(dims))
        if tensor.ndim > len(dims):
            raise CheckError(f"a constant of shape {tensor.shape} is combined with a value of {len(dims)} axes")
        if tensor.size == 1 and width != 1:
            return tensor.reshape(())
        wide = tensor.reshape((1,) * (len(dims) - tensor.ndim) + tensor.shape)
        if wide.shape[rows_axis(dims)] != 1 or any(
            n not in (1, size) for n, size in zip(wide.shape, plain(dims), strict=True)
        ):
            raise CheckError(f"a constant of shape {tensor.shape} is combined with rows of {width} numbers")
        return np.broadcast_to(wide, plain(dims)).reshape(-1)

    def _added(self, name: str, dims: Dims) -> Tensor:
        """Return what a node adds or subtracts; ONNX Runtime leaves out one number if it is 0 in float32."""
        tensor = self._row(name, dims)
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

    def _linear(
        self, entry: Entry, compute: Callable[[Tensor], Tensor], added: str = "", to: int | None = None
    ) -> Entry:
        """Return what a linear node computes of a value and constants: an affine layer, found by the unit vectors.

        ``added`` is the constant that the next node adds, and ``to`` where the axis of the rows goes, if it moves. Each
        number of the layer is one of a constant, or 0.
        """
        width, at = math.prod(plain(entry.dims)), rows_axis(entry.dims)
        rows, sizes = entry.dims[at], plain(entry.dims)
        if width > _MOST_UNITS:
            raise CheckError("a layer over axes is too large to be checked")
        dtype = np.float32 if self.element == ELEMENTS["float32"] else np.float64
        units = np.moveaxis(np.eye(width, dtype=dtype).reshape(width, *sizes), 0, at)  # beside the entries of a row
        result = compute(units.reshape(*sizes[:at], width * sizes[at], *sizes[at + 1 :]))
        if result.size > _MAX_NUMBERS:
            raise CheckError("a layer over axes is too large to be checked")
        out = at if to is None else to
        dims = (*result.shape[:out], rows, *result.shape[out + 1 :])
        matrix = np.moveaxis(result.reshape(*result.shape[:out], width, sizes[at], *result.shape[out + 1 :]), out, 0)
        bias = np.broadcast_to(self._added(added, dims), (matrix[0].size,)) if added else None
        matrix = matrix.reshape(width, -1).T + np.zeros((), dtype)  # -0.0, as of 0 times a negative number, is then 0.0
        return self._out(self.graph.affine(entry.value, matrix, bias), dims)

    def _gemm(self, node: Node) -> Entry:
        node.expect("transA", 0)
        node.expect("transB", 0, 1)  # runtimes take every transB but 0 for 1
        weight = self._constant(node.inputs[1])
        weight = weight if node.attributes["transB"] else weight.T
        given = len(node.inputs) == 3 and node.inputs[2]
        bias = self._row(node.inputs[2], (Rows(), len(weight))) if given else None
        alpha, beta = node.attributes["alpha"], node.attributes["beta"]
        entry = self._numeric(node.inputs[0], node)
        if not entry.is_row and entry.axes == 2 and isinstance(entry.dims[0], Rows) and alpha == beta == 1:
            if weight.ndim != 2 or weight.shape[1] != entry.dims[1]:
                raise CheckError("node Gemm has a matrix of another size than its input")
            return self._linear(entry, lambda units: units @ weight.T, node.inputs[2] if given else "")
        if alpha == beta == 1:
            return self._affine(node, weight, bias)
        norm = scaling(0.0, alpha, None if bias is None else bias.astype(np.float64) * beta)
        return self._affine(node, weight, None, replace(norm, reach=norm.reach * scaling(0.0, beta, None).reach))

    def _matmul(self, node: Node) -> Entry:
        constants, readers = [name in self.tensors for name in node.inputs], self.readers.get(node.output, [])
        if not any(constants):
            first, second = (self._numeric(name, node) for name in node.inputs)
            first, second = self._aligned(first, second) if min(first.axes, second.axes) > 1 else (first, second)
            return self._product(first, second, matrix_factors(first.dims, second.dims))
        if constants[0]:
            left, entry = self._constant(node.inputs[0]), self._numeric(node.inputs[1], node)
            if rows_axis(entry.dims) == entry.axes - 2 or left.ndim < 2 or left.shape[-1:] != entry.dims[-2:][:1]:
                raise CheckError("node MatMul multiplies from the left over rows, or by a matrix of another size")
            self._same_for_rows(left, entry)
            return self._linear(entry, lambda units: np.matmul(left, units))
        weight, entry, added = self._constant(node.inputs[1]), self._numeric(node.inputs[0], node), ""
        alone = len(readers) == 1 and node.output not in self.outputs
        if weight.ndim == 2 and alone and readers[0].kind == "Add":
            others = [name for name in readers[0].inputs if name != node.output and name in self.tensors]
            if len(others) == 1 and entry.dims[-1] == len(weight):
                self.biases.add(readers[0].output)
                added = others[0]
        if entry.is_row and weight.ndim == 2:
            out = (Rows(), weight.shape[1])
            return self._affine(node, weight.T, self._added(added, out) if added else None)
        if weight.ndim < 2:  # after a Transpose, ONNX Runtime up to 1.31 multiplies by a vector along another axis
            raise CheckError("node MatMul multiplies by a vector, which runtimes do not compute alike")
        if entry.axes < 2 or weight.shape[-2] != entry.dims[-1]:
            raise CheckError("node MatMul has a matrix of another size than its input")
        self._same_for_rows(weight, entry)
        return self._linear(entry, lambda units: np.matmul(units, weight), added)

    def _same_for_rows(self, matrices: Tensor, entry: Entry) -> None:
        """Refuse matrices that have more axes than a value, or that differ along the axis of the rows."""
        at = rows_axis(entry.dims) - entry.axes
        if matrices.ndim > entry.axes or (-matrices.ndim <= at < -2 and matrices.shape[at] != 1):
            raise CheckError("node MatMul has a matrix for each row")

    def _product(self, first: Entry, second: Entry, how: Factors) -> Entry:
        """Return the products of two values."""
        made = self._values.product(first, second, how)
        return self._out(made.value, made.dims)

    def _einsum(self, node: Node) -> Entry:
        """Read a product of two values, or of three: the last one with all axes that are summed over is the last."""
        names, arrow, out = str(node.attributes["equation"]).replace(" ", "").partition("->")
        parts = names.split(",")
        if not arrow or len(parts) != len(node.inputs) or not (names.replace(",", "") + out).isalpha():
            raise CheckError("node Einsum is not a product of values with named axes")
        if any(len(set(part)) < len(part) for part in (*parts, out)):
            raise CheckError("node Einsum takes a diagonal")
        given = [self._constant(name) if name in self.tensors else self._numeric(name, node) for name in node.inputs]
        if len(parts) == 3:
            summed = {*names.replace(",", "")} - {*out}
            places = [place for place in range(3) if {*parts[place]} >= summed]
            if not places:
                raise CheckError("node Einsum has three factors, none of which has all axes that are summed over")
            first, second = (place for place in range(3) if place != places[-1])
            both = "".join(dict.fromkeys(parts[first] + parts[second]))
            pair = self._multiplied(given[first], given[second], parts[first], parts[second], both)
            given, parts = [pair, given[places[-1]]], [both, parts[places[-1]]]
        return self._multiplied(given[0], given[1], parts[0], parts[1], out)

    def _multiplied(self, first: Entry | Tensor, second: Entry | Tensor, a: str, b: str, out: str) -> Entry:
        """Return the products of two values, or of one with a constant, with axes of these names."""
        if isinstance(first, Entry) and isinstance(second, Entry):
            return self._product(first, second, factors(first.dims, second.dims, (a, b, out)))
        entry, tensor = (first, second) if isinstance(first, Entry) else (second, first)
        own, other = (a, b) if isinstance(first, Entry) else (b, a)
        if not isinstance(entry, Entry) or isinstance(tensor, Entry):
            raise CheckError("node Einsum multiplies constants")
        rows = own[rows_axis(entry.dims)] if len(own) == entry.axes else ""
        if tensor.ndim != len(other) or not rows or rows in other or rows not in out:
            raise CheckError("node Einsum multiplies by a constant for each row, or of other axes")
        if any(name not in a + b for name in out):
            raise CheckError("node Einsum gives an axis that no value has")
        sizes = dict(zip(own, entry.dims, strict=True))
        for name, size in zip(other, tensor.shape, strict=True):
            if name not in out and size > 1 and sizes.get(name, 1) != size:  # runtimes do so in orders of their own
                raise CheckError("node Einsum adds up numbers of its constant")
        return self._linear(entry, lambda units: np.einsum(f"{own},{other}->{out}", units, tensor), to=out.index(rows))

    def _arithmetic(self, node: Node) -> Entry:
        """Read a sum, difference, product or quotient of each column with constants, or a sum of two values."""
        constants = [name in self.tensors for name in node.inputs]
        if all(constants):
            raise CheckError(f"node {node.kind} computes a constant, which cannot be checked")
        if node.kind == "Div" and not constants[1]:
            refuse_other_normalisation(node, self)
        if not any(constants) and node.kind == "Mul" and node.inputs[0] == node.inputs[1]:
            return self._function(node.inputs[0], Activation("square"))
        normalised = None if any(constants) else find_normalisation(node, self)
        if normalised is not None:
            return self._normalised(*normalised)
        if not any(constants):
            return self._combined(node, *(self._numeric(name, node) for name in node.inputs))
        entry = self._numeric(node.inputs[constants.index(False)], node)
        if node.kind == "Add" and node.output in self.biases:
            return entry
        name = node.inputs[constants.index(True)]
        stretched = self._stretched(entry, self._constant(name), node)
        if stretched is not None:
            return stretched
        entry = self._widened(entry, name)
        row = self._added if node.kind in ("Add", "Sub") else self._row
        value = row(name, entry.dims).astype(np.float64)
        if node.kind == "Add" and self._hides(value).any():
            return self._masked(entry, value)
        if node.kind == "Div" and constants[0]:
            inverse = self._values.inverse(entry.value)
            scaled = inverse if (value == 1).all() else self.graph.norm(inverse, scaling(0.0, value, None))
            return replace(entry, value=scaled)
        if node.kind == "Div" and not value.all():
            raise CheckError("node Div divides by 0")
        gain = value if node.kind == "Mul" else 1 / value if node.kind == "Div" else -1.0 if constants[0] else 1.0
        gain = 1.0 if node.kind == "Add" else gain
        shift = {"Add": value, "Sub": value if constants[0] else -value}.get(node.kind)
        return replace(entry, value=self.graph.norm(entry.value, scaling(0.0, gain, shift)))

    def _hides(self, mask: Tensor) -> NDArray[np.bool_]:
        """Return where a mask leaves scores out: -infinity, or the least number of the type."""
        return np.asarray(mask <= -np.finfo(np.float32 if self.element == ELEMENTS["float32"] else np.float64).max)

    def _masked(self, entry: Entry, added: Tensor) -> Entry:
        """Return scores over tokens to which a mask is added, with -infinity for what a softmax leaves out."""
        hidden = self._hides(added)
        if entry.is_row or hidden.size != math.prod(plain(entry.dims)):
            raise CheckError("node Add adds -infinity, which cannot be checked there")
        rest = np.where(hidden, 0.0, added)
        value = self.graph.norm(entry.value, scaling(0.0, 1.0, rest)) if rest.any() else entry.value
        return replace(entry, value=value, hidden=hidden.reshape(plain(entry.dims)))

    def _chosen(self, node: Node) -> Entry:
        """Read a constant choice between a value and constants: a mask, or numbers that are filled in."""
        condition = self.tensors.get(node.inputs[0])
        constants = [name in self.tensors for name in node.inputs[1:]]
        if condition is None and self._is_softmax_without_nan(node):
            return self._numeric(node.inputs[2], node)
        if condition is None or condition.dtype != np.bool_ or sum(constants) == 2:
            raise CheckError("node Where does not choose between values by a constant")
        if not any(constants):
            return self._one_of_two(condition, *(self._numeric(name, node) for name in node.inputs[1:]))
        entry = self._numeric(node.inputs[1 + constants.index(False)], node)
        sizes, at = plain(entry.dims), rows_axis(entry.dims)
        wide = condition.reshape((1,) * max(0, entry.axes - condition.ndim) + condition.shape)
        if (
            wide.ndim != entry.axes
            or wide.shape[at] != 1
            or any(n not in (1, size) for n, size in zip(wide.shape, sizes, strict=True))
        ):
            raise CheckError("node Where has a condition of another shape than its value")
        filled = np.broadcast_to(wide if constants[0] else ~wide, sizes)
        number = np.broadcast_to(self._row(node.inputs[1 + constants.index(True)], entry.dims), (filled.size,))
        if self._hides(number[filled.reshape(-1)]).all() and not entry.is_row:
            return replace(entry, hidden=filled)
        if not np.isfinite(number).all():
            raise CheckError("node Where fills in numbers that are not finite")
        gain, shift = np.where(filled.reshape(-1), 0.0, 1.0), np.where(filled.reshape(-1), number.astype(float), 0.0)
        return replace(entry, value=self.graph.norm(entry.value, scaling(0.0, gain, shift)))

    def _is_softmax_without_nan(self, node: Node) -> bool:
        """Return whether the node puts 0 where a softmax is not a number, as PyTorch exports masked attention.

        It is a number wherever inference has an error bound: a mask must not hide all, and scores must not overflow.
        """
        test, softmax = (self.nodes.get(node.inputs[place]) for place in (0, 2))
        if test is None or softmax is None or (test.kind, softmax.kind) != ("IsNaN", "Softmax"):
            return False
        return test.inputs[0] == node.inputs[2] and self.number(node.inputs[1]) == 0

    def _one_of_two(self, condition: Tensor, first: Entry, second: Entry) -> Entry:
        """Return the numbers of one of two values, as a constant says for each of a row."""
        first, second = self._aligned(first, second)
        dims = broadcast(first.dims, second.dims)
        wide = condition.reshape((1,) * max(0, len(dims) - condition.ndim) + condition.shape)
        if wide.ndim != len(dims) or wide.shape[rows_axis(dims)] != 1:
            raise CheckError("node Where has a condition of another shape than its values")
        if any(n not in (1, size) for n, size in zip(wide.shape, plain(dims), strict=True)):
            raise CheckError("node Where has a condition of another shape than its values")
        a, b = (self._stretched_to(each, dims) for each in (first, second))
        numbers = places(dims)
        chosen = np.where(wide, numbers, numbers + numbers.size).reshape(-1).tolist()
        return self._out(self.graph.columns(self.graph.concatenate(a, b), chosen), dims)

    def _normalised(self, name: str, epsilon: float, centred: bool) -> Entry:
        """Return a normalisation along the last axis that is written as several nodes."""
        entry = self.entry(name)
        if entry.element != self.element or isinstance(entry.dims[-1], Rows):
            raise CheckError("a normalisation is over rows")
        return replace(entry, value=self.graph.apply(Normalise(entry.dims[-1], epsilon, centred), entry.value))

    def _stretched(self, entry: Entry, tensor: Tensor, node: Node) -> Entry | None:
        """Return the product of a value with a constant that has more numbers along its axes of size 1."""
        wide = tensor.reshape((1,) * (entry.axes - tensor.ndim) + tensor.shape) if tensor.ndim <= entry.axes else tensor
        if node.kind != "Mul" or wide.ndim != entry.axes or wide.shape[rows_axis(entry.dims)] != 1:
            return None
        if not any(size == 1 and n > 1 for n, size in zip(wide.shape, entry.dims, strict=True)):
            return None
        return self._linear(entry, lambda units: units * wide)

    def _widened(self, entry: Entry, name: str) -> Entry:
        """Return a value with its axes of size 1 repeated, where a constant has more numbers."""
        return self._widened_to(entry, self._constant(name))

    def _widened_to(self, entry: Entry, tensor: Tensor) -> Entry:
        sizes = plain(entry.dims)
        wide = (*(1,) * (entry.axes - tensor.ndim), *tensor.shape)
        if len(wide) > len(sizes) or wide[rows_axis(entry.dims)] != 1:
            return entry
        target = tuple(n if size == 1 else size for size, n in zip(sizes, wide, strict=True))
        return entry if target == sizes else self._values.moved(entry, lambda numbers: np.broadcast_to(numbers, target))

    def _stretched_to(self, entry: Entry, dims: Dims) -> int:
        """Return a value with its axes of size 1 repeated, to these."""
        return self._values.moved(entry, lambda numbers: np.broadcast_to(numbers, plain(dims))).value

    def _aligned(self, *entries: Entry) -> list[Entry]:
        """Return values with as many axes each: those before the first have size 1."""
        most = max(entry.axes for entry in entries)
        return [replace(entry, dims=(*(1,) * (most - entry.axes), *entry.dims)) for entry in entries]

    def _extreme(self, node: Node) -> Entry:
        """Read the largest or smallest of values and constants: b + relu(a - b), a - relu(a - b)."""
        smallest, values = node.kind == "Min", [name for name in node.inputs if name not in self.tensors]
        if not values:
            raise CheckError(f"node {node.kind} computes a constant, which cannot be checked")
        found, names = self._numeric(values[0], node), list(node.inputs)
        names.remove(values[0])
        for name in names:
            if name in self.tensors:
                found = self._widened(found, name)
                number = self._row(name, found.dims).astype(np.float64)
                found = replace(found, value=self._limited(found.value, number, smallest=smallest))
                continue
            found, other = self._aligned(found, self._numeric(name, node))
            dims = broadcast(found.dims, other.dims)
            negative = replace(other, value=self._values.negative(other.value))
            a, b, less = (self._stretched_to(each, dims) for each in (found, other, negative))
            more = self.graph.function(self.graph.sum(a, less), Activation("relu"))
            value = self.graph.sum(a, self._values.negative(more)) if smallest else self.graph.sum(b, more)
            found = self._out(value, dims)
        return found

    def _limited(self, value: int, number: Tensor, *, smallest: bool) -> int:
        """Return the larger of a value and constants, or the smaller."""
        relu = Activation("relu")
        if not number.any() and not smallest:
            return self.graph.function(value, relu)
        more = self.graph.function(self.graph.norm(value, scaling(0.0, 1.0, -number)), relu)
        if smallest:
            return self.graph.sum(value, self._values.negative(more))
        return self.graph.norm(more, scaling(0.0, 1.0, number))

    def _combined(self, node: Node, first: Entry, second: Entry) -> Entry:
        """Return the sum, the difference, the product or the quotient of two values."""
        first, second = self._aligned(first, second)
        if node.kind == "Div":
            second = replace(second, value=self._values.inverse(second.value))
        if node.kind in ("Mul", "Div"):
            return self._product(first, second, elementwise_factors(first.dims, second.dims))
        if first.is_row and second.is_row and 1 not in (first.dims[1], second.dims[1]):
            dims: Dims = first.dims
            values = [first.value, second.value]
        else:
            dims = broadcast(first.dims, second.dims)
            values = [self._stretched_to(each, dims) for each in (first, second)]
        if node.kind == "Sub":
            values[1] = self._values.negative(values[1])
        return self._out(self.graph.sum(*values), dims)

    def _negative(self, node: Node) -> Entry:
        entry = self._numeric(node.inputs[0], node)
        return replace(entry, value=self._values.negative(entry.value))

    def _total(self, node: Node) -> Entry:
        entries = self._aligned(*(self._numeric(name, node) for name in node.inputs))
        dims = entries[0].dims
        for entry in entries:
            dims = broadcast(dims, entry.dims)
        value = self._values.total([self._stretched_to(each, dims) for each in entries], mean=node.kind == "Mean")
        return self._out(value, dims)

    def _reduced(self, node: Node) -> Entry:
        """Read a sum, mean, product, norm, maximum or minimum of the parts along axes."""
        axes = self._whole_numbers(node.inputs[1]) if len(node.inputs) == 2 else list(node.attributes["axes"])
        node.expect("keepdims", 0, 1)
        node.expect("noop_with_empty_axes", 0)
        entry, keep = self.entry(node.inputs[0]), node.attributes["keepdims"]
        if entry.element != self.element:  # a mean of whole numbers is cut off, and a sum of them can overflow
            raise CheckError(f"node {node.kind} adds up whole numbers, which cannot be checked")
        over = sorted({axis_of(axis, entry.dims, node.kind) for axis in axes})
        if len(over) != len(axes) or not over:
            raise CheckError(f"node {node.kind} is over other axes than can be checked")
        largest, count = node.kind in ("ReduceMax", "ReduceMin"), math.prod(plain(entry.dims)[axis] for axis in over)
        most = {"ReduceProd": _MOST_FACTORS, "ReduceLogSumExp": _MOST_COMPARED}.get(node.kind, _MOST_UNITS)
        if count > (_MOST_COMPARED if largest else most):
            raise CheckError(f"node {node.kind} is over too many numbers")
        if node.kind in _TERMS:
            entry = replace(entry, value=self.graph.function(entry.value, Activation(_TERMS[node.kind])))
        parts = self._values.parts(entry, over)
        if largest:
            value = self._values.largest(parts, smallest=node.kind == "ReduceMin")
        elif node.kind == "ReduceProd":
            value = self._values.multiplied(parts)
        else:
            value = self._values.total(parts, mean=node.kind == "ReduceMean")
        if node.kind in _OF_SUMS:  # of a few numbers, the bounds of exp and log cover a largest one that is subtracted
            value = self.graph.function(value, Activation(_OF_SUMS[node.kind]))
        kept = tuple(1 if axis in over else size for axis, size in enumerate(entry.dims) if keep or axis not in over)
        return self._out(value, kept)

    def _layer_norm(self, node: Node) -> Entry:
        """Read a normalisation of the last axes, and its gain and shift."""
        entry = self._numeric(node.inputs[0], node)
        axis = axis_of(node.attributes["axis"], entry.dims, node.kind)
        if any(isinstance(size, Rows) for size in entry.dims[axis:]):
            raise CheckError(f"node {node.kind} normalises over rows")
        node.expect("stash_type", self.element)  # the type in which the standard computes mean and deviation
        size = math.prod(plain(entry.dims[axis:]))
        centred = node.kind == "LayerNormalization"
        value = self.graph.apply(Normalise(size, node.attributes["epsilon"], centred), entry.value)
        parts = [self._constant(name) for name in node.inputs[1:]]  # ONNX Runtime 1.31 crashes if one has no name
        if any(part.shape != plain(entry.dims[axis:]) for part in parts):
            raise CheckError(f"node {node.kind} has a gain or shift of another shape")
        gain, shift = (
            np.broadcast_to(part, plain(entry.dims)).reshape(-1).astype(np.float64)
            for part in (*parts, np.zeros(()))[:2]
        )
        if (gain != 1).any() or shift.any():
            value = self.graph.norm(value, scaling(0.0, gain, shift if len(parts) > 1 else None))
        return replace(entry, value=value)

    def _channel_norm(self, node: Node) -> Entry:
        """Read a normalisation of each channel, the axis after the rows, or of groups of channels."""
        entry = self._numeric(node.inputs[0], node)
        if rows_axis(entry.dims) != 0 or entry.axes < 2:
            raise CheckError(f"node {node.kind} reads a value whose axes are not (rows, channels, ...)")
        _, channels, *rest = plain(entry.dims)
        if node.kind == "GroupNormalization":
            node.expect("stash_type", self.element)
            groups = node.attributes["num_groups"]
            if self.opset < _GAIN_OF_CHANNELS or groups < 1 or channels % groups:
                raise CheckError("node GroupNormalization has a gain for each group, or groups that do not fit")
            size = channels // groups * math.prod(rest)
        elif rest:
            size = math.prod(rest)
        else:
            raise CheckError("node InstanceNormalization reads channels of single numbers")
        parts = [self._constant(name) for name in node.inputs[1:]]
        if any(part.shape != (channels,) for part in parts):
            raise CheckError(f"node {node.kind} does not have a gain and a shift for each channel")
        value = self.graph.apply(Normalise(size, node.attributes["epsilon"], True), entry.value)
        wide = [np.broadcast_to(part.reshape(-1, *[1] * len(rest)), plain(entry.dims)).reshape(-1) for part in parts]
        gain, shift = (part.astype(np.float64) for part in wide)
        if (gain != 1).any() or shift.any():
            value = self.graph.norm(value, scaling(0.0, gain, shift))
        return replace(entry, value=value)

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
        if entry.element != self.element:
            raise CheckError(f"{activation.name} is taken of a value that is not of the input's type")
        return replace(entry, value=self.graph.function(entry.value, activation))

    def _softmax(self, node: Node) -> Entry:
        """Read a softmax along an axis; over the columns of a row, it may close the model."""
        entry = self.entry(node.inputs[0], masked=True)
        hidden, entry = entry.hidden, replace(entry, hidden=None)
        if entry.element != self.element:
            raise CheckError(f"node {node.kind} reads a value that is not of the input's type")
        axis = axis_of(node.attributes["axis"], entry.dims, node.kind)
        if entry.is_row:
            return self._function(node.inputs[0], Activation("softmax" if node.kind == "Softmax" else "log_softmax"))
        if node.kind == "LogSoftmax" or self.opset < _ONE_AXIS:
            raise CheckError(f"node {node.kind} is not over the columns of a row")
        size = plain(entry.dims)[axis]
        if hidden is None:
            return self._values.along(entry, axis, lambda last: self.graph.apply(Softmax(size), last))
        seen = ~np.moveaxis(hidden, axis, -1).reshape(-1, size)
        return self._values.along(entry, axis, lambda last: self._seen_softmax(last, seen))

    def _seen_softmax(self, value: int, seen: NDArray[np.bool_]) -> int:
        """Return the softmax of what each group (groups, size) sees, and 0 times the rest.

        Groups that see the same are one softmax, in the order of the first of each. The rest counts: a program adds
        -infinity to it, and makes NaN of what has overflowed; or it adds the least number, which hides what is not as
        large. So each number of the rest is added to the first one that its group sees, and both must be small.
        """
        sets: dict[bytes, list[int]] = {}
        for group, row in enumerate(seen):
            if not row.any():
                raise CheckError("a mask hides all that a token attends to, which cannot be checked")
            sets.setdefault(row.tobytes(), []).append(group)
        parts, back, start = [], np.zeros(seen.shape, np.int64), 0
        for groups in sets.values():
            there = np.flatnonzero(seen[groups[0]])
            numbers = np.array(groups)[:, None] * seen.shape[1] + there
            parts.append(self.graph.apply(Softmax(len(there)), self.graph.columns(value, numbers.reshape(-1).tolist())))
            back[np.array(groups)[:, None], there] = start + np.arange(numbers.size).reshape(numbers.shape)
            start += numbers.size
        rest = np.flatnonzero(~seen)
        if rest.size:
            seen_first = np.arange(len(seen)) * seen.shape[1] + seen.argmax(axis=1)
            beside = self.graph.columns(value, np.repeat(seen_first, (~seen).sum(axis=1)).tolist())
            both = self.graph.sum(self.graph.columns(value, rest.tolist()), beside)
            parts.append(self.graph.norm(both, scaling(0.0, 0.0, None)))
        back[~seen] = start + np.arange(rest.size)
        return self.graph.columns(self.graph.concatenate(*parts), back.reshape(-1).tolist())

    def _activation(self, node: Node) -> Entry:
        return self._function(node.inputs[0], self._activation_of(node))

    def _activation_of(self, node: Node) -> Activation:
        given = node.attributes
        if node.kind == "LeakyRelu":
            return Activation("leaky_relu", given["alpha"] + 0.0)  # which makes 0 of -0
        if node.kind == "PRelu":
            width = self.graph.width(self._row_value(node.inputs[0], node))
            slopes = self._row(node.inputs[1], (Rows(), width)).reshape(-1)
            if np.unique(slopes).size == 1 and slopes[0] >= 0:
                return Activation("leaky_relu", float(slopes[0]) + 0.0)
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
        return Activation(node.kind.lower())

    def _power(self, node: Node) -> Entry:
        exponents = self.tensors.get(node.inputs[1])
        listed = [] if exponents is None or exponents.dtype.kind not in "if" else np.unique(exponents).tolist()
        if exponents is None or len(listed) != 1 or float(listed[0]) not in (3, 1, *_POWERS):
            raise CheckError("node Pow has another exponent than 3, 2, 1, 0.5, -0.5 and -1")
        entry, power = self._widened_to(self._numeric(node.inputs[0], node), exponents), float(listed[0])
        if exponents.ndim > entry.axes:
            raise CheckError("node Pow adds axes, which cannot be checked")
        if power == 1:
            return entry
        value = self.graph.function(entry.value, Activation(_POWERS.get(power, "square")))
        if power == 3:
            square = replace(entry, value=value)
            return self._product(square, entry, elementwise_factors(entry.dims, entry.dims))
        return replace(entry, value=value)

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
        axis = node.attributes["axis"] + (entry.axes if node.attributes["axis"] < 0 else 0)
        if entry.axes == 1 or not rows_axis(entry.dims) < axis <= entry.axes:
            raise CheckError("node Flatten reads a value that is not rows, or merges rows with others")
        return replace(entry, dims=reshaped(entry.dims, [-1, math.prod(plain(entry.dims[axis:]))]))

    def _reshape(self, node: Node) -> Entry:
        entry, name = self.entry(node.inputs[0]), node.inputs[1]
        node.expect("allowzero", 0, 1)
        shape = self._sizes(name)
        if 0 in shape and (node.attributes["allowzero"] or 0 in shape[entry.axes :]):
            raise CheckError("node Reshape changes the shape of a value, which cannot be checked")
        shape = [entry.dims[axis] if size == 0 else size for axis, size in enumerate(shape)]
        if any(not isinstance(size, Rows) and size < -1 for size in shape) or shape.count(-1) > 1:
            raise CheckError("node Reshape changes the shape of a value, which cannot be checked")
        return replace(entry, dims=reshaped(entry.dims, shape))

    def _squeeze(self, node: Node) -> Entry:
        axes = node.attributes["axes"] if len(node.inputs) == 1 else self._whole_numbers(node.inputs[1])
        entry = self.entry(node.inputs[0])
        if not axes and (entry.axes > 2 or not self._without_axes(node.output)):  # of a single row, also its axis
            raise CheckError("node Squeeze does not say over which axes it is")
        axes = axes or [axis for axis, size in enumerate(entry.dims) if size == 1]
        over = {axis_of(axis, entry.dims, node.kind) for axis in axes}
        if any(entry.dims[axis] != 1 for axis in over) or len(over) != len(axes):
            raise CheckError("node Squeeze is over another axis than one of a single column")
        return replace(entry, dims=tuple(size for axis, size in enumerate(entry.dims) if axis not in over))

    def _without_axes(self, name: str) -> bool:
        """Return whether only functions read a value, up to the output or a Reshape: what has no axes is as well."""
        return all(
            (each.kind == "Reshape" and self._whole_numbers(each.inputs[1]) in ([-1], [-1, 1]))
            or (each.kind in (*_FUNCTIONS, "Identity", "Neg") and self._without_axes(each.output))
            for each in self.readers.get(name, [])
        )

    def _unsqueeze(self, node: Node) -> Entry:
        axes = node.attributes["axes"] if len(node.inputs) == 1 else self._whole_numbers(node.inputs[1])
        entry = self.entry(node.inputs[0])
        count = entry.axes + len(axes)
        new = {axis % count for axis in axes if -count <= axis < count}
        if len(new) != len(axes) or not axes:
            raise CheckError("node Unsqueeze adds an axis that cannot be checked")
        old = iter(entry.dims)
        return replace(entry, dims=tuple(1 if axis in new else next(old) for axis in range(count)))

    def _transpose(self, node: Node) -> Entry:
        entry = self.entry(node.inputs[0])
        order = list(node.attributes["perm"]) or list(range(entry.axes))[::-1]
        if sorted(order) != list(range(entry.axes)):
            raise CheckError("node Transpose has an order of axes that cannot be checked")
        return self._values.moved(entry, lambda numbers: numbers.transpose(order), order.index(rows_axis(entry.dims)))

    def _expand(self, node: Node) -> Entry:
        """Stretch a value, or a constant to the rows."""
        shape = tuple(self._sizes(node.inputs[1]))
        if node.inputs[0] in self.tensors:
            if sum(isinstance(size, Rows) for size in shape) != 1 or Rows() not in shape:
                raise CheckError("node Expand computes a constant, which cannot be checked")
            sizes = self._constant(node.inputs[0]).shape
            if len(sizes) > len(shape):
                raise CheckError("node Expand adds axes, which cannot be checked")
            wide = (*(1,) * (len(shape) - len(sizes)), *sizes)
            dims = tuple(own if size == 1 else size for own, size in zip(wide, shape, strict=True))
            row = self._row(node.inputs[0], dims)
            return self._constant_row(np.broadcast_to(row, (math.prod(plain(dims)),)), dims)
        entry = self.entry(node.inputs[0])
        entry = replace(entry, dims=(*(1,) * (len(shape) - entry.axes), *entry.dims))
        wide, at = (*(1,) * (entry.axes - len(shape)), *shape), rows_axis(entry.dims)
        stretched = broadcast(entry.dims, (*wide[:at], entry.dims[at] if wide[at] == 1 else wide[at], *wide[at + 1 :]))
        return self._values.moved(entry, lambda numbers: np.broadcast_to(numbers, plain(stretched)))

    def _constant_row(self, row: Tensor, dims: Dims) -> Entry:
        """Return numbers that are the same for every row: an affine layer with weights of 0."""
        weight = np.zeros((row.size, self.graph.width(Graph.input)), row.dtype)
        return self._out(self.graph.affine(Graph.input, weight, row), dims)

    def _concat(self, node: Node) -> Entry:
        entries, axis = [self.entry(name) for name in node.inputs], node.attributes["axis"]
        first = entries[0]
        at = axis_of(axis, first.dims, node.kind)
        for each in entries:
            rest = [tuple(size for k, size in enumerate(part.dims) if k != at) for part in (first, each)]
            if each.element != first.element or each.axes != first.axes or rest[0] != rest[1]:
                raise CheckError("node Concat joins values of several types or shapes")
        joined = self._values.joined(entries, at)
        return Entry(joined.value, joined.dims, first.element, any(each.cut for each in entries))

    def _gather(self, node: Node) -> Entry:
        """Read a look-up in a constant table, or a choice along an axis."""
        axis, table = node.attributes["axis"], self.tensors.get(node.inputs[0])
        if table is not None:
            entry = self.entry(node.inputs[1])
            if axis != 0 or table.ndim != 2 or entry.element not in WHOLE or entry.axes > 2 or entry.dims[0] != Rows():
                raise CheckError("node Gather looks up what cannot be checked")
            value = self._values.looked_up(entry.value, self._constant(node.inputs[0]))
            return self._out(value, (*entry.dims, table.shape[1]))
        entry, indices = self.entry(node.inputs[0]), self.tensors.get(node.inputs[1])
        if indices is None or indices.dtype != np.int64:
            raise CheckError("node Gather chooses what cannot be checked")
        at = axis_of(axis, entry.dims, node.kind)
        size = plain(entry.dims)[at]
        if not indices.size or not ((-size <= indices) & (indices < size)).all():
            raise CheckError("node Gather chooses columns that there are not")
        rows = rows_axis(entry.dims)
        rows += indices.ndim - 1 if rows > at else 0
        return self._values.moved(entry, lambda numbers: np.take(numbers, indices, axis=at), rows)

    def _gather_nd(self, node: Node) -> Entry:
        """Read a choice along the first axes, which are not that of the rows."""
        entry, indices = self.entry(node.inputs[0]), self.tensors.get(node.inputs[1])
        node.expect("batch_dims", 0)
        if indices is None or indices.dtype != np.int64 or not indices.ndim or not indices.size:
            raise CheckError("node GatherND chooses what cannot be checked")
        depth, at = indices.shape[-1], rows_axis(entry.dims)
        sizes = np.array(plain(entry.dims)[:depth])
        if at < depth or not ((-sizes <= indices) & (indices < sizes)).all():
            raise CheckError("node GatherND chooses among the rows, or numbers that there are not")
        chosen = tuple(np.moveaxis(indices, -1, 0))
        return self._values.moved(entry, lambda numbers: numbers[chosen], at - depth + indices.ndim - 1)

    def _tile(self, node: Node) -> Entry:
        entry, times = self.entry(node.inputs[0]), self._whole_numbers(node.inputs[1])
        if len(times) != entry.axes or times[rows_axis(entry.dims)] != 1 or min(times) < 1:
            raise CheckError("node Tile repeats the rows, or cannot be checked")
        if math.prod(times) * math.prod(plain(entry.dims)) > _MAX_NUMBERS:
            raise CheckError("node Tile makes too many numbers")
        return self._values.moved(entry, lambda numbers: np.tile(numbers, times))

    def _in_every_row(self, node: Node) -> Entry:
        """Read a ConstantOfShape with the number of rows among its sizes."""
        sizes, value = self._sizes(node.inputs[0]), node.attributes["value"]
        number = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
        others = [size for size in sizes if not isinstance(size, Rows)]
        if len(others) != len(sizes) - 1 or Rows() not in sizes or min(others, default=1) < 1:
            raise CheckError("node ConstantOfShape does not give a constant for each row")
        if number.size != 1 or ELEMENTS.get(number.dtype.name) != self.element or math.prod(others) > _MAX_NUMBERS:
            raise CheckError("node ConstantOfShape gives a constant that cannot be checked")
        return self._constant_row(np.full(math.prod(others), number.reshape(())), tuple(sizes))

    def _one_hot(self, node: Node) -> Entry:
        entry, depth = self.entry(node.inputs[0]), self._whole_numbers(node.inputs[1])
        node.expect("axis", 1, -1)
        if entry.axes != 1 or entry.element not in WHOLE or len(depth) != 1 or not 0 < depth[0] <= 2**16:
            raise CheckError("node OneHot does not encode one column")
        if self._constant(node.inputs[2]).tolist() != [0, 1]:
            raise CheckError("node OneHot has other values than 0 and 1")
        dtype = self._constant(node.inputs[2]).dtype
        return self._out(self._values.looked_up(entry.value, np.eye(depth[0], dtype=dtype)))

    def _slice(self, node: Node) -> Entry:
        entry = self.entry(node.inputs[0])
        chosen = [slice(None)] * entry.axes
        for axis, part in self._ranges(node, entry.axes):
            if axis == rows_axis(entry.dims) and (part.start, part.step) == (0, 1) and part.stop >= _END:
                continue
            if isinstance(entry.dims[axis], Rows):
                raise CheckError("node Slice chooses among the rows")
            chosen[axis] = part
        return self._values.moved(entry, lambda numbers: numbers[tuple(chosen)])

    def _ranges(self, node: Node, count: int) -> list[tuple[int, slice]]:
        """Return along which of so many axes a Slice takes what."""
        if len(node.inputs) < 3 or node.given:
            raise CheckError("node Slice is not one of columns by constants")
        starts, ends, *rest = (self._whole_numbers(name) for name in node.inputs[1:])
        axes = rest[0] if rest else list(range(len(starts)))
        steps = rest[1] if len(rest) > 1 else [1] * len(starts)
        if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
            raise CheckError("node Slice has lists of different lengths, or a step of 0")
        if any(not -count <= axis < count for axis in axes) or len({axis % count for axis in axes}) < len(axes):
            raise CheckError("node Slice is along other axes than those of a value, or twice along one")
        return [(axis % count, slice(*part)) for axis, *part in zip(axes, starts, ends, steps, strict=True)]

    def _split(self, node: Node) -> None:
        entry = self.entry(node.inputs[0])
        at = axis_of(node.attributes["axis"], entry.dims, node.kind)
        sizes = self._sizes_of_parts(node, plain(entry.dims)[at])
        ends = np.cumsum(sizes)
        for name, start, end in zip(node.outputs, ends - sizes, ends, strict=True):
            part = [slice(None)] * at + [slice(int(start), int(end))]
            self._put(name, self._values.moved(entry, lambda numbers, part=tuple(part): numbers[part]))  # type: ignore[misc]

    def _sizes_of_parts(self, node: Node, whole: int) -> list[int]:
        """Return how long the parts of a Split are."""
        parts = len(node.outputs)
        if len(node.inputs) == 2 and not node.given - {"axis"}:
            sizes = self._whole_numbers(node.inputs[1])
        elif len(node.inputs) == 1 and node.attributes["num_outputs"] in (0 if not whole % parts else parts, parts):
            most = -(-whole // parts)  # of equal size, but for the last
            sizes = [min(most, whole - number * most) for number in range(parts)]
        else:
            raise CheckError("node Split is not one of columns into given sizes")
        if len(sizes) != parts or min(sizes, default=0) < 1 or sum(sizes) != whole:
            raise CheckError("node Split has sizes that do not fit")
        return sizes

    def compute_sizes(self, node: Node) -> bool:
        """Read a node that computes with sizes of axes or with constants alone; return whether it does."""
        if node.kind == "Shape":
            listed = self.sizes.get(node.inputs[0], self.tensors.get(node.inputs[0]))
            dims = self.entry(node.inputs[0]).dims if listed is None else listed.shape
            end = node.attributes["end"] if "end" in node.given else len(dims)
            self._put_sizes(node.output, sizes_of(dims[node.attributes["start"] : end]))
            return True
        given = [self.sizes.get(name, self.tensors.get(name)) for name in node.inputs]  # of one left out: None
        found = compute_sizes(node, given) if given else None
        if found is not None:
            self._put_sizes(node.output, found)
        return found is not None

    def _put_sizes(self, name: str, found: Tensor) -> None:
        tensor = known(found) if found.dtype == object else found
        if tensor is None:
            self.sizes[name] = found
            self.types[name] = ELEMENTS["int64"], None
        else:
            self.tensors[name] = tensor


_FUNCTIONS = (
    "Abs", "Celu", "Clip", "Cos", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish",
    "PRelu", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh",
)  # fmt: skip
_OPERATORS: dict[str, Callable[[OnnxGraph, Node], Entry]] = {
    "Gemm": OnnxGraph._gemm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), OnnxGraph._arithmetic),
    "Neg": OnnxGraph._negative,
    "Where": OnnxGraph._chosen,
    **dict.fromkeys(("Sum", "Mean"), OnnxGraph._total),
    **dict.fromkeys(("Max", "Min"), OnnxGraph._extreme),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"), OnnxGraph._reduced),
    **dict.fromkeys((*_TERMS, *_OF_SUMS), OnnxGraph._reduced),
    "Pow": OnnxGraph._power,
    "BatchNormalization": OnnxGraph._batch_norm,
    "Scaler": OnnxGraph._scaler,
    **dict.fromkeys(_FUNCTIONS, OnnxGraph._activation),
    **dict.fromkeys(("Cast", "Dropout", "Identity"), OnnxGraph._pass),
    **dict.fromkeys(("Softmax", "LogSoftmax"), OnnxGraph._softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), OnnxGraph._layer_norm),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), OnnxGraph._channel_norm),
    "Einsum": OnnxGraph._einsum,
    "Transpose": OnnxGraph._transpose,
    "Expand": OnnxGraph._expand,
    "Flatten": OnnxGraph._flatten,
    "Reshape": OnnxGraph._reshape,
    "Squeeze": OnnxGraph._squeeze,
    "Unsqueeze": OnnxGraph._unsqueeze,
    "Concat": OnnxGraph._concat,
    "Gather": OnnxGraph._gather,
    "GatherND": OnnxGraph._gather_nd,
    "Tile": OnnxGraph._tile,
    "ConstantOfShape": OnnxGraph._in_every_row,
    "OneHot": OnnxGraph._one_hot,
    "Slice": OnnxGraph._slice,
}
