"""Affine layers, products, and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fairmend.network.folding import Norm
from fairmend.network.formats.axes import last_factor, lengths
from fairmend.network.formats.onnx.conversion import Array, At, Result
from fairmend.network.formats.onnx.graph import LayerNodes
from fairmend.network.operations.ties import Tie

_GAIN_OF_CHANNELS = 21  # the version of ONNX from which on GroupNormalization has a gain for each channel


def _weight_prefix(name: str) -> str | None:
    prefix, dot, part = name.rpartition(".")
    return prefix if part == "weight" and (dot or not prefix) else None


def _bias_prefix(name: str) -> str | None:
    """Return the layer's name from its bias: PyTorch names the bias of an exported MatMul, not its weight."""
    return name.removesuffix(".bias") if name.endswith(".bias") else None


def _gemm(at: At) -> Result:
    given = at.given
    if given.get("transA", 0):
        raise at.refuse("has transA=1")
    weight, bias = at.required(1), at.constant(2)
    weight = weight if given.get("transB", 0) else weight.T
    alpha, beta = given.get("alpha", 1.0), given.get("beta", 1.0)
    places = LayerNodes(
        at.node.output[0], bool(given.get("transB", 0)), at.node.output[0] if bias is not None else None
    )
    name, plain = _weight_prefix(at.node.input[1]), alpha == beta == 1.0
    x = at.read()
    if not x.is_row and len(x.dims) == 2 and x.row_axis == 0 and plain and weight.ndim == 2:  # of merged rows
        return over_tokens(at, x, weight, name, places, bias)
    if plain:
        return at.linear(weight, bias, name, places)
    product = at.linear(weight, None, name, places)  # a runtime rounds the product with alpha on its own
    shift = 0.0 if bias is None else at.bias(bias, product.dims).astype(np.float64) * beta
    return at.scaled(product, gain=alpha, shift=shift)


def _matmul(at: At) -> Result:
    side = at.constant_side()
    if side is None:
        return at.matmul(at.read(0), at.read(1))
    weight, x = at.required(side), at.read(1 - side)
    if weight.ndim < 2:
        raise at.refuse(
            "multiplies by a vector, which ONNX Runtime up to 1.31 computes differently after a Transpose; write it as "
            "a matrix of one column"
        )
    if side == 0:
        _check_matrices(at, x, weight, -2)
        return at.mapped(x, lambda rows: np.matmul(weight, rows))
    name, bias, places = _weight_prefix(at.node.input[1]), None, LayerNodes(at.node.output[0], False, None)
    readers = at.graph.readers(at.node.output[0])
    if weight.ndim == 2 and len(readers) == 1 and readers[0].op_type == "Add" and at.node.output[0] != at.graph.output:
        added = readers[0]
        adding = At(added, at.to)
        position = adding.constant_side()
        if position is not None:  # the bias of this layer
            places = LayerNodes(at.node.output[0], False, added.output[0], position)
            adding.check_added(position)
            at.to.biases.add(added.output[0])
            bias, name = adding.required(position), name or _bias_prefix(added.input[position])
    if x.is_row:
        return at.linear(weight.T, bias, name, places)
    _check_matrices(at, x, weight, -1)
    if weight.ndim == 2:
        return over_tokens(at, x, weight.T, name, places, bias)
    return at.mapped(x, lambda rows: np.matmul(rows, weight))


