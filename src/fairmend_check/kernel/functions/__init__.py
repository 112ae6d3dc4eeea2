"""The elementwise functions that the checker knows, by name; each is a class with all of its mathematics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import curved, elementary, straight
from fairmend_check.kernel.functions.base import FUNCTIONS, Activation, Function, function_of

__all__ = ["ACTIVATIONS", "Activation", "Function", "check_activation", "function_of"]

_MOST = 2.0**20


def _is_moderate(number: float) -> bool:
    return 1 / _MOST <= number <= _MOST


FUNCTIONS |= {
    "relu": straight.Ramp.of,
    "leaky_relu": straight.Ramp.of,
    "prelu": straight.Ramp.of,
    "identity": straight.Ramp.of,
    "tanh": curved.Sigmoid,
    "sigmoid": curved.Sigmoid,
    "clip": straight.Clip,
    "hardsigmoid": straight.Hardsigmoid,
    "softsign": curved.Softsign,
    "elu": curved.Elu,
    "celu": curved.Elu,
    "selu": curved.Elu,
    "softplus": curved.Softplus,
    "silu": curved.Silu,
    "mish": curved.Mish,
    "gelu": curved.Gelu,
    "gelu_tanh": curved.GeluTanh,
    "hardswish": curved.Hardswish,
    "abs": straight.Ramp.of,
    "square": elementary.Square,
    "exp": elementary.Exp,
    "log": elementary.Log,
    "reciprocal": elementary.Reciprocal,
    "sqrt": elementary.Sqrt,
    "rsqrt": elementary.Rsqrt,
    "sin": elementary.Wave,
    "cos": elementary.Wave,
}
ACTIVATIONS = tuple(FUNCTIONS)

_PARAMETERS: dict[str, Callable[[tuple[float, ...]], bool]] = {  # which are possible; all others have none
    "prelu": lambda slopes: len(slopes) > 0,
    "clip": lambda ends: len(ends) == 2 and ends[0] <= ends[1],
    "hardsigmoid": lambda line: len(line) == 2 and _is_moderate(line[0]) and abs(line[1]) <= _MOST,
    "elu": lambda alpha: len(alpha) == 1 and _is_moderate(alpha[0]),
    "celu": lambda alpha: len(alpha) == 1 and _is_moderate(alpha[0]),
    "softplus": lambda beta: len(beta) == 1 and _is_moderate(beta[0]),
}


def check_activation(activation: Activation, dtype: str) -> None:
    """Refuse a function that is not known, or whose numbers do not fit it or are not of this type."""
    name, numbers = activation.name, activation.parameters
    known = name in FUNCTIONS and (activation.slope == 0 or name == "leaky_relu") and 0 <= activation.slope < np.inf
    if not known:
        raise CheckError(f"the model's activation {name} with slope {activation.slope} is unknown")
    possible = _PARAMETERS[name](numbers) if name in _PARAMETERS else not numbers
    if not possible or not np.isfinite(numbers).all():
        raise CheckError(f"the model's activation {name} cannot have the parameters {str(numbers)[:60]}")
    with np.errstate(over="ignore"):
        for value in (activation.slope, *numbers):
            if float(np.dtype(dtype).type(value)) != value:
                raise CheckError(f"the slope {value} of an activation is not a {dtype} number")
