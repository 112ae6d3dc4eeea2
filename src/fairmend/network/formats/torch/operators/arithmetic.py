"""Affine layers, sums, factors, batch normalisation and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairmend.network.formats.torch.operators.context import Context, Operator, RowTensor, column_numbers
from fairmend.network.formats.torch.operators.shapes import copied, moved_axis
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.steps import Number

_MOST_TERMS = 256  # of a sum over an axis


def _linear(c: Context, x: Any, weight: Any, bias: Any = None) -> RowTensor:
    tensor = c.numbers(x)
    key = c.key(weight, "weights")
    if len(tensor.dims) != 2 or tensor.row_axis != 0:
        raise c.error(f"reads a tensor of shape {tensor.shape()}; it must be (rows, n)")
    c.require_width(tensor, weight.array.shape[-1])
    offset = None if bias is None else c.key(bias, "biases")
    value = c.steps.affine(c.flat(tensor), c.where, key, offset, weight.transposed)
    return RowTensor((value,), (tensor.dims[0], value.width))


def _matmul(c: Context, x: Any, matrix: Any) -> Any:
    if isinstance(x, RowTensor) and isinstance(matrix, Constant) and matrix.array.ndim == 2:
        return _linear(c, x, Constant(matrix.array.T, matrix.key, not matrix.transposed))
    if isinstance(x, Constant):
        raise c.error("multiplies from the left, which mixes rows")
    raise c.error("multiplies activations with each other")


def _addmm(c: Context, bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> RowTensor:
    if (beta, alpha) != (1, 1) or not isinstance(matrix, Constant):
        raise c.error("is not an affine layer")
    return _linear(c, x, Constant(matrix.array.T, matrix.key, not matrix.transposed), bias)


def _reference(c: Context, x: RowTensor, other: Any) -> tuple[Number, bool]:
    """Return a constant beside a tensor as numbers for each column, and whether it is one number."""
    if isinstance(other, bool) or not isinstance(other, int | float | Constant):
        raise c.error(f"combines a tensor with {type(other).__name__}")
    if not isinstance(other, Constant):
        return float(other), True
    if other.number is not None and other.array.ndim <= len(x.dims):
        return other.reference, True
    if other.array.ndim > 2 or (other.array.ndim == 2 and len(other.array) != 1) or len(x.dims) != 2 or x.row_axis != 0:
        raise c.error(f"combines shapes {x.shape()} and {other.array.shape}, which PyTorch broadcasts over the rows")
    c.require_width(x, other.array.size)
    return other.reference, False


def _is_number(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _times(c: Context, factor: Any, other: Any) -> Any:
    """Return alpha times a tensor or number."""
    if factor == 1:
        return other
    return _mul(c, other, factor)


def _add(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(x, RowTensor) and isinstance(other, RowTensor):
        return _sum_of(c, (x, _times(c, alpha, other)))
    if not isinstance(x, RowTensor):
        x, other, alpha = other, x, 1 if alpha == 1 else c.number(None, "an alpha")
    other = _times(c, alpha, other)
    tensor = c.numbers(x)
    if _is_number(other, 0):
        return copied(c, tensor)
    shift, _ = _reference(c, tensor, other)
    return c.scaled(tensor, shift=shift)


def _sub(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(other, RowTensor):
        return _add(c, c.scaled(_times(c, alpha, other), gain=-1.0), x)
    mean, _ = _reference(c, c.numbers(x), _times(c, alpha, other))
    return c.scaled(x, mean=mean)


def _rsub(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    return _sub(c, other, x, alpha)


def _mul(c: Context, x: Any, other: Any) -> Any:
    if isinstance(x, RowTensor) and isinstance(other, RowTensor):
        for gate, value in ((x, other), (other, x)):
            if gate.sigmoid_of and gate.sigmoid_of == value.parts:
                return c.elementwise(value, "silu")
        raise c.error("multiplies activations with each other")
    if isinstance(x, RowTensor):
        if _is_number(other, 1):
            return copied(c, x)
        gain, _ = _reference(c, c.numbers(x), other)
        product = c.scaled(x, gain=gain)
        product.product_of = (x.parts, other)
        return product
    if isinstance(other, RowTensor):
        return _mul(c, other, x)
    return _on_constants(np.multiply)(c, x, other)


def _addcmul(c: Context, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """Return x + value · tensor1 · tensor2, of which at most one factor may depend on the input."""
    multiply, add = _either(_mul, np.multiply), _either(_add, np.add)
    return add(c, x, multiply(c, multiply(c, tensor1, value), tensor2))


def _div(c: Context, x: Any, other: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise c.error("rounds, which is not supported")
    if isinstance(other, RowTensor):
        raise c.error("divides by an activation")
    if _is_number(other, 1):
        return copied(c, x)
    divisor, _ = _reference(c, c.numbers(x), other)
    return c.scaled(x, divisor=divisor)


def _neg(c: Context, x: Any) -> Any:
    return c.scaled(x, gain=-1.0)


def _sum_of(c: Context, tensors: Sequence[RowTensor]) -> RowTensor:
    """Return the sum of tensors of one shape."""
    for tensor in tensors:
        c.numbers(tensor)
        if tensor.dims != tensors[0].dims:
            _fit(c, tensors[0], tensor)
    value = c.steps.add(c.where, [c.flat(tensor) for tensor in tensors])
    opens = next((tensor.opens for tensor in tensors if tensor.opens), {})
    if not all(tensor.opens for tensor in tensors):
        opens = {}
    return RowTensor((value,), tensors[0].dims, opens)


def _fit(c: Context, first: RowTensor, second: RowTensor) -> None:
    """Refuse a sum of two shapes; an input that is not known yet is made to fit."""
    if len(first.dims) == len(second.dims) == 2:
        if first.opens:
            c.require_width(first, second.width)
        if second.opens:
            c.require_width(second, first.width)
    raise c.error(f"adds tensors of shapes {first.shape()} and {second.shape()}; they must have one shape")


def _reduced(mean: bool) -> Operator:
    """Return the sum or the mean over axes other than that of the rows."""

    def operator(c: Context, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if isinstance(x, list | tuple):
            x = copied(c, x[0]) if len(x) == 1 else _sum_of(c, x)
        tensor = c.numbers(x)
        if dim is None or dtype is not None:
            raise c.error("adds up over all axes, which mixes rows; name the axis")
        for each in [dim] if isinstance(dim, int) else sorted(dim, reverse=True):
            axis = moved_axis(c, tensor, each, "adds up")
            tensor = _over_axis(c, tensor, axis, mean, keepdim)
        return tensor

    return operator


def _over_axis(c: Context, x: RowTensor, axis: int, mean: bool, keepdim: bool) -> RowTensor:
    size = x.dims[axis]
    if size > _MOST_TERMS:
        raise c.error(f"adds up {size} columns; write it as an affine layer")
    dims = (*x.dims[:axis], *((1,) if keepdim else ()), *x.dims[axis + 1 :])
    numbers = column_numbers(x.dims)
    terms = [c.select(x, np.take(numbers, number, axis), dims) for number in range(size)]
    total = terms[0] if size == 1 else _sum_of(c, terms)
    return c.scaled(total, divisor=float(size)) if mean and size > 1 else total


def _batch_norm(
    c: Context,
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: Any = False,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> RowTensor:
    tensor = c.matrix(x)
    if training or running_mean is None or running_var is None:
        raise c.error("keeps no running statistics, so a row's output depends on the other rows")
    parts = (running_mean, running_var, weight, bias)
    mean, variance, gain, shift = (None if part is None else c.key(part, "numbers") for part in parts)
    c.require_width(tensor, running_mean.array.size)
    assert mean is not None
    assert variance is not None
    value = c.steps.batch_norm(c.flat(tensor), c.where, mean, variance, gain, shift, c.number(eps, "an epsilon"))
    return RowTensor((value,), tensor.dims)


def _aten_batch_norm(
    c: Context,
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any = False,
) -> RowTensor:
    return _batch_norm(c, x, running_mean, running_var, weight, bias, training, momentum, eps)


def _native_batch_norm(
    c: Context, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: Any, eps: Any
) -> tuple[RowTensor]:
    return (_batch_norm(c, x, mean, variance, weight, bias, eps=eps),)


def _embedding(
    c: Context,
    x: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: Any = False,
    sparse: Any = False,
) -> RowTensor:
    if max_norm is not None:
        raise c.error("changes its table while it is read (max_norm)")
    table = c.key(weight, "tables")
    if weight.transposed or weight.array.ndim != 2:
        raise c.error(f"has a table of shape {weight.array.shape}")
    return _looked_up(c, x, table, weight.array.shape[1])


def _aten_embedding(c: Context, weight: Any, x: Any, padding_idx: Any = -1, *rest: Any) -> RowTensor:
    return _embedding(c, x, weight)


def _one_hot(c: Context, x: Any, num_classes: Any = -1) -> RowTensor:
    if not isinstance(num_classes, int) or num_classes < 1:
        raise c.error("does not say how many classes there are (num_classes)")
    return _looked_up(c, x, num_classes, num_classes)


def _looked_up(c: Context, x: Any, table: str | int, width: int) -> RowTensor:
    """Look up each number of a tensor; the rows of the table are the last axis."""
    tensor = c.tensor(x)
    if not tensor.integer and tensor.memory.owner:
        c.indices.add(tensor.memory.owner)
    columns = [c.steps.columns(c.flat(tensor), c.where, [column]) for column in range(tensor.width)]
    parts = tuple(c.steps.lookup(column, c.where, table) for column in columns)
    return RowTensor(parts, (*tensor.dims, width), {name: factor * width for name, factor in tensor.opens.items()})


def _on_constants(compute: Callable[..., Any]) -> Operator:
    """Return an operator that computes with numbers of the model alone."""

    def operator(c: Context, *args: Any, **kwargs: Any) -> Constant:
        if kwargs or not all(isinstance(arg, int | float | Constant) for arg in args):
            raise c.error("is not supported")
        arrays = [arg.array if isinstance(arg, Constant) else arg for arg in args]
        with np.errstate(all="ignore"):
            return Constant(np.asarray(compute(*arrays)))

    return operator


def _either(operator: Operator, compute: Callable[..., Any]) -> Operator:
    """Return an operator that also takes numbers of the model alone, as in x / (self.std + 1e-8)."""
    constants = _on_constants(compute)

    def either(c: Context, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(arg, RowTensor) for arg in (*args, *kwargs.values())):
            return constants(c, *args, **kwargs)
        return operator(c, *args, **kwargs)

    return either


ARITHMETIC: dict[str, Operator] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm"), _matmul),
    "addmm": _addmm,
    "addcmul": _addcmul,
    "add": _either(_add, np.add),
    **dict.fromkeys(("sub", "subtract"), _either(_sub, np.subtract)),
    "rsub": _either(_rsub, lambda x, y: y - x),
    **dict.fromkeys(("mul", "multiply"), _either(_mul, np.multiply)),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), _either(_div, np.divide)),
    **dict.fromkeys(("neg", "negative"), _either(_neg, np.negative)),
    "sqrt": _on_constants(np.sqrt),
    "rsqrt": _on_constants(lambda x: 1 / np.sqrt(x)),
    "reciprocal": _on_constants(np.reciprocal),
    "exp": _on_constants(np.exp),
    "abs": _on_constants(np.abs),
    "sum": _reduced(mean=False),
    "mean": _reduced(mean=True),
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _native_batch_norm,
    "aten.batch_norm": _aten_batch_norm,
    "embedding": _embedding,
    "aten.embedding": _aten_embedding,
    "one_hot": _one_hot,
}
