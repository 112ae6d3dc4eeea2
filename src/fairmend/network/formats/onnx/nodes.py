"""Convert ONNX operators to steps of a network: one small function per operator, in the table `_OPERATORS`.

To support an operator, add a function and a line in `_OPERATORS`; for an activation, add it to `_ACTIVATIONS`, or to
`patterns` if exporters write it as several operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.folding import Norm
from fairmend.network.formats.build import GraphBuilder, Value, scaling, unsupported
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node, attributes, describe_node
from fairmend.network.formats.onnx.patterns import find_function

__all__ = ["convert_graph"]

_ML = "ai.onnx.ml"
_ACTIVATIONS = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softsign": "softsign",
    "HardSwish": "hardswish",
    "Mish": "mish",
}
_SELU = (np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875))


@dataclass(frozen=True)
class _Result:
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
class _Refused:
    """A node that is not supported by itself; a pattern that it is a part of may be."""

    error: FairmendError


def convert_graph(graph: Graph) -> tuple[GraphBuilder, Value]:
    """Return the steps of the graph, operator by operator; `graph.layers` names the nodes of its affine layers."""
    return _Converter(graph).convert()


class _Converter:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.builder = graph, GraphBuilder(graph.source)
        self.results: dict[str, _Result | _Refused] = {}

    def convert(self) -> tuple[GraphBuilder, Value]:
        nodes = self.graph.nodes()
        self._read_inputs(nodes)
        for node in nodes:
            try:
                found = find_function(node, self.graph)
                if found is not None:
                    data, activation = found
                    result: _Result | _Refused = self.function(node, data, activation)
                else:
                    result = self._convert(node)
            except FairmendError as error:
                result = _Refused(error)
            if node.output[0] not in self.results:
                self.results[node.output[0]] = result
        return self.builder, self.data(self.graph.output).value

    def _read_inputs(self, nodes: Sequence[Node]) -> None:
        """Put the inputs side by side in one row, in the order of the graph."""
        inputs = self.graph.inputs
        read = {name for node in nodes for name in node.input}
        for given in inputs:
            if given.name not in read:
                raise FairmendError(
                    f"{self.graph.source}: the graph has {len(inputs)} inputs, and its output does not depend on "
                    f"{given.name!r}; leave that input out"
                )
        widths = [given.columns or self._width_of(given.name, nodes) for given in inputs]
        names = [(given.name, width) for given, width in zip(inputs, widths, strict=True)]
        row = self.builder.input(sum(widths), names if len(inputs) > 1 else ())
        start = 0
        for given, width in zip(inputs, widths, strict=True):
            part = self.builder.columns(row, f"input {given.name!r}", range(start, start + width))
            self.results[given.name] = _Result(part, whole=given.whole)
            start += width

    def _width_of(self, name: str, nodes: Sequence[Node]) -> int:
        """Return the columns of an input that does not state them, from the affine layer that reads it."""
        passed = {name}
        for node in nodes:
            if not passed & set(node.input):
                continue
            weight = self.graph.constant(node.input[1]) if len(node.input) > 1 else None
            if node.op_type in ("Gemm", "MatMul") and weight is not None and weight.ndim == 2:
                return int(weight.shape[1 if attributes(node).get("transB", 0) else 0])
            constants = [self.graph.constant(each) for each in node.input]
            wide = [constant.size for constant in constants if constant is not None and constant.size > 1]
            if node.op_type in ("Add", "Sub", "Mul", "Div", "BatchNormalization") and wide:
                return int(wide[0])
            passed.update(node.output)
        raise FairmendError(f"{self.graph.source}: the graph does not state how many columns its input {name!r} has")

    def _convert(self, node: Node) -> _Result:
        operators = _OPERATORS if node.domain in ("", "ai.onnx") else _ML_OPERATORS if node.domain == _ML else {}
        convert = operators.get(node.op_type)
        if convert is None:
            raise self.refuse(node, "is not supported")
        return convert(node, self)

    def refuse(self, node: Node, why: str) -> FairmendError:
        return unsupported(self.graph.source, describe_node(node), why)

    def data(self, name: str) -> _Result:
        """Return a result that depends on the input; raise the error of a node that is not supported."""
        found = self.results.get(name)
        if isinstance(found, _Refused):
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

    def constant_side(self, node: Node) -> int | None:
        """Return which of two inputs is constant; None if neither is."""
        sides = [position for position in (0, 1) if self.graph.constant(node.input[position]) is not None]
        return sides[0] if sides else None

    def norm(
        self, node: Node, x: Value, gain: npt.ArrayLike, shift: npt.ArrayLike, mean: npt.ArrayLike = 0.0
    ) -> _Result:
        return _Result(self.builder.norm(x, scaling(describe_node(node), gain, shift, mean)))

    def function(self, node: Node, name: str, activation: Activation) -> _Result:
        """Return an elementwise function of a value; its axes stay as they are."""
        found = self.data(name)
        if found.axes == 3 or found.stacked or found.cut:
            raise self.refuse(node, "reads a tensor whose axes are not (rows, columns)")
        return _Result(self.builder.function(found.value, describe_node(node), activation), found.axes)

    def linear(
        self, node: Node, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, name: str | None, places: LayerNodes
    ) -> _Result:
        if weight.ndim != 2:
            raise self.refuse(node, f"multiplies by a constant of shape {weight.shape}, not a matrix")
        full = None if bias is None else self.full_bias(node, bias, len(weight))
        layers = self.graph.layers
        name = name if name is not None and name not in layers else f"layers.{len(layers)}"
        while name in layers:
            name += "_"
        layers[name] = places
        return _Result(self.builder.linear(self.row(node), describe_node(node), weight, full, name))

    def full_bias(self, node: Node, bias: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
        """Return a bias, which may be (width,), (1, width) or one number in ONNX, as (width,)."""
        if bias.size not in (1, width) or bias.ndim > 2 or (bias.ndim and bias.shape[-1] != bias.size):
            raise self.refuse(node, f"adds a constant of shape {bias.shape} to {width} outputs")
        return np.broadcast_to(bias.reshape(-1), (width,))


def _weight_prefix(name: str) -> str | None:
    prefix, dot, part = name.rpartition(".")
    return prefix if part == "weight" and (dot or not prefix) else None


def _bias_prefix(name: str) -> str | None:
    """Return the layer's name from its bias: PyTorch names the bias of an exported MatMul, not its weight."""
    return name.removesuffix(".bias") if name.endswith(".bias") else None


