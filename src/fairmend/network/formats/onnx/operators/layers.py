"""Affine layers, products, and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from fairmend.network.folding import Norm
from fairmend.network.formats.onnx.arrays import attributes
from fairmend.network.formats.onnx.axes import ROWS, Axes, contraction, lengths, matrix_contraction, rows_axis, shown
from fairmend.network.formats.onnx.conversion import Array, Conversion, Result
from fairmend.network.formats.onnx.graph import LayerNodes, Node, describe_node
from fairmend.network.operations.ties import Tie


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
    name, plain = _weight_prefix(node.input[1]), alpha == beta == 1.0
    x = to.numbers(node)
    if not x.is_row and len(x.dims) == 2 and rows_axis(x.dims) == 0 and plain and weight.ndim == 2:  # of merged rows
        return over_tokens(node, to, x, weight, name, places, bias)
    if plain:
        return to.linear(node, weight, bias, name, places)
    product = to.linear(node, weight, None, name, places)  # a runtime rounds the product with alpha on its own
    shift = 0.0 if bias is None else to.full_bias(node, bias, product.dims).astype(np.float64) * beta
    return to.norm(node, product, alpha, shift)


def _matmul(node: Node, to: Conversion) -> Result:
    side = to.constant_side(node)
    if side is None:
        first, second = to.numbers(node, 0), to.numbers(node, 1)
        return to.product(node, first, second, matrix_contraction(first.dims, second.dims))
    weight, x = to.required(node, side), to.numbers(node, 1 - side)
    if side == 0:
        _check_matrices(node, to, x, weight, -2)
        return to.mapped(node, x, lambda rows: np.matmul(weight, rows))
    name, bias, places = _weight_prefix(node.input[1]), None, LayerNodes(node.output[0], False, None)
    readers = to.graph.readers(node.output[0])
    if weight.ndim == 2 and len(readers) == 1 and readers[0].op_type == "Add" and node.output[0] != to.graph.output:
        added = readers[0]
        position = to.constant_side(added)
        if position is not None:  # the bias of this layer
            places = LayerNodes(node.output[0], False, added.output[0], position)
            to.check_added(added, position)
            to.biases.add(added.output[0])
            bias, name = to.required(added, position), name or _bias_prefix(added.input[position])
    if x.is_row:
        return to.linear(node, weight.T, bias, name, places)
    _check_matrices(node, to, x, weight, -1)
    if weight.ndim == 2:
        return over_tokens(node, to, x, weight.T, name, places, bias)
    return to.mapped(node, x, lambda rows: np.matmul(rows, weight))


def over_tokens(
    node: Node, to: Conversion, x: Result, weight: Array, name: str | None, places: LayerNodes, bias: Array | None
) -> Result:
    """Return an affine layer along the last axis, the same for all others."""
    if x.dims[-1] != weight.shape[1]:
        raise to.refuse(node, f"has a constant that does not fit {shown(x.dims)}")
    tie = partial(Tie, tokens=x.value.width // weight.shape[1])
    return to.tied(node, x, tie, weight, name, places, bias)


def _check_matrices(node: Node, to: Conversion, x: Result, weight: Array, summed: int) -> None:
    """Refuse matrices that add axes, that differ from row to row, or whose product with a value sums over rows."""
    at = rows_axis(x.dims) - len(x.dims)
    batch = dict(zip(range(-weight.ndim, -2), weight.shape, strict=False))
    if not 2 <= weight.ndim <= len(x.dims) or at == summed or batch.get(at, 1) != 1:
        raise to.refuse(
            node, f"multiplies {shown(x.dims)} by a constant of shape {weight.shape}, not a matrix for all rows"
        )


def _einsum(node: Node, to: Conversion) -> Result:
    names, arrow, out = attributes(node)["equation"].decode().replace(" ", "").partition("->")
    parts = names.split(",")
    if not arrow or len(parts) != 2 or len(node.input) != 2 or not (names.replace(",", "") + out).isalpha():
        raise to.refuse(node, f"({names}{arrow}{out}) is not a product of two values with an axis for each letter")
    if any(len(set(part)) < len(part) for part in (*parts, out)):
        raise to.refuse(node, f"({names}{arrow}{out}) takes a diagonal")
    side = to.constant_side(node)
    x = to.numbers(node, 0 if side is None else 1 - side)
    own = parts[0 if side is None else 1 - side]
    if len(own) != len(x.dims):
        raise to.refuse(node, f"({names}{arrow}{out}) has other axes than {shown(x.dims)}")
    if side is None:
        second = to.numbers(node, 1)
        if len(parts[1]) != len(second.dims):
            raise to.refuse(node, f"({names}{arrow}{out}) has other axes than {shown(second.dims)}")
        one: Axes = dict(zip(parts[0], x.dims, strict=True))
        other: Axes = dict(zip(parts[1], second.dims, strict=True))
        return to.product(node, x, second, contraction(one, other, list(out)))
    constant, rows = to.required(node, side), own[rows_axis(x.dims)]
    if constant.ndim != len(parts[side]) or rows in parts[side] or rows not in out or not set(out) <= set(names):
        raise to.refuse(node, f"({names}{arrow}{out}) has a constant for each row, or of other axes")
    unit = next(letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if letter not in names)
    equation = f"{unit}{own},{parts[side]}->{unit}{out}"
    return to.mapped(node, x, lambda values: np.einsum(equation, values, constant), out.index(rows))


def _scaler(node: Node, to: Conversion) -> Result:
    """Read (x − offset)·scale, which skl2onnx makes of scikit-learn's scalers; the result is always float32."""
    given = attributes(node)
    if to.graph.dtype != np.float32 or not {"offset", "scale"} <= given.keys():
        raise to.refuse(node, "gives float32, or lacks its numbers")
    offset, gain = (np.array(given[key], np.float64) for key in ("offset", "scale"))
    offset, gain = (part.reshape(()) if part.size == 1 else part for part in (offset, gain))
    x = to.columns(node)
    return to.norm(node, Result(x, (ROWS, x.width)), gain, 0.0, offset)


