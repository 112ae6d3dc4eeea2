"""Affine layers, products, and normalisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fairmend.network.folding import Norm
from fairmend.network.formats.onnx.conversion import Array, At, Result
from fairmend.network.formats.onnx.graph import LayerNodes
from fairmend.network.operations.ties import Tie


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
    names, arrow, out = at.given["equation"].decode().replace(" ", "").partition("->")
    parts = names.split(",")
    if not arrow or len(parts) != 2 or len(at.node.input) != 2 or not (names.replace(",", "") + out).isalpha():
        raise at.refuse(f"({names}{arrow}{out}) is not a product of two values with an axis for each letter")
    if any(len(set(part)) < len(part) for part in (*parts, out)):
        raise at.refuse(f"({names}{arrow}{out}) takes a diagonal")
    side = at.constant_side()
    x = at.read(0 if side is None else 1 - side)
    own = parts[0 if side is None else 1 - side]
    if len(own) != len(x.dims):
        raise at.refuse(f"({names}{arrow}{out}) has other axes than {x.shape()}")
    if side is None:
        second = at.read(1)
        if len(parts[1]) != len(second.dims):
            raise at.refuse(f"({names}{arrow}{out}) has other axes than {second.shape()}")
        return at.contract(x, list(parts[0]), second, list(parts[1]), list(out), stretch=False)
    constant, rows = at.required(side), own[x.row_axis]
    if constant.ndim != len(parts[side]) or rows in parts[side] or rows not in out or not set(out) <= set(names):
        raise at.refuse(f"({names}{arrow}{out}) has a constant for each row, or of other axes")
    sizes = dict(zip(own, x.dims, strict=True))
    for letter, size in zip(parts[side], constant.shape, strict=True):
        if letter not in out and size > 1 and sizes.get(letter, 1) != size:  # runtimes do so in orders of their own
            raise at.refuse(f"({names}{arrow}{out}) adds up numbers of its constant")
    unit = next(letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if letter not in names)
    equation = f"{unit}{own},{parts[side]}->{unit}{out}"
    return at.mapped(x, lambda values: np.einsum(equation, values, constant), out.index(rows))


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


def _layer_norm(at: At) -> Result:
    given, x = at.given, at.read()
    wanted = 1 if at.graph.dtype == np.float32 else 11  # the type in which the standard computes mean and deviation
    if given.get("stash_type", 1) != wanted:
        raise at.refuse(f"has another stash_type than {wanted}: it does not compute in {at.graph.dtype} throughout")
    axis, epsilon = given.get("axis", -1), float(given.get("epsilon", np.float32(1e-5)))
    found = at.normalised(x, axis, epsilon, centred=at.node.op_type == "LayerNormalization")
    gain = at.for_each(at.required(1), x.dims)
    shift = at.constant(2)
    shift = np.zeros((), gain.dtype) if shift is None else at.for_each(shift, x.dims)
    if (gain == 1).all() and not shift.any():
        return found
    return at.scaled(found, gain=gain.astype(np.float64), shift=shift.astype(np.float64))


OPERATORS: dict[str, Callable[[At], Result]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "Scaler": _scaler,
}