def _gemm(node: Node, to: _Converter) -> _Result:
    given = attributes(node)
    if given.get("transA", 0):
        raise to.refuse(node, "has transA=1")
    weight, bias = to.required(node, 1), to.constant(node, 2)
    weight = weight if given.get("transB", 0) else weight.T
    alpha, beta = given.get("alpha", 1.0), given.get("beta", 1.0)
    places = LayerNodes(node.output[0], bool(given.get("transB", 0)), node.output[0] if bias is not None else None)
    name = _weight_prefix(node.input[1])
    if alpha == beta == 1.0:
        return to.linear(node, weight, bias, name, places)
    product = to.linear(node, weight, None, name, places)  # a runtime rounds the product with alpha on its own
    shift = 0.0 if bias is None else to.full_bias(node, bias, len(weight)).astype(np.float64) * beta
    return to.norm(node, product.value, alpha, shift)


def _matmul(node: Node, to: _Converter) -> _Result:
    weight = to.required(node, 1)
    name = _weight_prefix(node.input[1])
    readers = to.graph.readers(node.output[0])
    if len(readers) == 1 and readers[0].op_type == "Add" and node.output[0] != to.graph.output:
        added = readers[0]
        position = to.constant_side(added)
        if position is not None:  # the bias of this layer
            places = LayerNodes(node.output[0], False, added.output[0], position)
            bias = to.required(added, position)
            return to.linear(node, weight.T, bias, name or _bias_prefix(added.input[position]), places)
    return to.linear(node, weight.T, None, name, LayerNodes(node.output[0], False, None))


