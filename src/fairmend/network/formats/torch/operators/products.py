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

from fairmend.network.formats.axes import ROWS, Count, last_factor, lengths, matrix_names
from fairmend.network.formats.torch.operators.arithmetic import add, divide, masked, masked_fill, multiply
from fairmend.network.formats.torch.operators.context import Context, Operator, RowTensor, either, on_constants
from fairmend.network.formats.torch.operators.functions import softmax
from fairmend.network.formats.torch.program import Constant

Labels = Sequence[Hashable]


def contract(c: Context, a: Any, a_names: Labels, b: Any, b_names: Labels, out: Labels, bias: Any = None) -> Any:
    """Return the products of two factors, at least one of them a tensor, added up over the axes not in ``out``.

    Axes have names, and those of size 1 are stretched.
    """
    if isinstance(a, Constant):
        a, a_names, b, b_names = b, b_names, a, a_names
    first, a_names = _summed(c, c.numbers(a), a_names, {*b_names, *out})
    if isinstance(b, RowTensor):
        second, b_names = _summed(c, c.numbers(b), b_names, {*a_names, *out})
        return c.contract(first, a_names, second, b_names, out)
    if len(set(a_names)) < len(a_names) or len(set(b_names)) < len(b_names):
        raise c.refuse("takes a diagonal")
    some = c.part_of(b)
    if some is not None and b.array.ndim < some[0].array.ndim and bias is None:  # a matrix of several
        turned = b_names[::-1] if some[2] else b_names
        every = contract(c, first, a_names, some[0], ["several", *turned], ["several", *out])
        return c.chosen(every, lambda array: array[some[1]])
    sizes = {**dict(zip(b_names, b.array.shape, strict=True)), **dict(zip(a_names, first.dims, strict=True))}
    sizes |= {name: size for name, size in zip(b_names, b.array.shape, strict=True) if sizes[name] == 1}
    keep = [axis for axis, size in enumerate(b.array.shape) if size != 1]
    wide = [axis for axis, name in enumerate(a_names) if first.dims[axis] != 1]
    thin = c.view(first, tuple(first.dims[axis] for axis in wide))
    weight = b.moved(lambda array: array.reshape([b.array.shape[axis] for axis in keep]))
    names = [a_names[axis] for axis in wide], [b_names[axis] for axis in keep]
    lead = next((place for place, name in enumerate(names[1]) if name in names[0]), 0)
    if lead and any(name not in names[0] for name in names[1][lead:]):  # (members, in, out): a matrix for each member
        members = weight.array.shape[:lead]
        thin = c.stretched(c.view(thin, ((1,) * lead + thin.dims)), (*members, *thin.dims))
        names = [*names[1][:lead], *names[0]], names[1]
    found = c.layer(thin, names[0], weight, names[1], [name for name in out if name in {*names[0], *names[1]}], bias)
    return c.view(found, tuple(sizes[name] for name in out))


def _summed(c: Context, x: RowTensor, names: Labels, needed: set[Hashable]) -> tuple[RowTensor, Labels]:
    """Return a tensor without the axes that nothing else has: they are added up."""
    for axis in reversed(range(len(names))):
        if names[axis] not in needed:
            x = c.total(x, [c.over(x, axis, "adds up")])
    return x, [name for name in names if name in needed]


def linear(c: Context, x: Any, weight: Any, bias: Any = None) -> RowTensor:
    """Return W x + b over the last axis."""
    tensor = c.numbers(x)
    c.key(weight, "weights")
    some = c.part_of(weight)
    if some is not None and weight.array.ndim == some[0].array.ndim:  # outputs of a layer, as of that of attention
        own = None if bias is None else c.part_of(bias)
        if bias is None or (own is not None and own[1] == some[1]):
            return c.chosen(linear(c, x, some[0], own and own[0]), lambda array: array[..., some[1]])
    inputs = weight.array.shape[-1]
    if not isinstance(tensor.dims[-1], int):
        raise c.refuse(f"reads a tensor of shape {tensor.shape()}; its last axis must not be that of the rows")
    if len(tensor.dims) == 2 and tensor.dims[0] == ROWS:
        c.require_width(tensor, inputs)
    elif tensor.dims[-1] != inputs:
        c.require_axis(tensor, (inputs,))
        raise c.refuse(f"takes {inputs} values, but the layer before it gives {tensor.shape()}")
    axes: list[Hashable] = list(range(len(tensor.dims) - 1))
    weights = weight if weight.array.ndim == 2 else weight.moved(lambda array: array.reshape(-1, inputs))
    result = c.layer(tensor, [*axes, "in"], weights, ["out", "in"], [*axes, "out"], bias)
    return c.view(result, tensor.dims[:-1]) if weight.array.ndim == 1 else result


