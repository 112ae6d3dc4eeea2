"""Elementwise functions, and the softmax at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.torch.operators.context import (
    ROWS,
    Context,
    Operator,
    Positive,
    RowTensor,
    column_numbers,
    either,
)
from fairmend.network.formats.torch.program import Constant

_SELU = (1.6732632423543772, 1.0507009873554805)  # alpha and scale
_POWERS = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
_SOFTPLUS_LINE = 20  # from where on PyTorch returns x itself, by default
_SOFTPLUS_MOST = 80  # below this, exp(x), which PyTorch computes up to its threshold, is finite in float32


def _plain(name: str) -> Operator:
    """Return the operator of a function without parameters."""

    def operator(c: Context, x: Any, inplace: bool = False) -> RowTensor:
        return c.elementwise(x, name)

    return operator


_ELEMENTARY: dict[str, Callable[..., Any]] = {  # also of numbers of the model alone
    "abs": np.abs,
    "square": np.square,
    "exp": np.exp,
    "log": np.log,
    "reciprocal": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
}


def _sigmoid(c: Context, x: Any) -> RowTensor:
    result = c.elementwise(x, "sigmoid")
    result.sigmoid_of = x.parts
    return result


def _leaky_relu(c: Context, x: Any, negative_slope: Any = 0.01, inplace: bool = False) -> RowTensor:
    return c.elementwise(x, "leaky_relu", c.number(negative_slope, "a slope"))


def _rrelu(
    c: Context, x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> RowTensor:
    if training:
        raise c.error("stays random in eval mode (pass training=self.training)")
    return c.elementwise(x, "leaky_relu", (lower + upper) / 2)


def _prelu(c: Context, x: Any, weight: Any) -> RowTensor:
    tensor = c.matrix(x)
    slopes = weight.array if isinstance(weight, Constant) else np.zeros(())
    if slopes.size > 1:
        c.require_width(tensor, slopes.size)
    return c.elementwise(tensor, "prelu", parameters=c.key(weight, "slopes"))


def _positive(c: Context, x: Any, other: Any) -> Positive:
    if c.number(other, "a limit") != 0:
        raise c.error("compares with a number other than 0")
    tensor = c.numbers(x)
    return Positive(tensor.parts, tensor.dims)


def _where(c: Context, condition: Any, x: Any, other: Any) -> RowTensor:
    """Return a choice of columns by a constant, or PReLU as run_decompositions writes it: x if x > 0, else x · w."""
    if isinstance(condition, Constant) and isinstance(x, RowTensor) and isinstance(other, RowTensor):
        return _chosen(c, condition, x, other)
    tensor, product = c.numbers(x), other.product_of if isinstance(other, RowTensor) else None
    same = isinstance(condition, Positive) and (condition.parts, condition.dims) == (tensor.parts, tensor.dims)
    if not same or product is None or product[0] != tensor.parts or other.dims != tensor.dims:
        raise c.error("is not supported other than as PReLU: x where x > 0, else x times a constant")
    slope = product[1]
    if isinstance(slope, Constant) and slope.key is not None:
        return _prelu(c, tensor, slope)
    return _leaky_relu(c, tensor, slope)


def _chosen(c: Context, condition: Constant, x: RowTensor, other: RowTensor) -> RowTensor:
    """Return columns of one of two tensors of the same axes, as a constant says for each column."""
    sizes = [1 if size is ROWS else size for size in x.dims]
    if x.dims != other.dims or x.mixed or condition.array.dtype != bool:
        raise c.error("chooses between tensors of different shapes, or not by a constant of True and False")
    try:
        mask = np.broadcast_to(condition.array, sizes)
    except ValueError as error:
        raise c.error(f"chooses by a constant of shape {condition.array.shape} for {x.shape()}") from error
    both = RowTensor((c.flat(c.numbers(x)), c.flat(c.numbers(other))), (ROWS, 2 * x.width))
    return c.select(both, np.where(mask, column_numbers(x.dims), column_numbers(x.dims, x.width)), x.dims)


def _clip(c: Context, x: Any, low: float, high: float) -> RowTensor:
    return c.elementwise(x, "clip", parameters=(low, high))


def _hardtanh(c: Context, x: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> RowTensor:
    return _clip(c, x, c.number(min_val, "a limit"), c.number(max_val, "a limit"))


def _clamp(c: Context, x: Any, min: Any = None, max: Any = None) -> RowTensor:  # noqa: A002 (PyTorch's own names)
    if max is None and min is not None:
        low = c.number(min, "a limit")
        return c.elementwise(x, "relu") if low == 0 else c.scaled(
            c.elementwise(c.scaled(x, mean=low), "relu"), shift=low
        )  # fmt: skip
    if min is None:
        high = c.number(max, "a limit")  # high − relu(high − x)
        return c.scaled(c.elementwise(c.scaled(x, mean=high, gain=-1.0), "relu"), gain=-1.0, shift=high)
    return _clip(c, x, c.number(min, "a limit"), c.number(max, "a limit"))


def _relu6(c: Context, x: Any, inplace: bool = False) -> RowTensor:
    return _clip(c, x, 0.0, 6.0)


def _elu(
    c: Context, x: Any, alpha: Any = 1.0, scale: Any = 1, input_scale: Any = 1, inplace: bool = False
) -> RowTensor:
    if isinstance(scale, bool):  # F.elu(x, alpha, inplace)
        scale = 1
    if (alpha, scale, input_scale) == (*_SELU, 1):
        return c.elementwise(x, "selu")
    if (scale, input_scale) != (1, 1):
        raise c.error("has a scale, which is supported for SELU alone")
    return c.elementwise(x, "elu", parameters=(c.number(alpha, "an alpha"),))


def _celu(c: Context, x: Any, alpha: Any = 1.0, inplace: bool = False) -> RowTensor:
    return c.elementwise(x, "celu", parameters=(c.number(alpha, "an alpha"),))


def _softplus(c: Context, x: Any, beta: Any = 1.0, threshold: Any = _SOFTPLUS_LINE) -> RowTensor:
    line = c.number(threshold, "a threshold")
    if line < _SOFTPLUS_LINE:
        raise c.error(f"has a threshold below {_SOFTPLUS_LINE}, from which on it is another function than softplus")
    if not line <= _SOFTPLUS_MOST:
        raise c.error(f"has a threshold above {_SOFTPLUS_MOST}, so that PyTorch computes infinity before it")
    return c.elementwise(x, "softplus", parameters=(c.number(beta, "a beta"),))


def _gelu(c: Context, x: Any, approximate: str = "none") -> RowTensor:
    return c.elementwise(x, "gelu" if approximate == "none" else "gelu_tanh")


def _hardsigmoid(c: Context, x: Any, inplace: bool = False) -> RowTensor:
    return c.elementwise(x, "hardsigmoid", parameters=(1 / 6, 0.5))


def _pow(c: Context, x: Any, exponent: Any) -> RowTensor:
    power = c.number(exponent, "an exponent")
    if power not in _POWERS:
        raise c.error("is a power other than 2, 0.5, -0.5 and -1")
    return c.elementwise(x, _POWERS[power])


def softmax(
    c: Context,
    x: Any,
    dim: Any = None,
    half_to_float: Any = False,
    dtype: Any = None,
    _stacklevel: int = 3,
    *,
    logarithm: bool = False,
) -> RowTensor:
    """Return the softmax over one axis, or its logarithm, which only the output may be."""
    left_out = x.left_out if isinstance(x, RowTensor) else None
    tensor = c.numbers(x if left_out is None else replace(x, left_out=None))
    if dtype is not None or half_to_float not in (False, 3):
        raise c.error("is not supported with another dtype")
    axis = tensor.axis(dim) if isinstance(dim, int) else -1
    if not 0 <= axis < len(tensor.dims) or axis == tensor.row_axis or (logarithm and len(tensor.dims) > 2):
        raise c.error(
            f"has dim={dim} of a tensor of shape {tensor.shape()}; it must be an axis other than that of rows"
        )
    order = [*(each for each in range(len(tensor.dims)) if each != axis), axis]
    dims = tuple(tensor.dims[each] for each in order)
    row = c.flat(c.select(tensor, column_numbers(tensor.dims).transpose(order), dims, dict(tensor.opens)))
    if left_out is not None and not logarithm:
        result = _kept_softmax(c, row, ~left_out.transpose(order).reshape(-1, tensor.dims[axis]), dims)
    elif left_out is not None:
        raise c.error("has masked scores, and is a logarithm")
    else:
        value = c.steps.softmax(row, c.where, None if logarithm else tensor.dims[axis])
        result = RowTensor((value,), dims, tensor.opens)
    back = np.argsort(order)
    return result if axis == len(order) - 1 else c.select(result, column_numbers(dims).transpose(back), tensor.dims)


def _kept_softmax(c: Context, row: Any, kept: npt.NDArray[np.bool_], dims: Any) -> RowTensor:
    """Return the softmax of the numbers that are kept (groups, size), and 0 for those that are left out.

    Groups that keep the same numbers are one softmax, over these alone.
    """
    if not kept.any(axis=1).all():
        raise c.error("has a mask that leaves out everything that a token attends to; leave out that token instead")
    numbers = np.arange(kept.size).reshape(kept.shape)
    found, places, start = [], np.full(kept.shape, -1), 0
    for own in np.unique(kept, axis=0):
        groups = np.flatnonzero((kept == own).all(axis=1))
        chosen = numbers[groups][:, own]
        part = c.steps.columns(row, c.where, chosen.reshape(-1).tolist())
        found.append(c.steps.softmax(part, c.where, int(own.sum())))
        places[np.ix_(groups, np.flatnonzero(own))] = start + np.arange(chosen.size).reshape(chosen.shape)
        start += chosen.size
    if (places < 0).any():
        found.append(c.steps.scale(c.steps.columns(row, c.where, [0]), c.where, gain=0.0))
        places[places < 0] = start
        start += 1
    together = RowTensor((c.steps.concatenate(c.where, found),), (ROWS, start))
    return c.select(together, places, dims)


FUNCTIONS: dict[str, Operator] = {
    **{name: either(_plain(name), compute) for name, compute in _ELEMENTARY.items()},
    "absolute": either(_plain("abs"), np.abs),
    "pow": either(_pow, np.power),
    **{name: _plain(name) for name in ("relu", "tanh", "selu", "softsign", "silu", "mish", "hardswish")},
    "sigmoid": _sigmoid,
    "expit": _sigmoid,
    "leaky_relu": _leaky_relu,
    "rrelu": _rrelu,
    "prelu": _prelu,
    **dict.fromkeys(("gt", "ge"), _positive),
    "where": _where,
    "hardtanh": _hardtanh,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda c, x, min: _clamp(c, x, min),  # noqa: A006 (PyTorch's own name)
    "clamp_max": lambda c, x, max: _clamp(c, x, None, max),  # noqa: A006
    "relu6": _relu6,
    "elu": _elu,
    "celu": _celu,
    "softplus": _softplus,
    "gelu": _gelu,
    "hardsigmoid": _hardsigmoid,
    "softmax": softmax,
    "_softmax": softmax,
    "log_softmax": partial(softmax, logarithm=True),
    "_log_softmax": partial(softmax, logarithm=True),
}
