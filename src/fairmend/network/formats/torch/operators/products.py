"""Products: of a tensor with the weights of a layer, or of two tensors that depend on the input.

All of them are one contraction: axes have labels, those that are not in the result are added up, and those that only
one factor has are repeated. The columns of both factors are put in the order (groups, rows, length), and then it is one
product, or one affine layer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fairmend.network.formats.torch.operators.arithmetic import add, divide, masked, masked_fill, multiply, sum_over
from fairmend.network.formats.torch.operators.context import (
    ROWS,
    Context,
    ManyRows,
    Operator,
    RowTensor,
    column_numbers,
    either,
    on_constants,
)
from fairmend.network.formats.torch.operators.functions import softmax
from fairmend.network.formats.torch.operators.shapes import moved_axis
from fairmend.network.formats.torch.program import Constant

Labels = Sequence[Hashable]
_MOST_COMPARED = 64  # numbers of which the largest is found, one after the other


def contract(c: Context, a: Any, a_labels: Labels, b: Any, b_labels: Labels, out: Labels, bias: Any = None) -> Any:
    """Return the products of two factors, at least one of them a tensor, added up over the labels not in ``out``."""
    if isinstance(a, Constant):
        a, a_labels, b, b_labels = b, b_labels, a, a_labels
    first = c.numbers(a)
    first, a_labels = _summed(c, first, a_labels, {*b_labels, *out})
    sizes: dict[Hashable, Any] = dict(zip(a_labels, first.dims, strict=True))
    if isinstance(b, RowTensor):
        b, b_labels = _summed(c, c.numbers(b), b_labels, {*a_labels, *out})
    other = b.array.shape if isinstance(b, Constant) else b.dims
    for label, size in zip(b_labels, other, strict=True):
        if sizes.setdefault(label, size) != size:
            raise c.error(f"multiplies shapes {first.shape()} and {_shape(b)}, which do not fit")
    if len(set(a_labels)) < len(a_labels) or len(set(b_labels)) < len(b_labels):
        raise c.error("takes a diagonal")
    rows = a_labels[first.row_axis]
    if rows not in out or (isinstance(b, RowTensor) and b_labels[b.row_axis] != rows):
        raise c.error("multiplies the rows with each other")
    kept = [label for label in out if label != rows]
    groups = [label for label in kept if label in a_labels and label in b_labels]
    own, others = (
        [label for label in kept if label in labels and label not in groups] for labels in (a_labels, b_labels)
    )
    length = [label for label in a_labels if label in b_labels and label not in kept and label != rows]
    counts = [math.prod(sizes[label] for label in labels) for labels in (groups, own, others, length)]
    left = _ordered(c, first, a_labels, [*groups, *own, *length])
    if isinstance(b, RowTensor):
        right = _ordered(c, b, b_labels, [*groups, *others, *length])
        value = c.steps.product(left, right, c.where, *counts)
    else:
        value = _layer(c, left, b, b_labels, (groups, others, length), counts, bias)
    found = [*groups, *own, *others]
    result = RowTensor((value,), (ROWS, *(sizes[label] for label in found)))
    return _arranged(c, result, [rows, *found], out)


def _layer(
    c: Context, x: Any, weight: Any, labels: Labels, wanted: Sequence[Labels], counts: Sequence[int], bias: Any
) -> Any:
    """Return the affine layer of columns (groups, rows, length) with weights whose axes have these labels."""
    groups, tokens, outputs, inputs = counts
    order = [labels.index(label) for part in wanted for label in part]
    rest = [axis for axis in range(len(labels)) if axis not in order]
    if any(weight.array.shape[axis] != 1 for axis in rest):
        raise c.error("adds up weights by themselves, which a layer does not store")
    moved = weight.moved(lambda array: array.transpose([*order, *rest]).reshape(groups, outputs, inputs))
    offset = None if bias is None else c.key(bias, "biases")
    key = c.key(moved, "weights")
    if not (moved.in_order or moved.transposed):
        raise c.error(f"has weights that are a part of {key!r}, or have its axes in another order than (…, out, in)")
    if bias is not None and not bias.in_order:
        raise c.error(f"has biases that are a part of {offset!r}")
    turned = not moved.in_order
    stored = weight.stored or weight.array.shape
    plain = groups == 1 and stored == ((inputs, outputs) if turned else (outputs, inputs))
    return c.steps.affine(x, c.where, key, offset, turned, None if plain else groups, tokens)


def _shape(x: Any) -> str:
    return str(x.array.shape) if isinstance(x, Constant) else str(x.shape())


def _summed(c: Context, x: RowTensor, labels: Labels, needed: set[Hashable]) -> tuple[RowTensor, list[Hashable]]:
    """Return a tensor without the axes that nothing else has: they are added up."""
    for axis in reversed(range(len(labels))):
        if labels[axis] not in needed:
            x = sum_over(c, x, axis)
    return x, [label for label in labels if label in needed]


def _ordered(c: Context, x: RowTensor, labels: Labels, wanted: Labels) -> Any:
    """Return the columns of a tensor with its axes, beside that of the rows, in another order."""
    order = [x.row_axis, *(list(labels).index(label) for label in wanted)]
    dims = tuple(x.dims[axis] for axis in order)
    return c.flat(c.select(x, column_numbers(x.dims).transpose(order), dims))


def _arranged(c: Context, x: RowTensor, labels: Labels, wanted: Labels) -> RowTensor:
    order = [list(labels).index(label) for label in wanted]
    dims = tuple(x.dims[axis] for axis in order)
    return c.select(x, column_numbers(x.dims).transpose(order), dims)


def linear(c: Context, x: Any, weight: Any, bias: Any = None) -> RowTensor:
    """Return W x + b over the last axis."""
    tensor = c.numbers(x)
    c.key(weight, "weights")
    row = tensor.dims[tensor.row_axis]
    if isinstance(row, ManyRows):
        axis = tensor.row_axis
        apart = (*tensor.dims[:axis], row.before, ROWS, row.after, *tensor.dims[axis + 1 :])
        found = linear(c, c.view(tensor, apart), weight, bias)
        return c.view(found, (*tensor.dims[:-1], found.dims[-1]))
    if tensor.dims[-1] is ROWS:
        raise c.error(f"reads a tensor of shape {tensor.shape()}; its last axis must not be that of the rows")
    inputs = weight.array.shape[-1]
    if len(tensor.dims) == 2:
        c.require_width(tensor, inputs)
    elif tensor.dims[-1] != inputs:
        c.require_axis(tensor, (inputs,))
        raise c.error(f"takes {inputs} values, but the layer before it gives {tensor.shape()}")
    axes: list[Hashable] = list(range(len(tensor.dims) - 1))
    weights = weight if weight.array.ndim == 2 else weight.moved(lambda array: array.reshape(-1, inputs))
    result = contract(c, tensor, [*axes, "in"], weights, ["out", "in"], [*axes, "out"], bias)
    return c.view(result, tuple(tensor.dims[:-1])) if weight.array.ndim == 1 else result


def matmul(c: Context, a: Any, b: Any) -> Any:
    """Return the matrix product over the last two axes; the others are groups, repeated where they are 1."""
    dims = [list(_dims(c, each)) for each in (a, b)]
    if any(len(each) == 0 for each in dims):
        raise c.error("multiplies single numbers as matrices")
    left, right = len(dims[0]) > 1, len(dims[1]) > 1
    if left and isinstance(b, Constant) and len(dims[0]) == 2 and isinstance(a, RowTensor) and a.row_axis == 0:
        c.require_width(a, dims[1][0 if not right else -2])
    batch = [each[:-2] for each in dims]
    labels: list[list[Hashable]] = [
        [*range(-len(batch[0]), 0), *(["m"] if left else []), "l"],
        [*range(-len(batch[1]), 0), "l", *(["n"] if right else [])],
    ]
    groups: list[Hashable] = list(range(-max(map(len, batch)), 0))
    out = [*groups, *(["m"] if left else []), *(["n"] if right else [])]
    return _broadcast_contract(c, a, labels[0], b, labels[1], out)


def _dims(c: Context, x: Any) -> tuple[Any, ...]:
    return tuple(x.array.shape) if isinstance(x, Constant) else c.numbers(x).dims


def _broadcast_contract(c: Context, a: Any, a_labels: Labels, b: Any, b_labels: Labels, out: Labels) -> Any:
    """Return a contraction in which an axis of size 1 fits any other."""
    sizes: dict[Hashable, Any] = {}
    for x, labels in ((a, a_labels), (b, b_labels)):
        for label, size in zip(labels, _dims(c, x), strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    thin = [_thinned(c, x, labels, sizes) for x, labels in ((a, a_labels), (b, b_labels))]
    (a, a_labels), (b, b_labels) = thin
    known = {*a_labels, *b_labels}
    kept = [label for label in out if label in known]
    result = contract(c, a, a_labels, b, b_labels, kept)
    return c.view(result, tuple(sizes[label] for label in out))


def _thinned(c: Context, x: Any, labels: Labels, sizes: dict[Hashable, Any]) -> tuple[Any, list[Hashable]]:
    """Return a factor without its axes of size 1, beside that of the rows."""
    dims = _dims(c, x)
    kept = [axis for axis, size in enumerate(dims) if size is ROWS or size != 1]
    for axis in kept:
        if dims[axis] != sizes[labels[axis]]:
            rows = ROWS in (dims[axis], sizes[labels[axis]])
            raise c.error(
                "multiplies the rows with each other"
                if rows
                else f"multiplies axes of {dims[axis]} and {sizes[labels[axis]]} numbers"
            )
    new = tuple(dims[axis] for axis in kept)
    thin = x.moved(lambda array: array.reshape(new)) if isinstance(x, Constant) else c.view(x, new)
    return thin, [labels[axis] for axis in kept]


def times(c: Context, x: Any, other: Any) -> Any:
    """Return the product number by number; axes of size 1 are repeated."""
    ranks = [len(_dims(c, each)) for each in (x, other)]
    labels: list[list[Hashable]] = [list(range(-rank, 0)) for rank in ranks]
    return _broadcast_contract(c, x, labels[0], other, labels[1], max(labels, key=len))


def _mul(c: Context, x: Any, other: Any) -> Any:
    if ROWS in (x, other):
        return _many_rows(c, x, other)
    if isinstance(x, RowTensor) and isinstance(other, RowTensor):
        for gate, value in ((x, other), (other, x)):
            if gate.sigmoid_of and gate.sigmoid_of == value.parts:
                return c.elementwise(value, "silu")
        if (x.parts, x.dims) == (other.parts, other.dims):
            return c.elementwise(x, "square")
        return times(c, x, other)
    if isinstance(other, RowTensor):
        x, other = other, x
    if not isinstance(x, RowTensor):
        return on_constants(np.multiply)(c, x, other)
    if isinstance(other, Constant) and other.key is not None and _widens(c, x, other):
        return times(c, x, other)
    return multiply(c, x, other)


def _many_rows(c: Context, x: Any, other: Any) -> Any:
    """Return the number of rows times a number, for the shape of a tensor."""
    count = other if x is ROWS else x
    if ROWS not in (x, other) or type(count) is not int or count < 1:
        raise c.error("computes with the number of rows")
    return ROWS if count == 1 else ManyRows(1, count)


def _widens(c: Context, x: RowTensor, other: Constant) -> bool:
    """Return whether a tensor gets new columns by its product with a constant, as in x[:, :, None] * weight."""
    c.require_axis(x, other.array.shape)
    shape = other.array.shape[::-1]
    own = x.dims[::-1]
    return len(shape) > len(own) or any(size not in (1, was) for size, was in zip(shape, own, strict=False))


def _div(c: Context, x: Any, other: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise c.error("rounds, which is not supported")
    if isinstance(other, RowTensor):
        return _mul(c, c.elementwise(other, "reciprocal"), x)
    return divide(c, x, other)


def _addcmul(c: Context, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """Return x + value · tensor1 · tensor2."""
    product = _mul(c, tensor1, tensor2)
    return add(c, x, product if value == 1 else _mul(c, product, value))


def _addmm(c: Context, bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if (beta, alpha) != (1, 1):
        raise c.error("is not an affine layer")
    if isinstance(matrix, Constant) and isinstance(bias, Constant) and matrix.array.ndim == 2 and bias.array.ndim == 1:
        return linear(c, x, matrix.moved(np.transpose), bias)
    return add(c, matmul(c, x, matrix), bias)


def _einsum(c: Context, equation: Any, *operands: Any, path: Any = None) -> Any:
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    if not isinstance(equation, str) or len(given) > 2:
        raise c.error("has more than two factors; write it as several")
    inputs, _, out = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if "->" not in equation or len(parts) != len(given):
        raise c.error("does not say what its result is (->)")
    rank = max(
        (len(_dims(c, x)) - len(part.replace("...", "")) for x, part in zip(given, parts, strict=True)), default=0
    )
    labels = [
        _labels(part, len(_dims(c, x)) - len(part.replace("...", ""))) for x, part in zip(given, parts, strict=True)
    ]
    wanted = _labels(out, rank)
    if len(given) == 1:
        x, own = _summed(c, c.numbers(given[0]), labels[0], set(wanted))
        return _arranged(c, x, own, wanted)
    if not any(isinstance(x, RowTensor) for x in given):
        return Constant(np.einsum(equation, *(x.array for x in given)))
    return _broadcast_contract(c, given[0], labels[0], given[1], labels[1], wanted)


def _labels(part: str, rank: int) -> list[Hashable]:
    """Return the labels of an operand; those of the ellipsis are numbers, counted from its end."""
    before, dots, after = part.partition("...")
    return [*before, *(range(-rank, 0) if dots else ()), *after]


def _bilinear(c: Context, x1: Any, x2: Any, weight: Any, bias: Any = None) -> Any:
    axes: list[Hashable] = list(range(len(c.numbers(x1).dims) - 1))
    outer = contract(c, x1, [*axes, "i"], x2, [*axes, "j"], [*axes, "i", "j"])
    return contract(c, outer, [*axes, "i", "j"], weight, ["o", "i", "j"], [*axes, "o"], bias)


def _attention(
    c: Context,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    scale: Any = None,
    enable_gqa: Any = False,
) -> Any:
    """Return scaled_dot_product_attention: softmax(q kᵀ · scale + mask) v."""
    if dropout_p:
        raise c.error("stays random (dropout_p)")
    if enable_gqa:
        raise c.error("groups its heads (enable_gqa), which is not supported")
    if is_causal:
        if attn_mask is not None:
            raise c.error("is causal and has a mask")
        sizes = [c.numbers(each).dims[-2] for each in (query, key)]
        if not all(type(size) is int for size in sizes):
            raise c.error("is causal over the rows")
        attn_mask = Constant(np.tril(np.ones(sizes, np.bool_)))
    return _attend(c, query, key, value, attn_mask, scale)[0]


def _attend(c: Context, query: Any, key: Any, value: Any, mask: Any, scale: Any = None) -> tuple[Any, Any]:
    """Return what attention gives, and its weights."""
    factor = 1 / math.sqrt(c.numbers(query).dims[-1]) if scale is None else c.number(scale, "a scale")
    rank = len(c.numbers(key).dims)
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = _arranged(c, c.numbers(key), list(range(rank)), order)
    scores = multiply(c, matmul(c, query, turned), factor)
    if mask is not None:
        scores = _masked(c, scores, mask)
    weights = softmax(c, scores, -1)
    return matmul(c, weights, value), weights


def _masked(c: Context, scores: Any, mask: Any) -> Any:
    """Add a constant mask to the scores: numbers, -infinity for what is left out, or booleans, true for what is not."""
    if not isinstance(mask, Constant):
        raise c.error("has a mask that depends on the input")
    if mask.array.dtype == np.bool_:
        c.keeps(mask)
        return masked(c, c.numbers(scores), ~mask.array)
    if mask.array.dtype.kind != "f" or np.isnan(mask.array).any() or np.isposinf(mask.array).any():
        raise c.error("has a mask with numbers that are neither finite nor -infinity")
    return add(c, scores, mask)


def _multi_head(
    c: Context,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any = None,
    need_weights: Any = True,
    attn_mask: Any = None,
    average_attn_weights: Any = True,
    is_causal: Any = False,
    *,
    heads: int,
    batch_first: bool,
    in_weight: Any,
    in_bias: Any,
    out_weight: Any,
    out_bias: Any,
) -> tuple[Any, Any]:
    """Return nn.MultiheadAttention in eval mode, and the weights that it averages over heads."""
    if key_padding_mask is not None or is_causal:
        raise c.error("has a padding mask or is causal, which is not supported")
    given = [c.numbers(each) for each in (query, key, value)]
    size = out_weight.array.shape[0]
    projected: dict[int, Any] = {}
    turned = []
    for number, x in enumerate(given):
        if len(x.dims) != 3 or x.row_axis != (0 if batch_first else 1):
            wanted = "(rows, tokens, width)" if batch_first else "(tokens, rows, width), as batch_first is False"
            raise c.error(f"reads a tensor of shape {x.shape()}; it must be {wanted}")
        if id(x) not in projected:
            projected[id(x)] = linear(c, x, in_weight, in_bias)
        whole = projected[id(x)]
        numbers = column_numbers(whole.dims)[:, :, number * size : (number + 1) * size]
        own = c.select(whole, numbers, (*whole.dims[:2], size))
        own = own if batch_first else _arranged(c, own, [0, 1, 2], [1, 0, 2])
        split = c.view(own, (ROWS, own.dims[1], heads, size // heads))
        turned.append(_arranged(c, split, [0, 1, 2, 3], [0, 2, 1, 3]))
    heads_query, heads_key, heads_value = turned
    if isinstance(attn_mask, Constant) and attn_mask.array.dtype == np.bool_:  # here, true is what is left out
        c.keeps(attn_mask)
        attn_mask = Constant(~attn_mask.array)
    result, weights = _attend(c, heads_query, heads_key, heads_value, attn_mask)
    joined = _arranged(c, result, [0, 1, 2, 3], [0, 2, 1, 3])
    flat = c.view(joined, (ROWS, joined.dims[1], size))
    flat = flat if batch_first else _arranged(c, flat, [0, 1, 2], [1, 0, 2])
    shown = None
    if need_weights:
        shown = multiply(c, sum_over(c, weights, 1), 1 / heads) if average_attn_weights else weights
    return linear(c, flat, out_weight, out_bias), shown


def _glu(c: Context, x: Any, dim: int = -1) -> Any:
    tensor = c.numbers(x)
    axis = tensor.axis(dim)
    if tensor.dims[axis] is ROWS or tensor.dims[axis] % 2:
        raise c.error(f"halves axis {dim} of a tensor of shape {tensor.shape()}")
    half = tensor.dims[axis] // 2
    dims = (*tensor.dims[:axis], half, *tensor.dims[axis + 1 :])
    parts = [c.select(tensor, each, dims) for each in np.split(column_numbers(tensor.dims), 2, axis)]
    return times(c, parts[0], c.elementwise(parts[1], "sigmoid"))


def _largest(smallest: bool) -> Operator:
    """Return the larger, or smaller, of two tensors, b + relu(a − b), a − relu(a − b), or of those along an axis."""

    def operator(c: Context, a: Any, b: Any = None, keepdim: Any = False) -> Any:
        if type(b) is int and isinstance(a, RowTensor):
            return _along(c, a, [b], keepdim, smallest), None
        if not all(isinstance(x, RowTensor | Constant) for x in (a, b)):
            raise c.error("is supported for two tensors, not over an axis")
        if not isinstance(a, RowTensor):
            a, b = b, a
        return _of_two(c, a, b, smallest)

    return operator


def _of_two(c: Context, a: Any, b: Any, smallest: bool) -> Any:
    more = c.elementwise(add(c, a, _negative(c, b)), "relu")
    return add(c, a, multiply(c, more, -1.0)) if smallest else add(c, b, more)


def _along(c: Context, x: RowTensor, axes: Any, keepdim: Any, smallest: bool) -> Any:
    """Return the largest, or smallest, numbers along an axis, one after the other."""
    tensor, named = c.numbers(x), axes if isinstance(axes, list | tuple) else [axes]
    if len(named) != 1 or type(named[0]) is not int:
        raise c.error("is not over one axis")
    axis = moved_axis(c, tensor, named[0], "is the largest")
    if tensor.dims[axis] > _MOST_COMPARED:
        raise c.error(f"compares {tensor.dims[axis]} numbers; at most {_MOST_COMPARED} are read")
    dims = (*tensor.dims[:axis], *((1,) if keepdim else ()), *tensor.dims[axis + 1 :])
    numbers = column_numbers(tensor.dims)
    found, *others = (c.select(tensor, np.take(numbers, k, axis), dims) for k in range(tensor.dims[axis]))
    for other in others:
        found = _of_two(c, found, other, smallest)
    return found


def _largest_along(smallest: bool) -> Operator:
    def operator(c: Context, x: Any, dim: Any = None, keepdim: Any = False) -> Any:
        return _along(c, x, dim, keepdim, smallest)

    return operator


def _negative(c: Context, x: Any) -> Any:
    return Constant(-x.array) if isinstance(x, Constant) else multiply(c, x, -1.0)


def _baddbmm(c: Context, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if (beta, alpha) != (1, 1):
        raise c.error("has a beta or alpha other than 1")
    return add(c, matmul(c, a, b), x)


PRODUCTS: dict[str, Operator] = {
    "linear": linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), matmul),
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "addcmul": _addcmul,
    **dict.fromkeys(("mul", "multiply"), _mul),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), either(_div, np.divide)),
    "_operator.mul": _many_rows,
    "einsum": _einsum,
    "bilinear": _bilinear,
    "scaled_dot_product_attention": _attention,
    "masked_fill": masked_fill,
    **dict.fromkeys(("bitwise_not", "logical_not", "invert"), on_constants(np.logical_not)),
    "multi_head_attention": _multi_head,
    "glu": _glu,
    **dict.fromkeys(("maximum", "max"), _largest(smallest=False)),
    **dict.fromkeys(("minimum", "min"), _largest(smallest=True)),
    "amax": _largest_along(smallest=False),
    "amin": _largest_along(smallest=True),
}