def matmul(c: Context, a: Any, b: Any) -> Any:
    """Return the matrix product over the last two axes; the others are groups, repeated where they are 1."""
    sizes = [_sizes(c, each) for each in (a, b)]
    if any(len(each) == 0 for each in sizes):
        raise c.refuse("multiplies single numbers as matrices")
    if isinstance(b, Constant) and isinstance(a, RowTensor) and len(a.dims) == 2 and a.dims[0] == ROWS:
        c.require_width(a, sizes[1][-2:][0])
    first, second, out = matrix_names(*sizes)
    return contract(c, a, first, b, second, out)


def _sizes(c: Context, x: Any) -> Any:
    return x.array.shape if isinstance(x, Constant) else c.numbers(x).dims


def times(c: Context, x: Any, other: Any) -> Any:
    """Return the product number by number; axes of size 1 are repeated."""
    names: list[list[Hashable]] = [list(range(-len(_sizes(c, each)), 0)) for each in (x, other)]
    return contract(c, x, names[0], other, names[1], max(names, key=len))


def _mul(c: Context, x: Any, other: Any) -> Any:
    if isinstance(x, Count) or isinstance(other, Count):
        return _many_rows(c, x, other)
    if isinstance(x, RowTensor) and isinstance(other, RowTensor):
        for gate, value in ((x, other), (other, x)):
            if gate.sigmoid_of and (gate.sigmoid_of, gate.dims) == (value.parts, value.dims):
                return c.function(value, "silu")
        if (x.parts, x.dims) == (other.parts, other.dims):
            return c.function(x, "square")
        return times(c, x, other)
    if isinstance(other, RowTensor):
        x, other = other, x
    if not isinstance(x, RowTensor):
        return on_constants(np.multiply)(c, x, other)
    if isinstance(other, Constant) and other.key is not None and _is_layer(c, x, other):
        return times(c, x, other)
    return multiply(c, x, other)


def _many_rows(c: Context, x: Any, other: Any) -> Any:
    """Return the number of rows times a number, for the shape of a tensor."""
    try:
        return x * other if isinstance(x, Count) != isinstance(other, Count) else Count() * "rows"
    except TypeError as error:
        raise c.refuse("computes with the number of rows") from error


def _is_layer(c: Context, x: RowTensor, other: Constant) -> bool:
    """Return whether the product with a constant is a layer, as x[:, :, None] * weight: it gives new columns.

    Those must be behind the columns of the tensor in the constant: x[:, None, :] * weight is x repeated, and scaled.
    """
    c.require_axis(x, other.array.shape)
    shape, missing = other.array.shape, other.array.ndim - len(x.dims)
    own = [*[1] * missing, *x.dims[max(0, -missing) :]]
    new = [axis for axis, (size, was) in enumerate(zip(shape, own, strict=True)) if size not in (1, was)]
    order = [axis for axis in range(len(shape)) if axis not in new] + new
    return (missing > 0 or bool(new)) and other.moved(lambda array: array.transpose(order)).in_order