def _add(node: Node, to: _Converter) -> _Result:
    position = to.constant_side(node)
    if position is None:
        return _Result(to.builder.add(describe_node(node), [to.row(node, 0), to.row(node, 1)]))
    x = to.row(node, 1 - position)
    layer = next((layer for layer in to.graph.layers.values() if layer.bias_node == node.output[0]), None)
    if layer is not None and layer.product == node.input[1 - position]:
        return _Result(x)  # the layer before it has this bias
    return to.norm(node, x, 1.0, to.per_column(node, position))


def _sub(node: Node, to: _Converter) -> _Result:
    position = to.constant_side(node)
    if position is None:
        minus = to.builder.norm(to.row(node, 1), scaling(describe_node(node), -1.0, 0.0))
        return _Result(to.builder.add(describe_node(node), [to.row(node, 0), minus]))
    if position == 0:
        return to.norm(node, to.row(node, 1), -1.0, to.per_column(node, 0))
    return to.norm(node, to.row(node), 1.0, -to.per_column(node, 1))


def _mul(node: Node, to: _Converter) -> _Result:
    position = to.constant_side(node)
    if position is None:
        raise to.refuse(node, "multiplies two values that depend on the input")
    return to.norm(node, to.row(node, 1 - position), to.per_column(node, position), 0.0)


def _div(node: Node, to: _Converter) -> _Result:
    if to.constant_side(node) != 1:
        raise to.refuse(node, "divides by a value that depends on the input")
    divisor = to.per_column(node, 1)
    if not divisor.all():
        raise to.refuse(node, "divides by 0")
    return to.norm(node, to.row(node), 1 / divisor, 0.0)


def _neg(node: Node, to: _Converter) -> _Result:
    return to.norm(node, to.row(node), -1.0, 0.0)


def _sum(node: Node, to: _Converter) -> _Result:
    values = [to.row(node, position) for position in range(len(node.input))]
    return _Result(values[0] if len(values) == 1 else to.builder.add(describe_node(node), values))


def _mean(node: Node, to: _Converter) -> _Result:
    return to.norm(node, _sum(node, to).value, 1 / len(node.input), 0.0)


def _reduce(node: Node, to: _Converter) -> _Result:
    """Read the sum or mean of values that were stacked, or of the columns of a value."""
    given = attributes(node)
    axes = to.constant(node, 1)
    listed = [int(axis) for axis in (given.get("axes", []) if axes is None else axes.reshape(-1))]
    found = to.data(node.input[0])
    if len(listed) != 1:
        raise to.refuse(node, f"is over the axes {listed}")
    if found.stacked:
        parts = list(found.stacked)
        if listed[0] % 3 != found.stack_axis or given.get("keepdims", 1):
            raise to.refuse(node, f"is over axis {listed[0]} of values stacked along {found.stack_axis}")
        axes_left = 2
    else:
        if listed[0] not in (1, -1) or found.axes != 2:
            raise to.refuse(node, f"is over axis {listed[0]}")
        parts = [to.builder.columns(found.value, describe_node(node), (column,)) for column in range(found.value.width)]
        axes_left = 2 if given.get("keepdims", 1) else 1
    total = parts[0] if len(parts) == 1 else to.builder.add(describe_node(node), parts)
    if node.op_type == "ReduceMean" and len(parts) > 1:
        total = to.norm(node, total, 1 / len(parts), 0.0).value
    return _Result(total, axes_left)


def _scaler(node: Node, to: _Converter) -> _Result:
    """Read (x − offset)·scale, which skl2onnx makes of scikit-learn's scalers; the result is always float32."""
    given = attributes(node)
    if to.graph.dtype != np.float32 or not {"offset", "scale"} <= given.keys():
        raise to.refuse(node, "gives float32, or lacks its numbers")
    offset, gain = (np.array(given[key], np.float64) for key in ("offset", "scale"))
    offset, gain = (part.reshape(()) if part.size == 1 else part for part in (offset, gain))
    return to.norm(node, to.row(node), gain, 0.0, offset)


