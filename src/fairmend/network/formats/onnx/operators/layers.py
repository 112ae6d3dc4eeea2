"""Affine layers, scalings and sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmend.network.folding import Norm
from fairmend.network.formats.build import scaling
from fairmend.network.formats.onnx.conversion import Conversion, Result
from fairmend.network.formats.onnx.graph import LayerNodes, Node, attributes, describe_node


def _weight_prefix(name: str) -> str | None:
    prefix, dot, part = name.rpartition(".")
    return prefix if part == "weight" and (dot or not prefix) else None


def _bias_prefix(name: str) -> str | None:
    """Return the layer's name from its bias: PyTorch names the bias of an exported MatMul, not its weight."""
    return name.removesuffix(".bias") if name.endswith(".bias") else None


def _gemm(node: Node, to: Conversion) -> Result:
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


def _matmul(node: Node, to: Conversion) -> Result:
    weight = to.required(node, 1)
    name = _weight_prefix(node.input[1])
    readers = to.graph.readers(node.output[0])
    if len(readers) == 1 and readers[0].op_type == "Add" and node.output[0] != to.graph.output:
        added = readers[0]
        position = to.constant_side(added)
        if position is not None:  # the bias of this layer
            places = LayerNodes(node.output[0], False, added.output[0], position)
            to.check_added(added, position)
            bias = to.required(added, position)
            return to.linear(node, weight.T, bias, name or _bias_prefix(added.input[position]), places)
    return to.linear(node, weight.T, None, name, LayerNodes(node.output[0], False, None))


def _add(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        return Result(to.builder.add(describe_node(node), [to.row(node, 0), to.row(node, 1)]))
    x = to.row(node, 1 - position)
    layer = next((layer for layer in to.graph.layers.values() if layer.bias_node == node.output[0]), None)
    if layer is not None and layer.product == node.input[1 - position]:
        return Result(x)  # the layer before it has this bias
    to.check_added(node, position)
    return to.norm(node, x, 1.0, to.per_column(node, position))


def _sub(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        minus = to.builder.norm(to.row(node, 1), scaling(describe_node(node), -1.0, 0.0))
        return Result(to.builder.add(describe_node(node), [to.row(node, 0), minus]))
    to.check_added(node, position)
    if position == 0:
        return to.norm(node, to.row(node, 1), -1.0, to.per_column(node, 0))
    return to.norm(node, to.row(node), 1.0, -to.per_column(node, 1))


def _mul(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        raise to.refuse(node, "multiplies two values that depend on the input")
    return to.norm(node, to.row(node, 1 - position), to.per_column(node, position), 0.0)


def _div(node: Node, to: Conversion) -> Result:
    if to.constant_side(node) != 1:
        raise to.refuse(node, "divides by a value that depends on the input")
    divisor = to.per_column(node, 1)
    if not divisor.all():
        raise to.refuse(node, "divides by 0")
    return to.norm(node, to.row(node), 1 / divisor, 0.0)


def _neg(node: Node, to: Conversion) -> Result:
    return to.norm(node, to.row(node), -1.0, 0.0)


def _sum(node: Node, to: Conversion) -> Result:
    values = [to.row(node, position) for position in range(len(node.input))]
    return Result(values[0] if len(values) == 1 else to.builder.add(describe_node(node), values))


def _mean(node: Node, to: Conversion) -> Result:
    return to.norm(node, _sum(node, to).value, 1 / len(node.input), 0.0)


def _reduce(node: Node, to: Conversion) -> Result:
    """Read the sum or mean of values that were stacked, or of the columns of a value."""
    given = attributes(node)
    axes = to.constant(node, 1)
    listed = [int(axis) for axis in (given.get("axes", []) if axes is None else axes.reshape(-1))]
    found = to.data(node.input[0])
    if len(listed) != 1:
        raise to.refuse(node, f"is over the axes {listed}")
    if found.whole:
        raise to.refuse(
            node, "adds up whole numbers, whose mean would be cut off; cast them to the type of the weights first"
        )
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
    return Result(total, axes_left)


def _scaler(node: Node, to: Conversion) -> Result:
    """Read (x − offset)·scale, which skl2onnx makes of scikit-learn's scalers; the result is always float32."""
    given = attributes(node)
    if to.graph.dtype != np.float32 or not {"offset", "scale"} <= given.keys():
        raise to.refuse(node, "gives float32, or lacks its numbers")
    offset, gain = (np.array(given[key], np.float64) for key in ("offset", "scale"))
    offset, gain = (part.reshape(()) if part.size == 1 else part for part in (offset, gain))
    return to.norm(node, to.row(node), gain, 0.0, offset)


def _batch_norm(node: Node, to: Conversion) -> Result:
    given = attributes(node)
    if given.get("training_mode", 0) or len(node.output) > 1:
        raise to.refuse(node, "is in training mode")
    gain, shift, mean, variance = (to.required(node, position) for position in (1, 2, 3, 4))
    epsilon = float(given.get("epsilon", np.float32(1e-5)))
    norm = Norm(describe_node(node), mean, variance, gain, shift, epsilon, node.output[0])
    return Result(to.builder.norm(to.row(node), norm))


OPERATORS: dict[str, Callable[[Node, Conversion], Result]] = {
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
    "BatchNormalization": _batch_norm,
    "Scaler": _scaler,
}