def _batch_norm(node: Node, to: Conversion) -> Result:
    given = attributes(node)
    if given.get("training_mode", 0) or len(node.output) > 1:
        raise to.refuse(node, "is in training mode")
    gain, shift, mean, variance = (to.required(node, position) for position in (1, 2, 3, 4))
    epsilon = float(given.get("epsilon", np.float32(1e-5)))
    norm = Norm(describe_node(node), mean, variance, gain, shift, epsilon, node.output[0])
    x = to.columns(node)
    return Result(to.builder.norm(x, norm), (ROWS, x.width))


def normalised(node: Node, to: Conversion, x: Result, axis: int, epsilon: float, centred: bool) -> Result:
    """Return a normalisation over the axes from one on."""
    if not -len(x.dims) <= axis < len(x.dims) or rows_axis(x.dims) >= axis % len(x.dims):
        raise to.refuse(node, f"normalises {shown(x.dims)} from axis {axis} on")
    size = math.prod(lengths(x.dims[axis % len(x.dims) :]))
    value = to.builder.normalise(x.value, describe_node(node), size, epsilon, centred=centred)
    return replace(x, value=value)


def _layer_norm(node: Node, to: Conversion) -> Result:
    given, x = attributes(node), to.numbers(node)
    wanted = 1 if to.graph.dtype == np.float32 else 11  # the type in which the standard computes mean and deviation
    if given.get("stash_type", 1) != wanted:
        raise to.refuse(
            node, f"has another stash_type than {wanted}: it does not compute in {to.graph.dtype} throughout"
        )
    axis, epsilon = given.get("axis", -1), float(given.get("epsilon", np.float32(1e-5)))
    found = normalised(node, to, x, axis, epsilon, node.op_type == "LayerNormalization")
    gain = to.for_each(node, to.required(node, 1), x.dims)
    shift = to.constant(node, 2)
    shift = np.zeros((), gain.dtype) if shift is None else to.for_each(node, shift, x.dims)
    if (gain == 1).all() and not shift.any():
        return found
    return to.norm(node, found, gain.astype(np.float64), shift.astype(np.float64))


OPERATORS: dict[str, Callable[[Node, Conversion], Result]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "Scaler": _scaler,
}