def _activation(node: Node, to: _Converter) -> _Result:
    return _elementwise(node, to, Activation(_ACTIVATIONS[node.op_type]))


def _elementwise(node: Node, to: _Converter, activation: Activation) -> _Result:
    return to.function(node, node.input[0], activation)


def _leaky_relu(node: Node, to: _Converter) -> _Result:
    return _with_slope(node, to, float(attributes(node).get("alpha", np.float32(0.01))))


def _prelu(node: Node, to: _Converter) -> _Result:
    slopes = to.required(node, 1).reshape(-1)
    if len(np.unique(slopes)) == 1 and slopes[0] >= 0:
        return _with_slope(node, to, float(slopes[0]))
    width = to.row(node).width
    if slopes.size not in (1, width):
        raise to.refuse(node, f"has {slopes.size} slopes for {width} units")
    return _elementwise(node, to, Activation("prelu", 0.0, tuple(np.broadcast_to(slopes, (width,)).tolist())))


def _with_slope(node: Node, to: _Converter, slope: float) -> _Result:
    try:
        return _elementwise(node, to, Activation("leaky_relu", slope))
    except FairmendError as error:
        raise to.refuse(node, f"is not supported: {error}") from error


def _clip(node: Node, to: _Converter) -> _Result:
    given = attributes(node)
    low, high = to.constant(node, 1), to.constant(node, 2)
    least = float(low.reshape(())) if low is not None else float(given.get("min", -np.inf))
    most = float(high.reshape(())) if high is not None else float(given.get("max", np.inf))
    if least == 0 and most == np.inf:
        return _elementwise(node, to, Activation("relu"))
    largest = float(np.finfo(to.graph.dtype).max)  # no limit is one that no number exceeds
    return _elementwise(node, to, Activation("clip", 0.0, (max(least, -largest), min(most, largest))))


def _elu(node: Node, to: _Converter) -> _Result:
    name = node.op_type.lower()
    return _elementwise(node, to, Activation(name, 0.0, (float(attributes(node).get("alpha", 1.0)),)))


def _selu(node: Node, to: _Converter) -> _Result:
    given = attributes(node)
    if (given.get("alpha", _SELU[0]), given.get("gamma", _SELU[1])) != _SELU:
        raise to.refuse(node, "has other numbers than SELU's own")
    return _elementwise(node, to, Activation("selu"))


def _softplus(node: Node, to: _Converter) -> _Result:
    return _elementwise(node, to, Activation("softplus", 0.0, (1.0,)))


def _hard_sigmoid(node: Node, to: _Converter) -> _Result:
    given = attributes(node)
    slope, offset = float(given.get("alpha", np.float32(0.2))), float(given.get("beta", 0.5))
    return _elementwise(node, to, Activation("hardsigmoid", 0.0, (slope, offset)))


def _gelu(node: Node, to: _Converter) -> _Result:
    form = attributes(node).get("approximate", b"none")
    return _elementwise(node, to, Activation("gelu" if form == b"none" else "gelu_tanh"))


def _softmax(node: Node, to: _Converter) -> _Result:
    if attributes(node).get("axis", -1) not in (1, -1):
        raise to.refuse(node, "is not over the last axis")
    return _Result(to.builder.softmax(to.row(node), describe_node(node)))


def _batch_norm(node: Node, to: _Converter) -> _Result:
    given = attributes(node)
    if given.get("training_mode", 0) or len(node.output) > 1:
        raise to.refuse(node, "is in training mode")
    gain, shift, mean, variance = (to.required(node, position) for position in (1, 2, 3, 4))
    epsilon = float(given.get("epsilon", np.float32(1e-5)))
    norm = Norm(describe_node(node), mean, variance, gain, shift, epsilon, node.output[0])
    return _Result(to.builder.norm(to.row(node), norm))


def _dropout(node: Node, to: _Converter) -> _Result:
    training = to.constant(node, 2)
    if training is not None and training.any():
        raise to.refuse(node, "is in training mode")
    return to.data(node.input[0])


def _identity(node: Node, to: _Converter) -> _Result:
    return to.data(node.input[0])


