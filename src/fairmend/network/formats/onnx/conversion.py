"""What is known while an ONNX graph is converted: the results of its nodes so far, and how operators read them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.axes import ROWS, Contraction, Count, Dims, lengths, rows_axis, shown, with_rows
from fairmend.network.formats.build import GraphBuilder, Value
from fairmend.network.formats.onnx.arrays import attributes, listed, of_rows, run
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node, describe_node
from fairmend.network.formats.tensors import Place, Tensor
from fairmend.network.operations.ties import MOST_NUMBERS, Tie

Array = npt.NDArray[Any]

_LOST = 2.0**-150  # the largest number that float32 rounds to 0


@dataclass(eq=False)
class Result(Tensor):
    """What a node gives; ``cut`` says whether a cast to whole numbers may have cut off digits.

    Then only a look-up may read it.
    """

    cut: bool = False

    @property
    def is_row(self) -> bool:
        """Whether the axes are (rows, columns)."""
        return len(self.dims) == 2 and self.dims[0] == ROWS


@dataclass(frozen=True)
class Refused:
    """A node that is not supported by itself; a pattern that it is a part of may be."""

    error: FairmendError


class Conversion:
    """The steps of a network so far, and the results of the nodes."""

    def __init__(self, graph: Graph) -> None:
        """Start without any results."""
        self.graph, self.builder = graph, GraphBuilder(graph.source)
        self.results: dict[str, Result | Refused] = {}
        self.sizes: dict[str, Array] = {}  # that nodes compute, with the number of rows among them
        self.means: dict[str, str] = {}  # how values come from means (`fusions`)
        self.biases: set[str] = set()  # what nodes give that add the bias of the layer before them
        self.row: Value  # the input

    def data(self, name: str, *, masked: bool = False) -> Result:
        """Return a result that depends on the input; raise the error of a node that is not supported."""
        found = self.results.get(name)
        if isinstance(found, Refused):
            raise found.error
        if found is not None and found.left_out is not None and not masked:
            raise FairmendError(
                f"{self.graph.source}: {name!r} holds -infinity where a mask says so, which only a softmax may read"
            )
        if found is None:
            node = self.graph.producer(name)
            if name in self.sizes:
                raise FairmendError(
                    f"{self.graph.source}: the network computes with {name!r}, which holds the number of rows; "
                    "what it gives for a row must not depend on how many there are"
                )
            if node is not None:
                raise At(node, self).refuse(f"gives {name!r}, which is not its first output")
            raise FairmendError(f"{self.graph.source}: the value {name!r} is constant where the network reads data")
        return found

    def known(self, node: Node) -> list[Array | None]:
        """Return the constants and sizes that a node reads, with None for what is absent or depends on the input."""
        return [
            self.sizes[name] if name in self.sizes else self.graph.constant(name) if name else None
            for name in node.input
        ]


class At(Place[Result]):
    """A node of the graph: what it reads, and the operators on tensors."""

    steps: GraphBuilder

    def __init__(self, node: Node, to: Conversion) -> None:
        """Name the node in messages."""
        self.node, self.to, self.graph, self.steps = node, to, to.graph, to.builder
        self.where, self.given = describe_node(node), attributes(node)

    def data(self, position: int = 0) -> Result:
        """Return a result that the node only moves, or looks up."""
        return self.to.data(self.node.input[position])

    def read(self, position: int = 0) -> Result:
        """Return a result that the node computes with."""
        if len(self.node.input) <= position or self.graph.constant(self.node.input[position]) is not None:
            raise self.refuse(f"has input {position} that is constant")
        return self.numbers(self.data(position))

    def numbers(self, x: Result) -> Result:
        """Return a result that may be computed with."""
        if x.cut:
            raise self.refuse("computes with numbers that a cast may have cut off")
        return super().numbers(x)

    def made(self, value: Value, dims: Dims, *of: Result) -> Result:
        """Return a new value as the result of the node."""
        return Result((value,), dims)

    def product(self, a: Result, b: Result, how: Contraction) -> Result:
        """Return the product of the matrices in two values."""
        self._refuse_whole(a, b)
        return super().product(a, b, how)

    def row(self) -> Result:
        """Return a result with the axes (rows, columns) that a node reads."""
        found = self.read()
        if not found.is_row:
            raise self.refuse(f"reads a tensor {found.shape()}, whose axes are not (rows, columns)")
        return found

    def constant(self, position: int) -> Array | None:
        """Return the constant at an input; None where the optional input is absent."""
        if len(self.node.input) <= position or not self.node.input[position]:
            return None
        value = self.graph.constant(self.node.input[position])
        if value is None:
            raise self.refuse(f"has input {position} ({self.node.input[position]!r}) that is not constant")
        return value

    def required(self, position: int) -> Array:
        """Return the constant at an input that must be there."""
        value = self.constant(position)
        if value is None:
            raise self.refuse(f"lacks input {position}")
        return value

    def sizes_at(self, position: int) -> list[int | Count]:
        """Return the sizes at an input, in which that of the rows may be."""
        found = self.to.sizes.get(self.node.input[position]) if len(self.node.input) > position else None
        return listed(self.required(position) if found is None else found)

    def sizes(self, rows: int | None = None) -> list[Array | None]:
        """Return the constants and sizes after the first input; with a number of rows, it stands in their place."""
        known = self.to.known(self.node)[1:]
        for name, array in zip(self.node.input[1:], known, strict=True):
            if name and array is None:
                raise self.refuse(f"has an input ({name!r}) that is not constant")
        return known if rows is None else [None if each is None else of_rows(each, rows) for each in known]

    def move(self, x: Result, why: str) -> Result:
        """Return what the node, which only moves numbers, does to those of a value: what it does to any array."""
        return self.moved(x, lambda numbers: run(self.node, [numbers, *self.sizes(numbers.size // x.width)]), why)

    def spread(self, value: Array, dims: Dims, why: str) -> Array:
        """Return a constant that ONNX broadcasts over the rows, for each number of a row."""
        wide = value.reshape((1,) * (len(dims) - value.ndim) + value.shape)
        whole = lengths(dims)
        fits = wide.ndim == len(dims) and wide.shape[rows_axis(dims)] == 1
        if not fits or any(size not in (1, most) for size, most in zip(wide.shape, whole, strict=True)):
            raise self.refuse(why)
        return np.broadcast_to(wide, whole).reshape(-1)

    def for_each(self, value: Array, dims: Dims) -> Array:
        """Return a constant of the type of the weights: one number, or one for each number of a row."""
        why = f"combines {shown(dims)} with a constant of shape {value.shape}"
        if value.dtype != self.graph.dtype:
            raise self.refuse(f"{why}, which is of {value.dtype}")
        wide = self.spread(value, dims, why)
        return value.reshape(()) if value.size == 1 else wide

    def per_number(self, position: int, dims: Dims) -> npt.NDArray[np.float64]:
        """Return the constant at an input for each number of a row."""
        return self.for_each(self.required(position), dims).astype(np.float64)

    def check_added(self, position: int) -> None:
        """Refuse one number that is 0 in float32, though it is not: ONNX Runtime leaves out the node that adds it."""
        value = self.required(position)
        if value.size == 1 and float(value.reshape(())) != 0 and abs(float(value.reshape(()))) <= _LOST:
            raise self.refuse(
                f"adds or subtracts {float(value.reshape(())):g}, which ONNX Runtime takes for 0; leave the node out",
            )

    def constant_side(self) -> int | None:
        """Return which of two inputs is constant; None if neither is."""
        sides = [position for position in (0, 1) if self.graph.constant(self.node.input[position]) is not None]
        return sides[0] if sides else None

    def _refuse_whole(self, *values: Result) -> None:
        if any(value.whole for value in values):
            raise self.refuse("multiplies whole numbers; cast them to the type of the weights first")

    def linear(self, weight: Array, bias: Array | None, name: str | None, places: LayerNodes) -> Result:
        """Return an affine layer of the node's input; `places` says where the file stores it."""
        if weight.ndim != 2:
            raise self.refuse(f"multiplies by a constant of shape {weight.shape}, not a matrix")
        dims = (ROWS, len(weight))
        full = None if bias is None else self.bias(bias, dims)
        name = self._layer_name(name)
        x = self.row().value
        self.graph.layers[name] = places
        return self.made(self.steps.linear(x, self.where, weight, full, name), dims)

    def mapped(
        self,
        x: Result,
        compute: Callable[[Array], Array],
        axis: int | None = None,
    ) -> Result:
        """Return what a node computes of a value and constants, a sum of products, as an affine layer.

        Its matrix has what the node computes of each unit vector, so each of its numbers is one of a constant, or 0.
        ``compute`` takes the values of several rows, along a new first axis; ``axis`` is then that of the rows.
        """
        width, sizes = x.value.width, lengths(x.dims)
        self._refuse_whole(x)
        try:
            out = compute(np.zeros((0, *sizes), self.graph.dtype)).shape[1:]
        except ValueError as error:
            raise self.refuse(f"has a constant that does not fit {shown(x.dims)}") from error
        if width * max(width, math.prod(out)) > MOST_NUMBERS:
            raise self.refuse(
                f"is a layer of {width:,} times {math.prod(out):,} weights; at most {MOST_NUMBERS:,} are written out",
            )
        units = compute(np.eye(width, dtype=self.graph.dtype).reshape(width, *sizes))
        at = rows_axis(x.dims)
        dims = with_rows(out, at if axis is None else axis, x.dims[at])
        weight = np.ascontiguousarray(units.reshape(width, -1).T) + self.graph.dtype.type(0)  # -0.0 becomes 0.0
        return self.made(self._derived(x.value, weight, None), dims)

    def tied(
        self,
        x: Result,
        tie: Callable[..., Tie],
        weight: Array,
        name: str | None,
        places: LayerNodes,
        bias: Array | None = None,
    ) -> Result:
        """Return an affine layer along the last axis, whose matrix repeats what the file stores at ``places``.

        ``weight`` is (outputs, inputs), or one for each block, and ``tie`` says how the matrix repeats it.
        """
        self._refuse_whole(x)
        width = weight.shape[-2]
        dims = (*x.dims[:-1], width)
        full = None if bias is None else self.bias(bias, dims)
        once = bias is not None and bias.size in (1, width) and bias.size == (bias.shape or (1,))[-1]
        stored = None if full is None else full[:width] if once else full
        try:
            how = tie(outputs=width, inputs=weight.shape[-1], own_bias=full is not None and not once)
        except FairmendError as error:
            raise self.refuse(str(error)) from error
        name = self._layer_name(name)
        self.graph.layers[name] = places
        weight = weight + self.graph.dtype.type(0)  # -0.0 becomes 0.0, as in other layers over axes
        if not how.shared and how.blocks == 1:
            return self.made(self.steps.linear(x.value, self.where, weight, full, name), dims)
        return self.made(self.steps.tied(x.value, self.where, how, weight, stored, name), dims)

    def constant_rows(self, value: Array, dims: Dims, *, stored: bool) -> Result:
        """Return a constant for every row, as an affine layer whose weights are 0."""
        if value.dtype != self.graph.dtype:
            raise self.refuse(f"gives rows of {value.dtype}, unlike the input's {self.graph.dtype}")
        count = math.prod(lengths(dims))
        if count * self.to.row.width > MOST_NUMBERS:
            raise self.refuse(f"makes rows of {count:,} numbers of a constant")
        full = self.bias(value, dims)
        if not stored or value.size != count:
            weight = np.zeros((count, self.to.row.width), self.graph.dtype)
            return self.made(self._derived(self.to.row, weight, full), dims)
        name, tie = self._layer_name(None), Tie(count, self.to.row.width, weighted=False)
        self.graph.layers[name] = LayerNodes(self.node.output[0], True, self.node.output[0], 0)
        none = np.zeros(0, self.graph.dtype)
        return self.made(self.steps.tied(self.to.row, self.where, tie, none, full, name), dims)

    def bias(self, bias: Array, dims: Dims) -> Array:
        """Return a bias for each number of a row."""
        return self.spread(bias, dims, f"adds a constant of shape {bias.shape} to {shown(dims)}")

    def _derived(self, x: Value, weight: Array, bias: Array | None) -> Value:
        """Add an affine layer whose matrix is not in the file."""
        name = self._layer_name(None)
        self.graph.derived[name] = weight, bias
        return self.steps.linear(x, self.where, weight, bias, name, derived=True)

    def _layer_name(self, name: str | None) -> str:
        taken = {*self.graph.layers, *self.graph.derived}
        name = name if name is not None and name not in taken else f"layers.{len(taken)}"
        while name in taken:
            name += "_"
        return name
