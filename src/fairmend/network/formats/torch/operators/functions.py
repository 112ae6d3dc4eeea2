"""Elementwise functions, and the softmax at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairmend.network.formats.axes import ROWS, column_numbers, lengths
from fairmend.network.formats.torch.operators.context import Context, Operator, Positive, RowTensor, either
from fairmend.network.formats.torch.program import Constant

_SELU = (1.6732632423543772, 1.0507009873554805)  # alpha and scale
_SOFTPLUS_LINE = 20  # from where on PyTorch returns x itself, by default
_SOFTPLUS_MOST = 80  # below this, exp(x), which PyTorch computes up to its threshold, is finite in float32


def _plain(name: str) -> Operator:
    """Return the operator of a function without parameters."""

    def operator(c: Context, x: Any, inplace: bool = False) -> RowTensor:
        return c.function(x, name)

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
    result = c.function(x, "sigmoid")
    result.sigmoid_of = x.parts
    return result


def _leaky_relu(c: Context, x: Any, negative_slope: Any = 0.01, inplace: bool = False) -> RowTensor:
    return c.function(x, "leaky_relu", c.number(negative_slope, "a slope"))


def _rrelu(
    c: Context, x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> RowTensor:
    if training:
        raise c.refuse("stays random in eval mode (pass training=self.training)")
    return c.function(x, "leaky_relu", (lower + upper) / 2)


def _prelu(c: Context, x: Any, weight: Any) -> RowTensor:
    tensor = c.matrix(x)
    slopes = weight.array if isinstance(weight, Constant) else np.zeros(())
    if slopes.size > 1:
        c.require_width(tensor, slopes.size)
    return c.prelu(tensor, c.key(weight, "slopes"))


def _positive(c: Context, x: Any, other: Any) -> Positive:
    if c.number(other, "a limit") != 0:
        raise c.refuse("compares with a number other than 0")
    tensor = c.numbers(x)
    return Positive(tensor.parts, tensor.dims, c.where)


def _where(c: Context, condition: Any, x: Any, other: Any) -> RowTensor:
    """Return a choice of columns by a constant, or PReLU as run_decompositions writes it: x if x > 0, else x · w."""
    if isinstance(condition, Constant) and isinstance(x, RowTensor) and isinstance(other, RowTensor):
        return _chosen(c, condition, x, other)
    tensor, product = c.numbers(x), other.product_of if isinstance(other, RowTensor) else None
    same = isinstance(condition, Positive) and (condition.parts, condition.dims) == (tensor.parts, tensor.dims)
    if not same or product is None or product[0] != tensor.parts or other.dims != tensor.dims:
        raise c.refuse("is not supported other than as PReLU: x where x > 0, else x times a constant")
    slope = product[1]
    if isinstance(slope, Constant) and slope.key is not None:
        return _prelu(c, tensor, slope)
    return _leaky_relu(c, tensor, slope)


def _chosen(c: Context, condition: Constant, x: RowTensor, other: RowTensor) -> RowTensor:
    """Return columns of one of two tensors of the same axes, as a constant says for each column."""
    if x.dims != other.dims or condition.array.dtype != bool:
        raise c.refuse("chooses between tensors of different shapes, or not by a constant of True and False")
    try:
        mask = np.broadcast_to(condition.array, lengths(x.dims))
    except ValueError as error:
        raise c.refuse(f"chooses by a constant of shape {condition.array.shape} for {x.shape()}") from error
    both = RowTensor((c.flat(c.numbers(x)), c.flat(c.numbers(other))), (ROWS, 2 * x.width))
    return c.select(both, np.where(mask, column_numbers(x.dims), column_numbers(x.dims, x.width)), x.dims)


def _clip(c: Context, x: Any, low: float, high: float) -> RowTensor:
    return c.function(x, "clip", parameters=(low, high))


def _hardtanh(c: Context, x: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> RowTensor:
    return _clip(c, x, c.number(min_val, "a limit"), c.number(max_val, "a limit"))


def _clamp(c: Context, x: Any, min: Any = None, max: Any = None) -> RowTensor:  # noqa: A002 (PyTorch's own names)
    if max is None and min is not None:
        low = c.number(min, "a limit")
        return c.function(x, "relu") if low == 0 else c.scaled(
            c.function(c.scaled(x, mean=low), "relu"), shift=low
        )  # fmt: skip
    if min is None:
        high = c.number(max, "a limit")  # high − relu(high − x)
        return c.scaled(c.function(c.scaled(x, mean=high, gain=-1.0), "relu"), gain=-1.0, shift=high)
    return _clip(c, x, c.number(min, "a limit"), c.number(max, "a limit"))


def _elu(
    c: Context, x: Any, alpha: Any = 1.0, scale: Any = 1, input_scale: Any = 1, inplace: bool = False
) -> RowTensor:
    if isinstance(scale, bool):  # F.elu(x, alpha, inplace)
        scale = 1
    if (alpha, scale, input_scale) == (*_SELU, 1):
        return c.function(x, "selu")
    if (scale, input_scale) != (1, 1):
        raise c.refuse("has a scale, which is supported for SELU alone")
    return c.function(x, "elu", parameters=(c.number(alpha, "an alpha"),))


def _softplus(c: Context, x: Any, beta: Any = 1.0, threshold: Any = _SOFTPLUS_LINE) -> RowTensor:
    line = c.number(threshold, "a threshold")
    if line < _SOFTPLUS_LINE:
        raise c.refuse(f"has a threshold below {_SOFTPLUS_LINE}, from which on it is another function than softplus")
    if not line <= _SOFTPLUS_MOST:
        raise c.refuse(f"has a threshold above {_SOFTPLUS_MOST}, so that PyTorch computes infinity before it")
    return c.function(x, "softplus", parameters=(c.number(beta, "a beta"),))


def _pow(c: Context, x: Any, exponent: Any) -> RowTensor:
    power = c.number(exponent, "an exponent")
    return c.power(c.numbers(x), power)


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
    tensor = c.tensor(x)
    if tensor.left_out is None:
        c.numbers(tensor)
    if dtype is not None or half_to_float not in (False, 3):
        raise c.refuse("is not supported with another dtype")
    axis = tensor.axis(dim) if isinstance(dim, int) else -1
    if not 0 <= axis < len(tensor.dims) or axis == tensor.row_axis or (logarithm and len(tensor.dims) > 2):
        raise c.refuse(
            f"has dim={dim} of a tensor of shape {tensor.shape()}; it must be an axis other than that of rows"
        )
    return c.softmax(tensor, axis, logarithm=logarithm)


def _softmin(c: Context, x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> RowTensor:
    return softmax(c, c.scaled(c.numbers(x), gain=-1.0), dim, dtype=dtype)


FUNCTIONS: dict[str, Operator] = {
    **{name: either(_plain(name), compute) for name, compute in _ELEMENTARY.items()},
    "absolute": either(_plain("abs"), np.abs),
    "pow": either(_pow, np.power),
    "log1p": either(lambda c, x: c.function(c.scaled(c.tensor(x), shift=1.0), "log"), np.log1p),
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
    "relu6": lambda c, x, inplace=False: _clip(c, x, 0.0, 6.0),
    "elu": _elu,
    "celu": lambda c, x, alpha=1.0, inplace=False: c.function(x, "celu", parameters=(c.number(alpha, "an alpha"),)),
    "softplus": _softplus,
    "gelu": lambda c, x, approximate="none": c.function(x, "gelu" if approximate == "none" else "gelu_tanh"),
    "hardsigmoid": lambda c, x, inplace=False: c.function(x, "hardsigmoid", parameters=(1 / 6, 0.5)),
    "softmax": softmax,
    "softmin": _softmin,
    "_softmax": softmax,
    "log_softmax": partial(softmax, logarithm=True),
    "_log_softmax": partial(softmax, logarithm=True),
}
LAYERS_OF_FUNCTIONS = {
    "ReLU": "relu inplace",
    "ReLU6": "relu6 inplace",
    "LeakyReLU": "leaky_relu negative_slope inplace",
    "RReLU": "rrelu lower upper inplace",
    "Hardtanh": "hardtanh min_val max_val inplace",
    "ELU": "elu alpha inplace",
    "CELU": "celu alpha inplace",
    "SELU": "selu inplace",
    "Softplus": "softplus beta threshold",
    "Softsign": "softsign",
    "Hardsigmoid": "hardsigmoid inplace",
    "GELU": "gelu approximate",
    "SiLU": "silu inplace",
    "Mish": "mish inplace",
    "Hardswish": "hardswish inplace",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
}
"""The layers of torch.nn that compute them: the function, and the attributes that are its arguments."""