def _cast(node: Node, to: _Converter) -> _Result:
    target, found = attributes(node)["to"], to.data(node.input[0])
    if target in _WHOLE:
        return _Result(found.value, found.axes, whole=True, cut=found.cut or not found.whole)
    if found.cut:
        raise to.refuse(node, "makes numbers of what a cast to whole numbers may have cut off")
    if target != to.graph.element:
        raise to.refuse(node, f"casts to something other than the input's {to.graph.dtype}")
    return _Result(found.value, found.axes, False, found.stacked, found.stack_axis)


def _concat(node: Node, to: _Converter) -> _Result:
    axis = attributes(node)["axis"]
    parts = [to.data(name) for name in node.input]
    if all(part.stacked for part in parts):
        if any(part.stack_axis != axis % 3 for part in parts):
            raise to.refuse(node, f"is along axis {axis} of values stacked along another")
        return _Result(parts[0].value, 3, False, tuple(v for part in parts for v in part.stacked), axis % 3)
    axes = {part.axes for part in parts}
    if axes not in ({2}, {3}) or axis not in ((1, -1) if axes == {2} else (1, -2)):
        raise to.refuse(node, f"is along axis {axis}")
    joined = to.builder.concatenate(describe_node(node), [part.value for part in parts])
    return replace(parts[0], value=joined, whole=all(part.whole for part in parts), cut=any(part.cut for part in parts))


def _unsqueeze(node: Node, to: _Converter) -> _Result:
    given = to.constant(node, 1)
    axes = [int(a) for a in (attributes(node).get("axes", []) if given is None else given.reshape(-1))]
    found = to.data(node.input[0])
    if len(axes) == 1 and found.axes == 1 and axes[0] in (1, -1):
        return replace(found, axes=2)
    if len(axes) != 1 or found.axes != 2 or found.stacked:
        raise to.refuse(node, f"adds the axes {axes}")
    return _Result(found.value, 3, False, (found.value,), axes[0] % 3)


def _gather(node: Node, to: _Converter) -> _Result:
    """Read a look-up in a constant table, or a choice of columns."""
    axis = attributes(node).get("axis", 0)
    table = to.graph.constant(node.input[0])
    if table is not None:
        found = to.data(node.input[1])
        if axis != 0 or table.ndim != 2 or found.stacked or found.axes > 2:
            raise to.refuse(node, "looks up a table that has not the axes (rows, width)")
        name = node.input[0].removesuffix(".weight")
        to.graph.tables[name] = node.input[0]
        return _Result(to.builder.lookup(found.value, describe_node(node), table, name), found.axes + 1)
    indices, found = to.required(node, 1), to.data(node.input[0])
    if axis not in (1, -1) or found.axes != 2 or indices.ndim > 1 or found.stacked:
        raise to.refuse(node, f"gathers along axis {axis}")
    width = found.value.width
    chosen = [int(i) + width if i < 0 else int(i) for i in indices.reshape(-1)]
    return replace(found, value=to.builder.columns(found.value, describe_node(node), chosen), axes=1 + indices.ndim)


def _one_hot(node: Node, to: _Converter) -> _Result:
    depth, values, found = to.required(node, 1), to.required(node, 2), to.data(node.input[0])
    if found.axes != 1 or attributes(node).get("axis", -1) not in (1, -1) or values.reshape(-1).tolist() != [0, 1]:
        raise to.refuse(node, "is not a one-hot encoding of one column")
    table: npt.NDArray[Any] = np.asarray(np.eye(int(depth.reshape(()))), dtype=to.graph.dtype)
    return _Result(to.builder.lookup(found.value, describe_node(node), table, node.output[0], stored=False))


def _slice(node: Node, to: _Converter) -> _Result:
    found, given = to.data(node.input[0]), attributes(node)
    parts = [to.constant(node, position) for position in (1, 2, 3, 4)]
    keys = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (
        given.get(key) if part is None else part.reshape(-1).tolist() for key, part in zip(keys, parts, strict=True)
    )
    if starts is None or ends is None or found.axes != 2 or found.stacked:
        raise to.refuse(node, "does not slice columns")
    value, width = found.value, found.value.width
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = (axes[k] if axes else k), (steps[k] if steps else 1)
        if axis in (0, -2):
            if start != 0 or end < np.iinfo(np.int32).max or step != 1:
                raise to.refuse(node, "chooses among the rows")
            continue
        value = to.builder.columns(value, describe_node(node), range(width)[slice(start, end, step)])
    return replace(found, value=value)


