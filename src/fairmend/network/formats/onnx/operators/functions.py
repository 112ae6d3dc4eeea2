"""Elementwise functions, and the softmax that closes a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.build import Value, scaling
from fairmend.network.formats.onnx.arrays import attributes
from fairmend.network.formats.onnx.axes import column_numbers, lengths, rows_axis, shown
from fairmend.network.formats.onnx.conversion import Conversion, Result
from fairmend.network.formats.onnx.graph import Node, describe_node

_ACTIVATIONS = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softsign": "softsign",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Abs": "abs",
    "Exp": "exp",
    "Log": "log",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Sin": "sin",
    "Cos": "cos",
}
_ONE_AXIS = 13  # the version of ONNX from which on a softmax is over one axis, and not over all from one on
_POWERS = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
_SELU = (np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875))


def _activation(node: Node, to: Conversion) -> Result:
    return _elementwise(node, to, Activation(_ACTIVATIONS[node.op_type]))


def _elementwise(node: Node, to: Conversion, activation: Activation) -> Result:
    return to.function(node, node.input[0], activation)


def _leaky_relu(node: Node, to: Conversion) -> Result:
    return _with_slope(node, to, float(attributes(node).get("alpha", np.float32(0.01))))


def _prelu(node: Node, to: Conversion) -> Result:
    slopes = to.required(node, 1).reshape(-1)
    if len(np.unique(slopes)) == 1 and slopes[0] >= 0:
        return _with_slope(node, to, float(slopes[0]))
    x = to.numbers(node)
    slopes = np.broadcast_to(to.for_each(node, to.required(node, 1), x.dims), (x.value.width,))
    return _elementwise(node, to, Activation("prelu", 0.0, tuple(slopes.tolist())))


def _with_slope(node: Node, to: Conversion, slope: float) -> Result:
    try:
        return _elementwise(node, to, Activation("leaky_relu", slope))
    except FairmendError as error:
        raise to.refuse(node, f"is not supported: {error}") from error


def _clip(node: Node, to: Conversion) -> Result:
    given = attributes(node)
    low, high = to.constant(node, 1), to.constant(node, 2)
    least = float(low.reshape(())) if low is not None else float(given.get("min", -np.inf))
    most = float(high.reshape(())) if high is not None else float(given.get("max", np.inf))
    if least == 0 and most == np.inf:
        return _elementwise(node, to, Activation("relu"))
    largest = float(np.finfo(to.graph.dtype).max)  # no limit is one that no number exceeds
    return _elementwise(node, to, Activation("clip", 0.0, (max(least, -largest), min(most, largest))))


def _elu(node: Node, to: Conversion) -> Result:
    name = node.op_type.lower()
    return _elementwise(node, to, Activation(name, 0.0, (float(attributes(node).get("alpha", 1.0)),)))


def _selu(node: Node, to: Conversion) -> Result:
    given = attributes(node)
    if (given.get("alpha", _SELU[0]), given.get("gamma", _SELU[1])) != _SELU:
        raise to.refuse(node, "has other numbers than SELU's own")
    return _elementwise(node, to, Activation("selu"))


def _softplus(node: Node, to: Conversion) -> Result:
    return _elementwise(node, to, Activation("softplus", 0.0, (1.0,)))


def _hard_sigmoid(node: Node, to: Conversion) -> Result:
    given = attributes(node)
    slope, offset = float(given.get("alpha", np.float32(0.2))), float(given.get("beta", 0.5))
    return _elementwise(node, to, Activation("hardsigmoid", 0.0, (slope, offset)))


def _gelu(node: Node, to: Conversion) -> Result:
    form = attributes(node).get("approximate", b"none")
    return _elementwise(node, to, Activation("gelu" if form == b"none" else "gelu_tanh"))


def _pow(node: Node, to: Conversion) -> Result:
    exponent = to.required(node, 1)
    name = _POWERS.get(float(exponent.reshape(()))) if exponent.shape in ((), (1,)) else None
    if name is None:
        raise to.refuse(node, "is a power other than 2, 0.5, -0.5 and -1")
    return _elementwise(node, to, Activation(name))


def _softmax(node: Node, to: Conversion) -> Result:
    """Read a softmax along an axis; over the columns of a row, it may close the network."""
    given_x = to.data(node.input[0], masked=True)
    left_out, one_axis = given_x.left_out, to.graph.opset >= _ONE_AXIS
    x = to.numbers(node) if left_out is None else replace(given_x, left_out=None)
    given = attributes(node).get("axis", -1 if one_axis else 1)
    where, closes = describe_node(node), x.is_row
    axis = to.along(node, given, x.dims, f"is not over the last axis, but over axis {given} of {shown(x.dims)}")
    if not closes and (not one_axis or node.op_type == "LogSoftmax"):
        raise to.refuse(node, f"is over several axes of {shown(x.dims)}, or a logarithm inside the network")
    if closes:
        size = x.value.width if node.op_type == "Softmax" else None
        return Result(to.builder.softmax(x.value, where, size), x.dims)
    numbers = np.moveaxis(column_numbers(x.dims), axis, -1)
    rows = rows_axis(x.dims)
    last = to.moved(node, x, numbers, rows if rows < axis else rows - 1)
    if left_out is None:
        made = replace(last, value=to.builder.softmax(last.value, where, lengths(x.dims)[axis]))
    else:
        kept = ~np.moveaxis(left_out, axis, -1).reshape(-1, lengths(x.dims)[axis])
        made = replace(last, value=_kept_softmax(node, to, last.value, kept))
    return to.moved(node, made, np.moveaxis(column_numbers(made.dims), -1, axis), rows)


def _kept_softmax(node: Node, to: Conversion, x: Value, kept: npt.NDArray[np.bool_]) -> Value:
    """Return the softmax of the numbers that a mask keeps (groups, size), and 0 for the others.

    Groups that keep the same numbers are one softmax, over these alone, in the order of the first of them.
    """
    if not kept.any(axis=1).all():
        raise to.refuse(node, "has a mask that leaves out everything that a token attends to; leave out that token")
    where, numbers = describe_node(node), np.arange(kept.size).reshape(kept.shape)
    parts, places, start = [], np.full(kept.shape, -1), 0
    for first, own in enumerate(kept):
        if places[first].max() >= 0:
            continue
        groups = np.flatnonzero((kept == own).all(axis=1))
        chosen = numbers[np.ix_(groups, np.flatnonzero(own))]
        part = to.builder.columns(x, where, chosen.reshape(-1).tolist())
        parts.append(to.builder.softmax(part, where, chosen.shape[1]))
        places[np.ix_(groups, np.flatnonzero(own))] = start + np.arange(chosen.size).reshape(chosen.shape)
        start += chosen.size
    parts.append(to.builder.norm(to.builder.columns(x, where, [0]), scaling(where, 0.0, 0.0)))  # 0 for every row
    together = to.builder.concatenate(where, parts)
    return to.builder.columns(together, where, np.where(places < 0, start, places).reshape(-1).tolist())


OPERATORS: dict[str, Callable[[Node, Conversion], Result]] = {
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
    "Pow": _pow,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
