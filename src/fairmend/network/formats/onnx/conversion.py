"""What is known while an ONNX graph is converted: the results of its nodes so far, and how operators read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.build import GraphBuilder, Value, scaling, unsupported
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node, describe_node

_LOST = 2.0**-150  # the largest number that float32 rounds to 0


@dataclass(frozen=True)
class Result:
    """What a node gives: a value whose axes are (rows, columns), (rows,), or (rows, looked-up columns, width).

    ``stacked`` are values of one width along a new axis. ``whole`` says whether it holds whole numbers, and ``cut``
    whether a cast may have cut off digits to make them: then only a look-up may read it.
    """

    value: Value
    axes: int = 2
    whole: bool = False
    stacked: tuple[Value, ...] = ()
    stack_axis: int = 0
    cut: bool = False


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

    def refuse(self, node: Node, why: str) -> FairmendError:
        """Return the error for a node that is not supported."""
        return unsupported(self.graph.source, describe_node(node), why)

    def data(self, name: str) -> Result:
        """Return a result that depends on the input; raise the error of a node that is not supported."""
        found = self.results.get(name)
        if isinstance(found, Refused):
            raise found.error
        if found is None:
            node = self.graph.producer(name)
            if node is not None:
                raise self.refuse(node, f"gives {name!r}, which is not its first output")
            raise FairmendError(f"{self.graph.source}: the value {name!r} is constant where the network reads data")
        return found

    def row(self, node: Node, position: int = 0) -> Value:
        """Return a result with the axes (rows, columns) that a node reads."""
        if len(node.input) <= position or self.graph.constant(node.input[position]) is not None:
            raise self.refuse(node, f"has input {position} that is constant")
        found = self.data(node.input[position])
        if found.axes != 2 or found.stacked:
            raise self.refuse(node, "reads a tensor whose axes are not (rows, columns)")
        if found.cut:
            raise self.refuse(node, "computes with numbers that a cast may have cut off")
        return found.value

    def constant(self, node: Node, position: int) -> npt.NDArray[Any] | None:
        """Return the constant at an input; None where the optional input is absent."""
        if len(node.input) <= position or not node.input[position]:
            return None
        value = self.graph.constant(node.input[position])
        if value is None:
            raise self.refuse(node, f"has input {position} ({node.input[position]!r}) that is not constant")
        return value

    def required(self, node: Node, position: int) -> npt.NDArray[Any]:
        """Return the constant at an input that must be there."""
        value = self.constant(node, position)
        if value is None:
            raise self.refuse(node, f"lacks input {position}")
        return value

    def per_column(self, node: Node, position: int) -> npt.NDArray[np.float64]:
        """Return a constant that ONNX broadcasts over rows: one number, or (width,)."""
        value = self.required(node, position)
        if value.dtype != self.graph.dtype or value.ndim > 2 or (value.size != 1 and value.shape[-1] != value.size):
            raise self.refuse(node, f"combines rows with a constant of shape {value.shape}")
        return value.astype(np.float64).reshape(() if value.size == 1 else -1)

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
        self, node: Node, x: Value, gain: npt.ArrayLike, shift: npt.ArrayLike, mean: npt.ArrayLike = 0.0
    ) -> Result:
        """Return (x − mean)·gain + shift."""
        return Result(self.builder.norm(x, scaling(describe_node(node), gain, shift, mean)))

    def function(self, node: Node, name: str, activation: Activation) -> Result:
        """Return an elementwise function of a value; its axes stay as they are."""
        found = self.data(name)
        if found.axes == 3 or found.stacked or found.cut:
            raise self.refuse(node, "reads a tensor whose axes are not (rows, columns)")
        return Result(self.builder.function(found.value, describe_node(node), activation), found.axes)

    def linear(
        self, node: Node, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, name: str | None, places: LayerNodes
    ) -> Result:
        """Return an affine layer of the node's input; `places` says where the file stores it."""
        if weight.ndim != 2:
            raise self.refuse(node, f"multiplies by a constant of shape {weight.shape}, not a matrix")
        full = None if bias is None else self.full_bias(node, bias, len(weight))
        layers = self.graph.layers
        name = name if name is not None and name not in layers else f"layers.{len(layers)}"
        while name in layers:
            name += "_"
        layers[name] = places
        return Result(self.builder.linear(self.row(node), describe_node(node), weight, full, name))

    def full_bias(self, node: Node, bias: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
        """Return a bias, which may be (width,), (1, width) or one number in ONNX, as (width,)."""
        if bias.size not in (1, width) or bias.ndim > 2 or (bias.ndim and bias.shape[-1] != bias.size):
            raise self.refuse(node, f"adds a constant of shape {bias.shape} to {width} outputs")
        return np.broadcast_to(bias.reshape(-1), (width,))
