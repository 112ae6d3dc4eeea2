"""What is known while an ONNX graph is converted: the results of its nodes so far, and how operators read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.build import GraphBuilder, Value, scaling, unsupported
from fairmend.network.formats.onnx.arrays import MOST, listed
from fairmend.network.formats.onnx.axes import (
    ROWS,
    Contraction,
    Count,
    Dims,
    Ints,
    column_numbers,
    lengths,
    rows_axis,
    shown,
    with_rows,
)
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node, describe_node
from fairmend.network.operations.ties import MOST_NUMBERS, Tie

Array = npt.NDArray[Any]

_LOST = 2.0**-150  # the largest number that float32 rounds to 0


@dataclass(frozen=True)
class Result:
    """What a node gives: a value with axes of which one is that of the rows, mostly (rows, columns).

    ``whole`` says whether it holds whole numbers, and ``cut`` whether a cast may have cut off digits to make them: then
    only a look-up may read it. ``left_out`` says which numbers, in its axes, are -infinity instead: then only a softmax
    may read it.
    """

    value: Value
    dims: Dims
    whole: bool = False
    cut: bool = False
    left_out: npt.NDArray[np.bool_] | None = None

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
        self.biases: set[str] = set()  # what nodes give that add the bias of the layer before them
        self.row: Value  # the input

    def refuse(self, node: Node, why: str) -> FairmendError:
        """Return the error for a node that is not supported."""
        return unsupported(self.graph.source, describe_node(node), why)

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
                raise self.refuse(node, f"gives {name!r}, which is not its first output")
            raise FairmendError(f"{self.graph.source}: the value {name!r} is constant where the network reads data")
        return found

    def numbers(self, node: Node, position: int = 0) -> Result:
        """Return a result that a node computes with."""
        if len(node.input) <= position or self.graph.constant(node.input[position]) is not None:
            raise self.refuse(node, f"has input {position} that is constant")
        return self._uncut(node, self.data(node.input[position]))

    def _uncut(self, node: Node, found: Result) -> Result:
        if found.cut:
            raise self.refuse(node, "computes with numbers that a cast may have cut off")
        return found

    def columns(self, node: Node) -> Value:
        """Return a result with the axes (rows, columns) that a node reads."""
        found = self.numbers(node)
        if not found.is_row:
            raise self.refuse(node, f"reads a tensor {shown(found.dims)}, whose axes are not (rows, columns)")
        return found.value

    def constant(self, node: Node, position: int) -> Array | None:
        """Return the constant at an input; None where the optional input is absent."""
        if len(node.input) <= position or not node.input[position]:
            return None
        value = self.graph.constant(node.input[position])
        if value is None:
            raise self.refuse(node, f"has input {position} ({node.input[position]!r}) that is not constant")
        return value

    def required(self, node: Node, position: int) -> Array:
        """Return the constant at an input that must be there."""
        value = self.constant(node, position)
        if value is None:
            raise self.refuse(node, f"lacks input {position}")
        return value

    def sizes_at(self, node: Node, position: int) -> list[int | Count]:
        """Return the sizes at an input, in which that of the rows may be."""
        found = self.sizes.get(node.input[position]) if len(node.input) > position else None
        return listed(self.required(node, position) if found is None else found)

    def known(self, node: Node) -> list[Array | None]:
        """Return the constants and sizes that a node reads, with None for what is absent or depends on the input."""
        return [
            self.sizes[name] if name in self.sizes else self.graph.constant(name) if name else None
            for name in node.input
        ]

    def along(self, node: Node, axis: int, dims: Dims, why: str = "") -> int:
        """Return an axis counted from the front; refuse that of the rows, and one that there is not."""
        if not -len(dims) <= axis < len(dims) or axis % len(dims) == rows_axis(dims):
            raise self.refuse(node, why or f"is along axis {axis} of {shown(dims)}")
        return axis % len(dims)

    def for_each(self, node: Node, value: Array, dims: Dims) -> Array:
        """Return a constant that ONNX broadcasts over the rows: one number, or one for each number of a row."""
        wide = value.reshape((1,) * (len(dims) - value.ndim) + value.shape)
        fits = wide.ndim == len(dims) and wide.shape[rows_axis(dims)] == 1
        if value.dtype != self.graph.dtype or not fits or not _stretches(wide.shape, lengths(dims)):
            raise self.refuse(node, f"combines {shown(dims)} with a constant of shape {value.shape}")
        return wide.reshape(()) if wide.size == 1 else np.broadcast_to(wide, lengths(dims)).reshape(-1)

    def per_number(self, node: Node, position: int, dims: Dims) -> npt.NDArray[np.float64]:
        """Return the constant at an input for each number of a row."""
        return self.for_each(node, self.required(node, position), dims).astype(np.float64)

    def check_added(self, node: Node, position: int) -> None:
        """Refuse one number that is 0 in float32, though it is not: ONNX Runtime leaves out the node that adds it."""
        value = self.required(node, position)
        if value.size == 1 and float(value.reshape(())) != 0 and abs(float(value.reshape(()))) <= _LOST:
            raise self.refuse(
                node,
                f"adds or subtracts {float(value.reshape(())):g}, which ONNX Runtime takes for 0; leave the node out",
            )

    def constant_side(self, node: Node) -> int | None:
        """Return which of two inputs is constant; None if neither is."""
        sides = [position for position in (0, 1) if self.graph.constant(node.input[position]) is not None]
        return sides[0] if sides else None

    def norm(
        self, node: Node, x: Result, gain: npt.ArrayLike, shift: npt.ArrayLike, mean: npt.ArrayLike = 0.0
    ) -> Result:
        """Return (x − mean)·gain + shift."""
        return Result(self.builder.norm(x.value, scaling(describe_node(node), gain, shift, mean)), x.dims)

    def function(self, node: Node, name: str, activation: Activation) -> Result:
        """Return an elementwise function of a value; its axes stay as they are."""
        found = self._uncut(node, self.data(name))
        return Result(self.builder.function(found.value, describe_node(node), activation), found.dims)

    def moved(self, node: Node, x: Result, numbers: Ints, axis: int) -> Result:
        """Return the columns with these numbers, in an array of the new axes; ``axis`` is now that of the rows."""
        if not numbers.size:
            raise self.refuse(node, "chooses no numbers")
        if numbers.size > MOST:
            raise self.refuse(node, f"makes {numbers.size:,} numbers of a row; at most {MOST:,} are read")
        rows = x.dims[rows_axis(x.dims)]
        value = self.builder.columns(x.value, describe_node(node), numbers.reshape(-1).tolist())
        return replace(x, value=value, dims=with_rows(numbers.shape, axis, rows))

    def stretched(self, node: Node, x: Result, dims: Dims) -> Result:
        """Return a value with its axes of size 1 stretched to others."""
        numbers = np.broadcast_to(column_numbers(x.dims), lengths(dims))
        return replace(self.moved(node, x, numbers, rows_axis(dims)), dims=dims)

    def product(self, node: Node, first: Result, second: Result, how: Contraction | None) -> Result:
        """Return the product of two values."""
        where = describe_node(node)
        self._refuse_whole(node, first, second)
        if how is None:
            raise self.refuse(
                node,
                f"multiplies {shown(first.dims)} and {shown(second.dims)}, which both depend on the input, other than "
                "row by row",
            )
        a = self.builder.columns(first.value, where, how.first)
        b = self.builder.columns(second.value, where, how.second)
        made = self.builder.product(a, b, where, *how.sizes)
        return Result(self.builder.columns(made, where, how.result), how.dims)

    def _refuse_whole(self, node: Node, *values: Result) -> None:
        if any(value.whole for value in values):
            raise self.refuse(node, "multiplies whole numbers; cast them to the type of the weights first")

    def linear(self, node: Node, weight: Array, bias: Array | None, name: str | None, places: LayerNodes) -> Result:
        """Return an affine layer of the node's input; `places` says where the file stores it."""
        if weight.ndim != 2:
            raise self.refuse(node, f"multiplies by a constant of shape {weight.shape}, not a matrix")
        dims = (ROWS, len(weight))
        full = None if bias is None else self.full_bias(node, bias, dims)
        name = self._layer_name(name)
        x = self.columns(node)
        self.graph.layers[name] = places
        return Result(self.builder.linear(x, describe_node(node), weight, full, name), dims)

    def mapped(
        self,
        node: Node,
        x: Result,
        compute: Callable[[Array], Array],
        axis: int | None = None,
    ) -> Result:
        """Return what a node computes of a value and constants, a sum of products, as an affine layer.

        Its matrix has what the node computes of each unit vector, so each of its numbers is one of a constant, or 0.
        ``compute`` takes the values of several rows, along a new first axis; ``axis`` is then that of the rows.
        """
        width, sizes = x.value.width, lengths(x.dims)
        self._refuse_whole(node, x)
        try:
            out = compute(np.zeros((0, *sizes), self.graph.dtype)).shape[1:]
        except ValueError as error:
            raise self.refuse(node, f"has a constant that does not fit {shown(x.dims)}") from error
        if width * max(width, math.prod(out)) > MOST_NUMBERS:
            raise self.refuse(
                node,
                f"is a layer of {width:,} times {math.prod(out):,} weights; at most {MOST_NUMBERS:,} are written out",
            )
        units = compute(np.eye(width, dtype=self.graph.dtype).reshape(width, *sizes))
        at = rows_axis(x.dims)
        dims = with_rows(out, at if axis is None else axis, x.dims[at])
        weight = np.ascontiguousarray(units.reshape(width, -1).T) + self.graph.dtype.type(0)  # -0.0 becomes 0.0
        return Result(self._derived(node, x.value, weight, None), dims)

    def tied(
        self,
        node: Node,
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
        self._refuse_whole(node, x)
        width = weight.shape[-2]
        dims = (*x.dims[:-1], width)
        full = None if bias is None else self.full_bias(node, bias, dims)
        once = bias is not None and bias.size in (1, width) and bias.size == (bias.shape or (1,))[-1]
        stored = None if full is None else full[:width] if once else full
        try:
            how = tie(outputs=width, inputs=weight.shape[-1], own_bias=full is not None and not once)
        except FairmendError as error:
            raise self.refuse(node, str(error)) from error
        name = self._layer_name(name)
        self.graph.layers[name] = places
        weight = weight + self.graph.dtype.type(0)  # -0.0 becomes 0.0, as in other layers over axes
        if not how.shared and how.blocks == 1:
            return Result(self.builder.linear(x.value, describe_node(node), weight, full, name), dims)
        return Result(self.builder.tied(x.value, describe_node(node), how, weight, stored, name), dims)

    def constant_rows(self, node: Node, value: Array, dims: Dims, *, stored: bool) -> Result:
        """Return a constant for every row, as an affine layer whose weights are 0."""
        if value.dtype != self.graph.dtype:
            raise self.refuse(node, f"gives rows of {value.dtype}, unlike the input's {self.graph.dtype}")
        count = math.prod(lengths(dims))
        if count * self.row.width > MOST_NUMBERS:
            raise self.refuse(node, f"makes rows of {count:,} numbers of a constant")
        full = self.full_bias(node, value, dims)
        if not stored or value.size != count:
            weight = np.zeros((count, self.row.width), self.graph.dtype)
            return Result(self._derived(node, self.row, weight, full), dims)
        name, tie = self._layer_name(None), Tie(count, self.row.width, weighted=False)
        self.graph.layers[name] = LayerNodes(node.output[0], True, node.output[0], 0)
        none = np.zeros(0, self.graph.dtype)
        return Result(self.builder.tied(self.row, describe_node(node), tie, none, full, name), dims)

    def full_bias(self, node: Node, bias: Array, dims: Dims) -> Array:
        """Return a bias, which ONNX broadcasts, for each number of a row."""
        wide = bias.reshape((1,) * (len(dims) - bias.ndim) + bias.shape)
        fits = wide.ndim == len(dims) and wide.shape[rows_axis(dims)] == 1
        if not fits or not _stretches(wide.shape, lengths(dims)):
            raise self.refuse(node, f"adds a constant of shape {bias.shape} to {shown(dims)}")
        return np.broadcast_to(wide, lengths(dims)).reshape(-1)

    def _derived(self, node: Node, x: Value, weight: Array, bias: Array | None) -> Value:
        """Add an affine layer whose matrix is not in the file."""
        name = self._layer_name(None)
        self.graph.derived[name] = weight, bias
        return self.builder.linear(x, describe_node(node), weight, bias, name)

    def _layer_name(self, name: str | None) -> str:
        taken = {*self.graph.layers, *self.graph.derived}
        name = name if name is not None and name not in taken else f"layers.{len(taken)}"
        while name in taken:
            name += "_"
        return name


def _stretches(sizes: Sequence[int], to: Sequence[int]) -> bool:
    return all(size in (1, whole) for size, whole in zip(sizes, to, strict=True))