def _div(c: Context, x: Any, other: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise c.refuse("rounds, which is not supported")
    if isinstance(other, RowTensor):
        return _mul(c, c.function(other, "reciprocal"), x)
    return divide(c, x, other)


def _squares(c: Context, x: RowTensor, dim: Any, keepdim: Any, *, mean: bool = False) -> RowTensor:
    """Return the sum or the mean of the squares along axes."""
    axes, found = _axes(c, x, dim), c.function(x, "square")
    for axis in axes:
        found = c.total(found, [axis], mean=mean, keep=bool(keepdim))
    return found


def _norm(
    c: Context, x: Any, p: Any = 2, dim: Any = None, keepdim: Any = False, dtype: Any = None, out: Any = None
) -> RowTensor:
    """Return the lengths of vectors along axes, the roots of the sums of their squares."""
    if p not in (1, 2, None, "fro") or dtype is not None or out is not None:
        raise c.refuse("is a norm other than a sum of absolute values, or the square root of a sum of squares")
    if p != 1:
        return c.function(_squares(c, c.numbers(x), dim, keepdim), "sqrt")
    return c.summed(c.numbers(x), "L1", _axes(c, c.numbers(x), dim), bool(keepdim))


def _axes(c: Context, x: RowTensor, dim: Any, what: str = "adds up") -> list[int]:
    """Return axes of a tensor, from the last one on."""
    if not isinstance(dim, int | list | tuple):
        raise c.refuse("is over all axes, which mixes rows; name the axis")
    return sorted({c.over(x, each, what) for each in ([dim] if isinstance(dim, int) else dim)}, reverse=True)


def _prod(c: Context, x: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> RowTensor:
    tensor = c.numbers(x)
    if dtype is not None:
        raise c.refuse("has a dtype of its own")
    return c.multiplied(tensor, _axes(c, tensor, dim, "multiplies"), keep=bool(keepdim))


def _logsumexp(c: Context, x: Any, dim: Any, keepdim: Any = False) -> RowTensor:
    tensor = c.numbers(x)
    return c.summed(tensor, "LogSumExp", _axes(c, tensor, dim), bool(keepdim))


def _normalize(c: Context, x: Any, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Any:
    """Return vectors along an axis over their lengths, or over a number that is larger."""
    least = Constant(np.asarray(c.number(eps, "an eps"), c.steps.dtype))
    return _div(c, x, _of_two(c, _norm(c, x, p, dim, keepdim=True), least, smallest=False))


def _variance(root: bool) -> Operator:
    """Return the variance along one axis, or its square root."""

    def operator(
        c: Context, x: Any, dim: Any = None, unbiased: Any = True, keepdim: Any = False, *, correction: Any = None
    ) -> RowTensor:
        tensor, axes = c.numbers(x), dim if isinstance(dim, list | tuple) else [dim]
        if len(axes) != 1 or type(axes[0]) is not int:
            raise c.refuse("is not over one axis")
        axis = c.over(tensor, axes[0], "averages")
        less = int(bool(unbiased)) if correction is None else c.number(correction, "a correction")
        count = lengths(tensor.dims)[axis]
        if not 0 <= less < count:
            raise c.refuse(f"divides by {count} - {less:g}")
        middle = c.total(tensor, [axis], mean=True, keep=True)
        apart = c.add([tensor, c.scaled(middle, gain=-1.0)])
        found = c.scaled(_squares(c, apart, axis, keepdim), divisor=float(count - less))
        return c.function(found, "sqrt") if root else found

    return operator


def _addcmul(c: Context, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """Return x + value · tensor1 · tensor2."""
    product = _mul(c, tensor1, tensor2)
    return add(c, x, product if value == 1 else _mul(c, product, value))


def _addcdiv(c: Context, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """Return x + value · tensor1 / tensor2."""
    quotient = _div(c, tensor1, tensor2)
    return add(c, x, quotient if value == 1 else _mul(c, quotient, value))


def _lerp(c: Context, start: Any, end: Any, weight: Any) -> Any:
    """Return start + weight · (end - start)."""
    return add(c, start, _mul(c, add(c, end, start, -1), weight))


def _addmm(c: Context, bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if (beta, alpha) != (1, 1):
        raise c.refuse("is not an affine layer")
    if isinstance(matrix, Constant) and isinstance(bias, Constant) and matrix.array.ndim == 2 and bias.array.ndim == 1:
        return linear(c, x, matrix.moved(np.transpose), bias)
    return add(c, matmul(c, x, matrix), bias)


def _einsum(c: Context, equation: Any, *operands: Any, path: Any = None) -> Any:
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    if not isinstance(equation, str) or len(given) > 3:
        raise c.refuse("has more than three factors; write it as several")
    inputs, _, out = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if "->" not in equation or len(parts) != len(given):
        raise c.refuse("does not say what its result is (->)")
    ranks = [len(_sizes(c, x)) - len(part.replace("...", "")) for x, part in zip(given, parts, strict=True)]
    labels = [_labels(part, rank) for part, rank in zip(parts, ranks, strict=True)]
    wanted = _labels(out, max(ranks, default=0))
    if any(len(set(each)) < len(each) for each in (*labels, wanted)):
        raise c.refuse("takes a diagonal")
    if len(given) == 1:
        x, own = _summed(c, c.numbers(given[0]), labels[0], set(wanted))
        return c.transposed(x, [own.index(name) for name in wanted])
    if not any(isinstance(x, RowTensor) for x in given):
        if {name for each in labels for name in each} - set(wanted):  # programs add up in orders of their own
            raise c.refuse("adds up numbers of the model alone")
        return Constant(np.einsum(equation, *(x.array for x in given)), rounded=any(x.rounded for x in given))
    if len(given) == 3:
        try:
            last = last_factor(labels, wanted)
        except ValueError as error:
            raise c.refuse(str(error)) from error
        a, b = (place for place in range(3) if place != last)
        both = list(dict.fromkeys([*labels[a], *labels[b]]))
        pair = contract(c, given[a], labels[a], given[b], labels[b], both)
        given, labels = [pair, given[last]], [both, labels[last]]
    return contract(c, given[0], labels[0], given[1], labels[1], wanted)


def _tensordot(c: Context, a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Return the products of two tensors, added up over pairs of axes."""
    ranks = [len(_sizes(c, each)) for each in (a, b)]
    pairs = [list(range(ranks[0] - dims, ranks[0])), list(range(dims))] if isinstance(dims, int) else dims
    first: list[Hashable] = [("a", axis) for axis in range(ranks[0])]
    second: list[Hashable] = [("b", axis) for axis in range(ranks[1])]
    for one, other in zip(*pairs, strict=True):
        second[other] = first[one]
    left = [name for name in (*first, *second) if (name in first) != (name in second)]
    return contract(c, a, first, b, second, left)


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
        raise c.refuse("stays random (dropout_p)")
    if enable_gqa:
        raise c.refuse("groups its heads (enable_gqa), which is not supported")
    if is_causal:
        if attn_mask is not None:
            raise c.refuse("is causal and has a mask")
        sizes = [c.numbers(each).dims[-2] for each in (query, key)]
        if not all(isinstance(size, int) for size in sizes):
            raise c.refuse("is causal over the rows")
        attn_mask = Constant(np.tril(np.ones(lengths(tuple(sizes)), np.bool_)))
    return _attend(c, query, key, value, attn_mask, scale)[0]


def _attend(c: Context, query: Any, key: Any, value: Any, mask: Any, scale: Any = None) -> tuple[Any, Any]:
    """Return what attention gives, and its weights."""
    factor = 1 / math.sqrt(lengths(c.numbers(query).dims)[-1]) if scale is None else c.number(scale, "a scale")
    rank = len(c.numbers(key).dims)
    turned = c.transposed(key, [*range(rank - 2), rank - 1, rank - 2])
    scores = multiply(c, matmul(c, query, turned), factor)
    if mask is not None:
        scores = _masked(c, scores, mask)
    weights = softmax(c, scores, -1)
    return matmul(c, weights, value), weights


def _masked(c: Context, scores: Any, mask: Any) -> Any:
    """Add a constant mask to the scores: numbers, -infinity for what is left out, or booleans, true for what is not."""
    if not isinstance(mask, Constant):
        raise c.refuse("has a mask that depends on the input")
    if mask.array.dtype == np.bool_:
        c.keeps(mask)
        return masked(c, c.numbers(scores), ~mask.array)
    if mask.array.dtype.kind != "f" or np.isnan(mask.array).any() or np.isposinf(mask.array).any():
        raise c.refuse("has a mask with numbers that are neither finite nor -infinity")
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
    if key_padding_mask is not None:
        raise c.refuse("has a padding mask, which is not supported")
    if is_causal and not (isinstance(attn_mask, Constant) and _is_causal(attn_mask.array)):
        raise c.refuse("is causal without a constant mask that says so (attn_mask)")
    given = [c.numbers(each) for each in (query, key, value)]
    size = out_weight.array.shape[0]
    projected: dict[int, Any] = {}
    turned = []
    for number, x in enumerate(given):
        if len(x.dims) != 3 or x.dims[0 if batch_first else 1] != ROWS:
            wanted = "(rows, tokens, width)" if batch_first else "(tokens, rows, width), as batch_first is False"
            raise c.refuse(f"reads a tensor of shape {x.shape()}; it must be {wanted}")
        if id(x) not in projected:
            projected[id(x)] = linear(c, x, in_weight, in_bias)
        part = slice(number * size, (number + 1) * size)
        own = c.chosen(projected[id(x)], lambda array, part=part: array[..., part])  # type: ignore[misc]
        own = own if batch_first else c.transposed(own, [1, 0, 2])
        split = c.view(own, (ROWS, own.dims[1], heads, size // heads))
        turned.append(c.transposed(split, [0, 2, 1, 3]))
    heads_query, heads_key, heads_value = turned
    if isinstance(attn_mask, Constant) and attn_mask.array.dtype == np.bool_:  # here, true is what is left out
        c.keeps(attn_mask)
        attn_mask = Constant(~attn_mask.array)
    result, weights = _attend(c, heads_query, heads_key, heads_value, attn_mask)
    joined = c.transposed(result, [0, 2, 1, 3])
    flat = c.view(joined, (ROWS, joined.dims[1], size))
    flat = flat if batch_first else c.transposed(flat, [1, 0, 2])
    shown = None
    if need_weights:
        shown = multiply(c, c.total(weights, [1]), 1 / heads) if average_attn_weights else weights
    return linear(c, flat, out_weight, out_bias), shown


def _is_causal(mask: Any) -> bool:
    """Return whether a mask of nn.MultiheadAttention leaves out the tokens after each, and nothing else."""
    hidden = mask if mask.dtype == np.bool_ else np.isneginf(mask)
    plain = mask.dtype == np.bool_ or not mask[~hidden].any()
    return bool(plain and np.array_equal(hidden, np.triu(np.ones(mask.shape, np.bool_), 1)))


def _glu(c: Context, x: Any, dim: int = -1) -> Any:
    tensor = c.numbers(x)
    axis = tensor.axis(dim)
    if axis == tensor.row_axis or lengths(tensor.dims)[axis] % 2:
        raise c.refuse(f"halves axis {dim} of a tensor of shape {tensor.shape()}")
    value, gate = (c.chosen(tensor, lambda array, k=k: np.split(array, 2, axis)[k]) for k in (0, 1))  # type: ignore[misc]
    return times(c, value, c.function(gate, "sigmoid"))


def _largest(smallest: bool) -> Operator:
    """Return the larger, or smaller, of two tensors, b + relu(a − b), a − relu(a − b), or of those along an axis."""

    def operator(c: Context, a: Any, b: Any = None, keepdim: Any = False) -> Any:
        if type(b) is int and isinstance(a, RowTensor):
            return _along(c, a, [b], keepdim, smallest), None
        if not all(isinstance(x, RowTensor | Constant) for x in (a, b)):
            raise c.refuse("is supported for two tensors, not over an axis")
        if not isinstance(a, RowTensor):
            a, b = b, a
        return _of_two(c, a, b, smallest)

    return operator


def _of_two(c: Context, a: RowTensor, b: Any, smallest: bool) -> Any:
    """Return the larger of a tensor and another or a constant, b + relu(a - b), or the smaller, a - relu(a - b)."""
    if isinstance(b, RowTensor):
        return c.larger(a, b, smallest=smallest)
    more = c.function(add(c, a, Constant(-b.array)), "relu")
    return add(c, a, multiply(c, more, -1.0)) if smallest else add(c, b, more)


def _along(c: Context, x: RowTensor, axes: Any, keepdim: Any, smallest: bool) -> Any:
    """Return the largest, or smallest, numbers along an axis."""
    tensor = c.numbers(x)
    return c.largest(tensor, _axes(c, tensor, axes, "is the largest"), smallest=smallest, keep=bool(keepdim))


def _largest_along(smallest: bool) -> Operator:
    def operator(c: Context, x: Any, dim: Any = None, keepdim: Any = False) -> Any:
        return _along(c, x, dim, keepdim, smallest)

    return operator


def _baddbmm(c: Context, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if (beta, alpha) != (1, 1):
        raise c.refuse("has a beta or alpha other than 1")
    return add(c, matmul(c, a, b), x)


PRODUCTS: dict[str, Operator] = {
    "linear": linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), matmul),
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "norm": _norm,
    "linalg_vector_norm": lambda c, x, ord=2, *rest, **more: _norm(c, x, ord, *rest, **more),  # noqa: A006 (its name)
    "logsumexp": _logsumexp,
    "prod": _prod,
    "lerp": _lerp,
    "addcdiv": _addcdiv,
    "normalize": _normalize,
    "var": _variance(root=False),
    "std": _variance(root=True),
    "addcmul": _addcmul,
    **dict.fromkeys(("mul", "multiply"), _mul),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), either(_div, np.divide)),
    "_operator.mul": _many_rows,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "aten.tensordot": lambda c, a, b, dims_self, dims_other: _tensordot(c, a, b, (dims_self, dims_other)),
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