def over_tokens(at: At, x: Result, weight: Array, name: str | None, places: LayerNodes, bias: Array | None) -> Result:
    """Return an affine layer along the last axis, the same for all others."""
    if x.dims[-1] != weight.shape[1]:
        raise at.refuse(f"has a constant that does not fit {x.shape()}")
    tie = partial(Tie, tokens=x.width // weight.shape[1])
    return at.tied(x, tie, weight, name, places, bias)


def _check_matrices(at: At, x: Result, weight: Array, summed: int) -> None:
    """Refuse matrices that add axes, that differ from row to row, or whose product with a value sums over rows."""
    rows = x.row_axis - len(x.dims)
    batch = dict(zip(range(-weight.ndim, -2), weight.shape, strict=False))
    if not 2 <= weight.ndim <= len(x.dims) or rows == summed or batch.get(rows, 1) != 1:
        raise at.refuse(f"multiplies {x.shape()} by a constant of shape {weight.shape}, not a matrix for all rows")


def _einsum(at: At) -> Result:
    """Read a product of two values, or of three: the one with all axes that are added up comes last."""
    equation = at.given["equation"].decode().replace(" ", "")
    names, arrow, out = equation.partition("->")
    parts = names.split(",")
    if (
        not arrow
        or len(parts) not in (2, 3)
        or len(at.node.input) != len(parts)
        or not (names.replace(",", "") + out).isalpha()
    ):
        raise at.refuse(f"({equation}) is not a product of two or three values with an axis for each letter")
    if any(len(set(part)) < len(part) for part in (*parts, out)):
        raise at.refuse(f"({equation}) takes a diagonal")
    given = [at.read(k) if at.graph.constant(name) is None else at.required(k) for k, name in enumerate(at.node.input)]
    if len(parts) == 3:
        try:
            last = last_factor(parts, out)
        except ValueError as error:
            raise at.refuse(f"({equation}) {error}") from error
        both = [k for k in range(3) if k != last]
        union = "".join(dict.fromkeys(parts[both[0]] + parts[both[1]]))
        given = [_pair(at, [given[k] for k in both], [parts[k] for k in both], union), given[last]]
        parts = [union, parts[last]]
    return _pair(at, given, parts, out)


def _pair(at: At, given: Sequence[Result | Array], parts: Sequence[str], out: str) -> Result:
    """Return the products of two values, or of one with a constant, with axes of these names."""
    equation = f"{','.join(parts)}->{out}"
    first, second = given
    for value, own in zip(given, parts, strict=True):
        if isinstance(value, Result) and len(own) != len(value.dims):
            raise at.refuse(f"({equation}) has other axes than {value.shape()}")
    if isinstance(first, Result) and isinstance(second, Result):
        return at.contract(first, list(parts[0]), second, list(parts[1]), list(out), stretch=False)
    side = 0 if isinstance(second, Result) else 1
    x, constant = given[1 - side], given[side]
    if not isinstance(x, Result) or isinstance(constant, Result):
        raise at.refuse(f"({equation}) multiplies constants, which the file should hold as one")
    own, rows = parts[1 - side], parts[1 - side][x.row_axis]
    named = {*parts[0], *parts[1]}
    if constant.ndim != len(parts[side]) or rows in parts[side] or rows not in out or not set(out) <= named:
        raise at.refuse(f"({equation}) has a constant for each row, or of other axes")
    sizes = dict(zip(own, x.dims, strict=True))
    for letter, size in zip(parts[side], constant.shape, strict=True):
        if letter not in out and size > 1 and sizes.get(letter, 1) != size:  # runtimes do so in orders of their own
            raise at.refuse(f"({equation}) adds up numbers of its constant")
    unit = next(letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if letter not in named)
    return at.mapped(
        x, lambda values: np.einsum(f"{unit}{own},{parts[side]}->{unit}{out}", values, constant), out.index(rows)
    )


def _scaler(at: At) -> Result:
    """Read (x − offset)·scale, which skl2onnx makes of scikit-learn's scalers; the result is always float32."""
    given = at.given
    if at.graph.dtype != np.float32 or not {"offset", "scale"} <= given.keys():
        raise at.refuse("gives float32, or lacks its numbers")
    offset, gain = (np.array(given[key], np.float64) for key in ("offset", "scale"))
    offset, gain = (part.reshape(()) if part.size == 1 else part for part in (offset, gain))
    return at.scaled(at.row(), gain=gain, mean=offset)


def _batch_norm(at: At) -> Result:
    given = at.given
    if given.get("training_mode", 0) or len(at.node.output) > 1:
        raise at.refuse("is in training mode")
    gain, shift, mean, variance = (at.required(position) for position in (1, 2, 3, 4))
    epsilon = float(given.get("epsilon", np.float32(1e-5)))
    norm = Norm(at.where, mean, variance, gain, shift, epsilon, at.node.output[0])
    x = at.row()
    return at.made(at.steps.norm(x.value, norm), x.dims)


def _check_stash(at: At) -> None:
    wanted = 1 if at.graph.dtype == np.float32 else 11  # the type in which the standard computes mean and deviation
    if at.given.get("stash_type", 1) != wanted:
        raise at.refuse(f"has another stash_type than {wanted}: it does not compute in {at.graph.dtype} throughout")


def _layer_norm(at: At) -> Result:
    given, x = at.given, at.read()
    _check_stash(at)
    axis, epsilon = given.get("axis", -1), float(given.get("epsilon", np.float32(1e-5)))
    found = at.normalised(x, axis, epsilon, centred=at.node.op_type == "LayerNormalization")
    gain = at.for_each(at.required(1), x.dims)
    shift = at.constant(2)
    shift = np.zeros((), gain.dtype) if shift is None else at.for_each(shift, x.dims)
    return _learned(at, found, gain, shift)


def _learned(at: At, x: Result, gain: Array, shift: Array) -> Result:
    """Return what a normalisation makes of its groups: times a gain, and plus a shift."""
    if (gain == 1).all() and not shift.any():
        return x
    return at.scaled(x, gain=gain.astype(np.float64), shift=shift.astype(np.float64))


def _channel_norm(at: At) -> Result:
    """Read a normalisation of each channel, the axis after the rows, or of groups of channels."""
    given, x = at.given, at.read()
    channels, groups = lengths(x.dims)[1] if len(x.dims) > 1 else 0, given.get("num_groups", 0)
    if at.node.op_type == "InstanceNormalization":
        groups = channels if len(x.dims) > 2 else 0
    elif at.graph.opset < _GAIN_OF_CHANNELS:
        raise at.refuse(f"is of opset {at.graph.opset}, in which a gain is for a group; export to {_GAIN_OF_CHANNELS}")
    else:
        _check_stash(at)
    parts = at.required(1), at.required(2)
    if x.row_axis or groups < 1 or channels % groups or any(part.shape != (channels,) for part in parts):
        raise at.refuse(f"normalises {groups} groups of {x.shape()}, whose axes are not (rows, channels, …)")
    size = math.prod(lengths(x.dims)[1:]) // groups
    found = at.grouped(x, size, float(given.get("epsilon", np.float32(1e-5))))
    gain, shift = (at.for_each(part.reshape(-1, *[1] * (len(x.dims) - 2)), x.dims) for part in parts)
    return _learned(at, found, gain, shift)


OPERATORS: dict[str, Callable[[At], Result]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), _channel_norm),
    "Scaler": _scaler,
}
