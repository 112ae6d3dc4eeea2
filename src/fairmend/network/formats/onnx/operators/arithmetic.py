"""Sums, products and means: of values with constants, of several values, and along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fairmend.network import Activation
from fairmend.network.formats.onnx.arrays import attributes, listed
from fairmend.network.formats.onnx.axes import (
    Dims,
    broadcast,
    column_numbers,
    elementwise_contraction,
    lengths,
    rows_axis,
    shown,
)
from fairmend.network.formats.onnx.conversion import Array, Conversion, Result
from fairmend.network.formats.onnx.graph import LayerNodes, Node, describe_node
from fairmend.network.operations.ties import Tie

_MOST_PARTS = 2**13  # that a sum along axes adds up
_MOST_COMPARED = 64  # numbers of which the largest is found, one after the other


def _add(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        return _total(node, to, [to.numbers(node, 0), to.numbers(node, 1)])
    x = to.numbers(node, 1 - position)
    if node.output[0] in to.biases:
        return x  # the layer before it has this bias
    to.check_added(node, position)
    shift = to.per_number(node, position, x.dims)
    left_out = np.isneginf(shift)
    if not left_out.any():
        return to.norm(node, x, 1.0, shift)
    if x.is_row or left_out.size != x.value.width:
        raise to.refuse(node, "adds -infinity, other than as a mask of scores over tokens")
    finite = np.where(left_out, 0.0, shift)
    kept = to.norm(node, x, 1.0, finite) if finite.any() else x
    return replace(kept, left_out=left_out.reshape(lengths(x.dims)))


def _where(node: Node, to: Conversion) -> Result:
    """Read a constant choice between a value and numbers: a mask, with -infinity for what a softmax leaves out."""
    chosen = to.graph.constant(node.input[0])
    if chosen is None or chosen.dtype != np.bool_:
        raise to.refuse(node, "chooses by a value that depends on the input")
    sides = [side for side in (1, 2) if to.graph.constant(node.input[side]) is not None]
    if len(sides) != 1:
        raise to.refuse(node, "does not choose between a value and a constant")
    x = to.numbers(node, 3 - sides[0])
    wide = chosen.reshape((1,) * (len(x.dims) - chosen.ndim) + chosen.shape)
    stretched = [size in (1, whole) for size, whole in zip(wide.shape, lengths(x.dims), strict=False)]
    if wide.ndim != len(x.dims) or wide.shape[rows_axis(x.dims)] != 1 or not all(stretched):
        raise to.refuse(node, f"has a mask of shape {chosen.shape} for {shown(x.dims)}")
    filled = np.broadcast_to(wide if sides[0] == 1 else ~wide, lengths(x.dims))
    number = np.broadcast_to(to.per_number(node, sides[0], x.dims), (x.value.width,))
    if np.isneginf(number[filled.reshape(-1)]).all() and not x.is_row:
        return replace(x, left_out=filled)
    if not np.isfinite(number).all():
        raise to.refuse(node, "fills in numbers that are not finite, other than in a mask of scores over tokens")
    flat = filled.reshape(-1)
    return to.norm(node, x, np.where(flat, 0.0, 1.0), np.where(flat, number, 0.0))


def _sub(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        first, second = _together(node, to, [to.numbers(node, 0), to.numbers(node, 1)])
        return _total(node, to, [first, to.norm(node, second, -1.0, 0.0)])
    to.check_added(node, position)
    x = to.numbers(node, 1 - position)
    shift = to.per_number(node, position, x.dims)
    return to.norm(node, x, -1.0, shift) if position == 0 else to.norm(node, x, 1.0, -shift)


def _mul(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None and node.input[0] == node.input[1]:
        return to.function(node, node.input[0], Activation("square"))
    if position is None:
        first, second = to.numbers(node, 0), to.numbers(node, 1)
        return to.product(node, first, second, elementwise_contraction(first.dims, second.dims))
    x, constant = to.numbers(node, 1 - position), to.required(node, position)
    wide = constant.reshape((1,) * (len(x.dims) - constant.ndim) + constant.shape)
    if wide.ndim == len(x.dims) and any(a == 1 and b > 1 for a, b in zip(x.dims, wide.shape, strict=True)):
        if wide.shape[rows_axis(x.dims)] != 1 or constant.dtype != to.graph.dtype:
            raise to.refuse(node, f"multiplies {shown(x.dims)} by a constant of shape {constant.shape}")
        return _tokens(node, to, x, wide, position)
    return to.norm(node, x, to.per_number(node, position, x.dims), 0.0)


def _tokens(node: Node, to: Conversion, x: Result, wide: Array, position: int) -> Result:
    """Return the product with a constant that has more numbers along axes of size 1, as tokenizers compute it."""
    groups = lengths(x.dims)[:-1]
    if x.dims[-1] != 1 or wide.shape[:-1] not in (groups, (1,) * len(groups)):
        return to.mapped(node, x, lambda values: values * wide)
    blocks = math.prod(wide.shape[:-1])
    tie = partial(Tie, blocks=blocks, tokens=x.value.width // blocks)
    places = LayerNodes(node.output[0], True, None, position=position)
    return to.tied(node, x, tie, wide.reshape(blocks, -1, 1), None, places)


def _div(node: Node, to: Conversion) -> Result:
    position = to.constant_side(node)
    if position is None:
        first, second = to.numbers(node, 0), to.function(node, node.input[1], Activation("reciprocal"))
        return to.product(node, first, second, elementwise_contraction(first.dims, second.dims))
    if position == 0:  # a multiple of the reciprocal
        inverse = to.function(node, node.input[1], Activation("reciprocal"))
        factor = to.per_number(node, 0, inverse.dims)
        return inverse if (factor == 1).all() else to.norm(node, inverse, factor, 0.0)
    x = to.numbers(node)
    divisor = to.per_number(node, 1, x.dims)
    if not divisor.all():
        raise to.refuse(node, "divides by 0")
    return to.norm(node, x, 1 / divisor, 0.0)


def _neg(node: Node, to: Conversion) -> Result:
    return to.norm(node, to.numbers(node), -1.0, 0.0)


def _together(node: Node, to: Conversion, values: Sequence[Result]) -> list[Result]:
    """Return values with the same axes: those of size 1 are stretched."""
    dims: Dims | None = values[0].dims
    for value in values[1:]:
        dims = None if dims is None else broadcast(dims, value.dims)
    if dims is None:
        raise to.refuse(node, f"combines {' and '.join(shown(value.dims) for value in values)}")
    return [to.stretched(node, value, dims) for value in values]


def _total(node: Node, to: Conversion, values: Sequence[Result]) -> Result:
    parts = _together(node, to, values)
    if len(parts) == 1:
        return parts[0]
    return Result(to.builder.add(describe_node(node), [part.value for part in parts]), parts[0].dims)


def _sum(node: Node, to: Conversion) -> Result:
    return _total(node, to, [to.numbers(node, position) for position in range(len(node.input))])


def _mean(node: Node, to: Conversion) -> Result:
    total = _sum(node, to)
    return total if len(node.input) == 1 else to.norm(node, total, 1 / len(node.input), 0.0)


def _reduce(node: Node, to: Conversion) -> Result:
    """Read the sum, mean, maximum or minimum along axes, of the parts along them."""
    given, axes, found = attributes(node), to.constant(node, 1), to.data(node.input[0])
    named = [int(axis) for axis in (given.get("axes", []) if axes is None else listed(axes))]
    if found.whole:
        raise to.refuse(
            node, "adds up whole numbers, whose mean would be cut off; cast them to the type of the weights first"
        )
    over = sorted({to.along(node, axis, found.dims, f"is over axis {axis} of {shown(found.dims)}") for axis in named})
    if not over or len(over) != len(named) or given.get("noop_with_empty_axes", 0):
        raise to.refuse(node, f"is over the axes {named} of {shown(found.dims)}")
    rest = [axis for axis in range(len(found.dims)) if axis not in over]
    sizes = lengths(found.dims)
    count = math.prod(sizes[axis] for axis in over)
    if count > _MOST_PARTS:
        raise to.refuse(node, f"adds up {count:,} numbers; at most {_MOST_PARTS:,} are read")
    numbers = np.transpose(column_numbers(found.dims), [*over, *rest]).reshape(count, -1)
    parts = [to.builder.columns(found.value, describe_node(node), part.tolist()) for part in numbers]
    keep = given.get("keepdims", 1)
    dims = tuple(1 if axis in over else size for axis, size in enumerate(found.dims) if keep or axis not in over)
    if node.op_type in ("ReduceMax", "ReduceMin"):
        return _largest(node, to, [Result(part, dims) for part in parts])
    total = Result(parts[0] if count == 1 else to.builder.add(describe_node(node), parts), dims)
    return to.norm(node, total, 1 / count, 0.0) if node.op_type == "ReduceMean" and count > 1 else total


def _largest(node: Node, to: Conversion, values: Sequence[Result]) -> Result:
    """Return the largest of values, b + relu(a - b) one after the other, or the smallest, a - relu(a - b)."""
    if len(values) > _MOST_COMPARED:
        raise to.refuse(node, f"compares {len(values):,} numbers; at most {_MOST_COMPARED} are read")
    where, (found, *others) = describe_node(node), values
    for other in others:
        apart = to.builder.add(where, [found.value, to.norm(node, other, -1.0, 0.0).value])
        more = Result(to.builder.function(apart, where, Activation("relu")), found.dims)
        pair = [other, more] if node.op_type == "ReduceMax" else [found, to.norm(node, more, -1.0, 0.0)]
        found = Result(to.builder.add(where, [part.value for part in pair]), found.dims)
    return found


OPERATORS: dict[str, Callable[[Node, Conversion], Result]] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": _neg,
    "Where": _where,
    "Sum": _sum,
    "Mean": _mean,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "ReduceMax": _reduce,
    "ReduceMin": _reduce,
}
