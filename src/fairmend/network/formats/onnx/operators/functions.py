"""Elementwise functions, and the softmax that closes a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmend.network.formats.onnx.conversion import At, Result
from fairmend.network.formats.onnx.operators.arithmetic import widened

_PLAIN = "Relu Tanh Sigmoid Softsign HardSwish Mish Abs Exp Log Reciprocal Sqrt Sin Cos"  # by their own names
_ONE_AXIS = 13  # the version of ONNX from which on a softmax is over one axis, and not over all from one on
_SELU = (np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875))


def _prelu(at: At) -> Result:
    slopes, x = at.required(1), at.data()
    if len(np.unique(slopes)) == 1 and slopes.reshape(-1)[0] >= 0:
        return at.function(x, "leaky_relu", float(slopes.reshape(-1)[0]))
    wide = np.broadcast_to(at.for_each(slopes, at.read().dims), (x.width,))
    return at.function(x, "prelu", parameters=wide.tolist())


def _clip(at: At) -> Result:
    low, high = at.constant(1), at.constant(2)
    least = float(low.reshape(())) if low is not None else float(at.given.get("min", -np.inf))
    most = float(high.reshape(())) if high is not None else float(at.given.get("max", np.inf))
    if least == 0 and most == np.inf:
        return at.function(at.data(), "relu")
    largest = float(np.finfo(at.graph.dtype).max)  # no limit is one that no number exceeds
    return at.function(at.data(), "clip", parameters=(max(least, -largest), min(most, largest)))


def _selu(at: At) -> Result:
    if (at.given.get("alpha", _SELU[0]), at.given.get("gamma", _SELU[1])) != _SELU:
        raise at.refuse("has other numbers than SELU's own")
    return at.function(at.data(), "selu")


def _hard_sigmoid(at: At) -> Result:
    slope, offset = float(at.given.get("alpha", np.float32(0.2))), float(at.given.get("beta", 0.5))
    return at.function(at.data(), "hardsigmoid", parameters=(slope, offset))


def _pow(at: At) -> Result:
    exponents = at.required(1)
    if len(np.unique(exponents)) != 1:
        raise at.refuse("has several exponents")
    return at.power(at.numbers(widened(at, at.data(), 1)), float(exponents.flat[0]))


def _softmax(at: At) -> Result:
    """Read a softmax along an axis; over the columns of a row, it may close the network."""
    masked, one_axis = at.to.data(at.node.input[0], masked=True), at.graph.opset >= _ONE_AXIS
    x = at.read() if masked.left_out is None else masked
    given, logarithm = at.given.get("axis", -1 if one_axis else 1), at.node.op_type == "LogSoftmax"
    axis = at.along(x, given, f"is not over the last axis, but over axis {given} of {x.shape()}")
    if not x.is_row and (not one_axis or logarithm):
        raise at.refuse(f"is over several axes of {x.shape()}, or a logarithm inside the network")
    return at.softmax(x, axis, logarithm=logarithm)


OPERATORS: dict[str, Callable[[At], Result]] = {
    **dict.fromkeys(_PLAIN.split(), lambda at: at.function(at.data(), at.node.op_type.lower())),
    "LeakyRelu": lambda at: at.function(at.data(), "leaky_relu", float(at.given.get("alpha", np.float32(0.01)))),
    "PRelu": _prelu,
    "Clip": _clip,
    "Elu": lambda at: at.function(at.data(), "elu", parameters=(float(at.given.get("alpha", 1.0)),)),
    "Celu": lambda at: at.function(at.data(), "celu", parameters=(float(at.given.get("alpha", 1.0)),)),
    "Selu": _selu,
    "Softplus": lambda at: at.function(at.data(), "softplus", parameters=(1.0,)),
    "HardSigmoid": _hard_sigmoid,
    "Gelu": lambda at: at.function(
        at.data(), "gelu" if at.given.get("approximate", b"none") == b"none" else "gelu_tanh"
    ),
    "Pow": _pow,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
