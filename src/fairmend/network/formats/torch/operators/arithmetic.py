"""Sums, factors, normalisation and embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network import Normalise
from fairmend.network.formats.axes import ROWS, Dims, Rows, broadcast, lengths
from fairmend.network.formats.tensors import hides
from fairmend.network.formats.torch.operators.context import (
    Context,
    Operator,
    RowTensor,
    Starts,
    either,
    on_constants,
    subtract_from,
)
from fairmend.network.formats.torch.operators.shapes import copied
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.steps import Number


def _beside(c: Context, x: RowTensor, other: Any) -> tuple[RowTensor, Number]:
    """Return a tensor and the numbers of a constant beside it, for each column; axes of size 1 are repeated."""
    if isinstance(other, bool) or not isinstance(other, int | float | Constant):
        raise c.refuse(f"combines a tensor with {type(other).__name__}")
    if not isinstance(other, Constant):
        return x, float(other)
    if other.number is not None and other.array.ndim <= len(x.dims):
        return x, c.reference(other)
    shape = other.array.shape
    if len(x.dims) == 2 and x.dims[0] == ROWS and other.array.ndim == 1:
        c.require_width(x, other.array.size)
        return x, c.reference(other)
    c.require_axis(x, shape)
    dims = _common(c, x, shape)
    wide = other.moved(lambda array: np.broadcast_to(array, lengths(dims)))
    return c.stretched(x, dims), c.reference(wide)


def _common(c: Context, x: RowTensor, shape: tuple[int, ...]) -> Dims:
    """Return the axes that a tensor gets together with a constant of this shape."""
    try:
        return broadcast(x.dims, shape)
    except ValueError as error:
        raise c.refuse(str(error)) from error


def _is_number(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _times(c: Context, factor: Any, other: Any) -> Any:
    """Return alpha times a tensor or number."""
    if factor == 1:
        return other
    return multiply(c, other, factor)


def _add(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(x, RowTensor) and isinstance(other, RowTensor):
        return c.add([c.numbers(x), c.numbers(_times(c, alpha, other))])
    if not isinstance(x, RowTensor):
        x, other, alpha = other, x, 1 if alpha == 1 else c.number(None, "an alpha")
    other = _times(c, alpha, other)
    tensor = c.numbers(x)
    if _is_number(other, 0):
        return copied(c, tensor)
    floats = isinstance(other, Constant) and other.array.dtype.kind == "f"
    if floats and (hidden := hides(other.array, c.steps.dtype)).any():
        c.keeps(other)
        finite = np.where(hidden, 0.0, other.array).astype(other.array.dtype)
        kept = _add(c, tensor, Constant(finite)) if finite.any() else tensor
        return masked(c, kept, hidden)
    wide, shift = _beside(c, tensor, other)
    return c.scaled(wide, shift=shift)


def masked(c: Context, x: RowTensor, mask: npt.NDArray[np.bool_]) -> RowTensor:
    """Return a tensor with -infinity where a constant mask says so, which a softmax leaves out."""
    c.require_axis(x, mask.shape)
    _require_mask(c, x, mask)
    return c.masked(x, mask)


def _require_mask(c: Context, x: RowTensor, mask: npt.NDArray[np.bool_]) -> None:
    if _common(c, x, mask.shape) != x.dims:
        raise c.refuse(f"has a mask of shape {mask.shape} for a tensor of shape {x.shape()}")


def masked_fill(c: Context, x: Any, mask: Any, value: Any) -> RowTensor:
    """Return a tensor with a number at the places of a constant mask; -infinity is for a softmax to leave out."""
    tensor = c.numbers(x)
    if not isinstance(mask, Constant) or mask.array.dtype != np.bool_:
        raise c.refuse("has a mask that depends on the input, or is not one of booleans")
    c.keeps(mask)
    if isinstance(value, Constant) and value.array.size == 1:
        c.keeps(value)
        value = float(value.array.reshape(()))
    if isinstance(value, float) and hides(np.array(value), c.steps.dtype):
        return masked(c, tensor, mask.array)
    number = c.number(value, "a number to fill in")
    _require_mask(c, tensor, mask.array)
    return c.filled(tensor, mask.array, number)


def add(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    """Return the sum of tensors and numbers."""
    return either(_add, np.add)(c, x, other, **({} if alpha == 1 else {"alpha": alpha}))


def _sub(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(other, RowTensor):
        return _add(c, c.scaled(_times(c, alpha, other), gain=-1.0), x)
    wide, mean = _beside(c, c.numbers(x), _times(c, alpha, other))
    return c.scaled(wide, mean=mean)


def multiply(c: Context, x: Any, other: Any) -> Any:
    """Return a tensor times numbers, one for all columns or one for each."""
    if not isinstance(x, RowTensor):
        return on_constants(np.multiply)(c, x, other)
    if _is_number(other, 1):
        return copied(c, x)
    wide, gain = _beside(c, c.numbers(x), other)
    product = c.scaled(wide, gain=gain)
    product.product_of = (x.parts, other)
    return product


def divide(c: Context, x: Any, other: Any) -> Any:
    """Return a tensor divided by numbers, one for all columns or one for each."""
    if _is_number(other, 1):
        return copied(c, x)
    wide, divisor = _beside(c, c.numbers(x), other)
    return c.scaled(wide, divisor=divisor)


def _reduced(mean: bool) -> Operator:
    """Return the sum or the mean over axes other than that of the rows."""

    def operator(c: Context, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if isinstance(x, list | tuple):
            x = copied(c, x[0]) if len(x) == 1 else c.add([c.numbers(each) for each in x])
        tensor = c.numbers(x)
        if dim is None or dtype is not None:
            raise c.refuse("adds up over all axes, which mixes rows; name the axis")
        axes = {c.over(tensor, each, "adds up") for each in ([dim] if isinstance(dim, int) else dim)}
        for axis in sorted(axes, reverse=True):
            tensor = c.total(tensor, [axis], mean=mean, keep=keepdim)
        return tensor

    return operator


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
        raise c.refuse("keeps no running statistics, so a row's output depends on the other rows")
    parts = (running_mean, running_var, weight, bias)
    mean, variance, gain, shift = (None if part is None else c.key(part, "numbers") for part in parts)
    c.require_width(tensor, running_mean.array.size)
    assert mean is not None
    assert variance is not None
    value = c.steps.batch_norm(c.flat(tensor), c.where, mean, variance, gain, shift, c.number(eps, "an epsilon"))
    return c.made(value, tensor.dims)


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


def _grouped_norm(
    c: Context, x: RowTensor, size: int, epsilon: Any, weight: Any, bias: Any, repeats: int, *, centred: bool = True
) -> RowTensor:
    """Return each group of so many columns normalised, times a gain and plus a shift for each column.

    Those are for the columns at the end of each group, or of each row, each for so many columns in a row.
    """
    value = c.steps.apply(c.where, Normalise(size, c.number(epsilon, "an epsilon"), centred), [c.flat(x)])
    parts: dict[str, Number] = {}
    for name, constant in (("gain", weight), ("shift", bias)):
        if constant is None:
            continue
        if not isinstance(constant, Constant):
            raise c.refuse("has numbers that depend on the input")
        parts[name] = c.reference(_tiled(constant, repeats, value.width))
    return c.made(c.steps.scale(value, c.where, **parts) if parts else value, x.dims)


def _tiled(constant: Constant, repeats: int, width: int) -> Constant:
    """Return a constant with each number so many times, and all of that as often as it fits into the width."""
    count = width // (constant.array.size * repeats)
    return constant.moved(lambda array: np.tile(np.repeat(array.reshape(-1), repeats), count))


def _layer_norm(
    c: Context, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *rest: Any
) -> RowTensor:
    tensor, size = _normalised(c, x, normalized_shape)
    return _grouped_norm(c, tensor, size, eps, weight, bias, 1)


def _rms_norm(c: Context, x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> RowTensor:
    tensor, size = _normalised(c, x, normalized_shape)
    epsilon = float(np.finfo(c.steps.dtype).eps) if eps is None else eps
    return _grouped_norm(c, tensor, size, epsilon, weight, None, 1, centred=False)


def _normalised(c: Context, x: Any, shape: Any) -> tuple[RowTensor, int]:
    """Return a tensor whose last axes, of this shape, are normalised, and how many columns that are."""
    tensor, sizes = c.numbers(x), tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    if len(tensor.dims) == 2 and len(sizes) == 1:
        c.require_width(tensor, sizes[0])
    if tensor.dims[-len(sizes) :] != sizes:
        raise c.refuse(f"normalises the last axes {sizes} of a tensor of shape {tensor.shape()}")
    return tensor, math.prod(sizes)


def _group_norm(
    c: Context, x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *rest: Any
) -> RowTensor:
    tensor = c.numbers(x)
    if tensor.dims[0] != ROWS or len(tensor.dims) < 2 or lengths(tensor.dims)[1] % num_groups:
        raise c.refuse(f"normalises {num_groups} groups of a tensor of shape {tensor.shape()}")
    if len(tensor.dims) == 2 and weight is not None:
        c.require_width(tensor, weight.array.size)
    inner = math.prod(lengths(tensor.dims)[2:])
    return _grouped_norm(c, tensor, tensor.width // num_groups, eps, weight, bias, inner)


def _instance_norm(
    c: Context,
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: Any = True,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
    *rest: Any,
) -> RowTensor:
    tensor = c.numbers(x)
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise c.refuse("has running statistics (track_running_stats); BatchNorm1d of a row is read")
    if len(tensor.dims) < 3:
        raise c.refuse(f"normalises a tensor of shape {tensor.shape()}; it must be (rows, channels, n)")
    return _group_norm(c, tensor, lengths(tensor.dims)[1], weight, bias, eps)


def _aten_native_layer_norm(
    c: Context, x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any
) -> tuple[RowTensor]:
    return (_layer_norm(c, x, normalized_shape, weight, bias, eps),)


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
        raise c.refuse("changes its table while it is read (max_norm)")
    table = c.key(weight, "tables")
    if not weight.in_order or weight.array.ndim != 2:
        raise c.refuse(f"has a table of shape {weight.array.shape}")
    return _looked_up(c, x, table, weight.array.shape[1])


def _embedding_bag(
    c: Context,
    x: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: Any = False,
    mode: Any = "mean",
    sparse: Any = False,
    per_sample_weights: Any = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> RowTensor:
    """Return the sum or the mean of the rows of a table that each row of numbers names."""
    if mode not in ("sum", "mean"):
        raise c.refuse(f"has the mode {mode!r}; sum and mean are read")
    if offsets is not None or per_sample_weights is not None or padding_idx is not None or include_last_offset:
        raise c.refuse("has bags of different sizes or weights (offsets, per_sample_weights, padding_idx)")
    if len(c.tensor(x).dims) != 2 or c.tensor(x).dims[0] != ROWS:
        raise c.refuse(f"reads a tensor of shape {c.tensor(x).shape()}; it must be (rows, n), one bag for each row")
    return c.total(_embedding(c, x, weight, max_norm=max_norm), [1], mean=mode == "mean")


def _aten_embedding_bag(
    c: Context,
    weight: Any,
    x: Any,
    offsets: Any,
    scale_grad_by_freq: Any = False,
    mode: Any = 0,
    sparse: Any = False,
    per_sample_weights: Any = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> tuple[RowTensor]:
    """Return the bags of an exported program, which have the numbers of all rows in a list, as many for each row."""
    tensor = c.tensor(x)
    if not isinstance(offsets, Starts) or tensor.dims != (Rows(after=offsets.each),):
        raise c.refuse("has bags of different sizes; look up one column each with Embedding, and add up what it gives")
    own = c.view(tensor, (ROWS, offsets.each))
    more = {"per_sample_weights": per_sample_weights, "include_last_offset": include_last_offset}
    kind = {0: "sum", 1: "mean"}.get(mode, str(mode))
    return (_embedding_bag(c, own, weight, mode=kind, padding_idx=padding_idx, **more),)


def _one_hot(c: Context, x: Any, num_classes: Any = -1) -> RowTensor:
    if not isinstance(num_classes, int) or num_classes < 1:
        raise c.refuse("does not say how many classes there are (num_classes)")
    return _looked_up(c, x, num_classes, num_classes)


def _looked_up(c: Context, x: Any, table: str | int, width: int) -> RowTensor:
    """Look up each number of a tensor; the rows of the table are the last axis."""
    tensor = c.tensor(x) if c.tensor(x).left_out is None else c.numbers(x)
    if not tensor.whole and tensor.memory.owner:
        c.indices.add(tensor.memory.owner)
    columns = [c.steps.columns(c.flat(tensor), c.where, [column]) for column in range(tensor.width)]
    parts = tuple(c.steps.lookup(column, c.where, table) for column in columns)
    return RowTensor(parts, (*tensor.dims, width), {name: factor * width for name, factor in tensor.opens.items()})


ARITHMETIC: dict[str, Operator] = {
    "add": add,
    **dict.fromkeys(("sub", "subtract"), either(_sub, np.subtract)),
    "rsub": either(lambda c, x, other, alpha=1: _sub(c, other, x, alpha), subtract_from),
    **dict.fromkeys(("neg", "negative"), either(lambda c, x: c.scaled(x, gain=-1.0), np.negative)),
    "sum": _reduced(mean=False),
    "mean": _reduced(mean=True),
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _native_batch_norm,
    "aten.batch_norm": _aten_batch_norm,
    "layer_norm": _layer_norm,
    "native_layer_norm": _aten_native_layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "aten.instance_norm": lambda c, x, weight, bias, mean, variance, *rest: _instance_norm(
        c, x, mean, variance, weight, bias, *rest
    ),
    "embedding": _embedding,
    "aten.embedding": lambda c, weight, x, padding_idx=-1, *rest: _embedding(c, x, weight),
    "embedding_bag": _embedding_bag,
    "aten.embedding_bag": _aten_embedding_bag,
    "one_hot": _one_hot,
}