def _split(node: Node, to: _Converter) -> _Result:
    found, given = to.data(node.input[0]), attributes(node)
    sizes = to.constant(node, 1)
    listed = given.get("split") if sizes is None else sizes.reshape(-1).tolist()
    count, width = len(node.output), found.value.width
    if given.get("axis", 0) not in (1, -1) or found.axes != 2 or found.stacked:
        raise to.refuse(node, "does not split columns")
    listed = listed or [min(-(-width // count), width - k * -(-width // count)) for k in range(count)]
    ends = np.cumsum(listed)
    for name, start, end in zip(node.output, [0, *ends[:-1]], ends, strict=True):
        chosen = to.builder.columns(found.value, describe_node(node), range(int(start), int(end)))
        to.results[name] = replace(found, value=chosen)
    return to.data(node.output[0])


def _flatten(node: Node, to: _Converter) -> _Result:
    found = to.data(node.input[0])
    if attributes(node).get("axis", 1) not in (1, 1 - found.axes) or found.stacked or found.axes < 2:
        raise to.refuse(node, "is not from axis 1")
    return replace(found, axes=2)


def _squeeze(node: Node, to: _Converter) -> _Result:
    given, found = to.constant(node, 1), to.data(node.input[0])
    axes = attributes(node).get("axes") if given is None else given.reshape(-1).tolist()
    if found.axes == 3 and axes in ([1], [-2]) and not found.stacked:  # of one look-up
        return _Result(found.value)
    if axes and list(axes) not in ([1], [-1]):
        raise to.refuse(node, f"is over the axes {list(axes)}, not 1")
    if found.axes != 2 or found.stacked:
        raise to.refuse(node, "drops an axis of a tensor whose axes are not (rows, columns)")
    collapsed = to.builder.collapse(found.value, describe_node(node), single=not axes)
    return replace(found, axes=1) if found.whole else _Result(collapsed, 1)


def _reshape(node: Node, to: _Converter) -> _Result:
    """Read a reshape to (-1,), which drops the axis of outputs, or to (-1 or 0, width), which keeps rows."""
    shape, found = to.required(node, 1).reshape(-1).tolist(), to.data(node.input[0])
    width = found.value.width
    if shape == [-1]:
        return replace(found, value=to.builder.collapse(found.value, describe_node(node), single=True), axes=1)
    zero_is_zero = attributes(node).get("allowzero", 0) and 0 in shape
    if (
        len(shape) != 2
        or shape[0] not in (-1, 0)
        or shape == [-1, -1]
        or shape[1] == 0
        or zero_is_zero
        or found.stacked
    ):
        raise to.refuse(node, f"to {shape} is not supported")
    if shape[1] not in (-1, width):
        raise to.refuse(node, f"to {shape} mixes rows of {width} numbers")
    return replace(found, axes=2)


_WHOLE = (6, 7)  # INT32, INT64
_OPERATORS: dict[str, Callable[[Node, _Converter], _Result]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": _neg,
    "Sum": _sum,
    "Mean": _mean,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    **dict.fromkeys(_ACTIVATIONS, _activation),
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Clip": _clip,
    "Elu": _elu,
    "Celu": _elu,
    "Selu": _selu,
    "Softplus": _softplus,
    "HardSigmoid": _hard_sigmoid,
    "Gelu": _gelu,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "BatchNormalization": _batch_norm,
    "Dropout": _dropout,
    "Identity": _identity,
    "Cast": _cast,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "OneHot": _one_hot,
    "Slice": _slice,
    "Split": _split,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
}
_ML_OPERATORS: dict[str, Callable[[Node, _Converter], _Result]] = {"Scaler": _scaler}
