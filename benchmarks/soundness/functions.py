"""Every elementwise function, written down from docs/certificate.md: in float64, to many digits, and as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from scipy.special import erf, expit

from fairmend.network import Activation

PIECEWISE_LINEAR = ("relu", "leaky_relu", "prelu", "identity", "clip", "hardsigmoid")
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
Line = tuple[Any, float]  # slope (a number, or one for each unit) and intercept


def is_curved(activation: Activation) -> bool:
    return activation.name not in PIECEWISE_LINEAR


def numbers_of(activation: Activation) -> tuple[Any, ...]:
    """Return the parameters; slopes per unit as one array."""
    if activation.name == "prelu":
        return (np.array(activation.parameters),)
    return (activation.slope,) if activation.name == "leaky_relu" else activation.parameters


def in_float64(activation: Activation, z: np.ndarray) -> np.ndarray:
    """Return the function of z (points, units), with an error of a few units in the last place of |z| + |f(z)| + 1."""
    with np.errstate(over="ignore"):
        return np.asarray(FLOAT[activation.name](z, *numbers_of(activation)))


FLOAT: dict[str, Callable[..., Any]] = {
    "relu": lambda z: np.maximum(z, 0),
    "leaky_relu": lambda z, slope: np.where(z >= 0, z, slope * z),
    "prelu": lambda z, slope: np.where(z >= 0, z, slope * z),
    "identity": lambda z: z,
    "clip": np.clip,
    "hardsigmoid": lambda z, slope, offset: np.clip(slope * z + offset, 0, 1),
    "tanh": np.tanh,
    "sigmoid": expit,
    "softsign": lambda z: z / (1 + np.abs(z)),
    "softplus": lambda z, beta: np.logaddexp(0, beta * z) / beta,
    "elu": lambda z, alpha: np.where(z >= 0, z, alpha * np.expm1(np.minimum(z, 0))),
    "celu": lambda z, alpha: np.where(z >= 0, z, alpha * np.expm1(np.minimum(z, 0) / alpha)),
    "selu": lambda z: SELU_SCALE * np.where(z >= 0, z, SELU_ALPHA * np.expm1(np.minimum(z, 0))),
    "silu": lambda z: z * expit(z),
    "mish": lambda z: z * np.tanh(np.logaddexp(0, z)),
    "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
    "gelu_tanh": lambda z: z * expit(2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)),
    "hardswish": lambda z: z * np.clip(z + 3, 0, 6) / 6,
    "abs": np.abs,
    "square": lambda z: z * z,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "reciprocal": lambda z: 1 / z,
}
SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda low, high: 2 * np.maximum(np.abs(low), np.abs(high)),
    "exp": lambda low, high: np.exp(high),
    "log": lambda low, high: 1 / low,
    "sqrt": lambda low, high: 0.5 / np.sqrt(low),
    "rsqrt": lambda low, high: 0.5 * low**-1.5,
    "reciprocal": lambda low, high: low**-2.0,
}  # of functions whose slope has no bound: the largest over an interval, above 0 where it must be


POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")  # steeper without bound towards 0


def steepest(activation: Activation, low: np.ndarray, high: np.ndarray) -> np.ndarray | float:
    """Return a bound of the slopes of the function between two values, for all units or for each."""
    name, numbers = activation.name, numbers_of(activation)
    if name in SLOPES:
        with np.errstate(all="ignore"):
            slopes = np.asarray(SLOPES[name](low, high)) * (1 + 1e-12)
            return np.where(low > 0, slopes, np.inf) if name in POSITIVE else slopes
    if name in ("leaky_relu", "prelu", "elu"):
        return np.asarray(np.maximum(1, np.abs(numbers[0])))
    if name == "hardsigmoid":
        return abs(float(numbers[0]))
    return {"selu": 1.76, "gelu": 1.13, "gelu_tanh": 1.14, "silu": 1.1, "mish": 1.1, "hardswish": 1.5}.get(name, 1.0)


def to_many_digits(activation: Activation, values: list[Any]) -> list[Any]:
    """Return the function of numbers of mpmath, one for each unit."""
    if activation.name == "prelu":
        slopes = map(mpmath.mpf, activation.parameters)
        return [z if z >= 0 else slope * z for slope, z in zip(slopes, values, strict=True)]
    numbers = [mpmath.mpf(number) for number in numbers_of(activation)]
    return [DIGITS[activation.name](z, *numbers) for z in values]


def _sigmoid(z: Any) -> Any:
    return 1 / (1 + mpmath.exp(-z))


def _exponential(z: Any, alpha: Any, divisor: Any = 1) -> Any:
    return z if z >= 0 else alpha * mpmath.expm1(z / divisor)


def _gelu(z: Any) -> Any:
    # mpmath cannot compute erfc of huge numbers; there it is 0 or 2 to far more digits than are compared.
    return z * mpmath.erfc(-z / mpmath.sqrt(2)) / 2 if abs(z) < 1000 else max(z, mpmath.mpf(0))


def _gelu_tanh(z: Any) -> Any:
    return z * _sigmoid(2 * mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3))


DIGITS: dict[str, Callable[..., Any]] = {
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "leaky_relu": lambda z, slope: z if z >= 0 else slope * z,
    "identity": lambda z: z,
    "clip": lambda z, low, high: min(max(z, low), high),
    "hardsigmoid": lambda z, slope, offset: min(max(slope * z + offset, mpmath.mpf(0)), mpmath.mpf(1)),
    "tanh": mpmath.tanh,
    "sigmoid": _sigmoid,
    "softsign": lambda z: z / (1 + abs(z)),
    "softplus": lambda z, beta: mpmath.log1p(mpmath.exp(beta * z)) / beta,
    "elu": _exponential,
    "celu": lambda z, alpha: _exponential(z, alpha, alpha),
    "selu": lambda z: (
        mpmath.mpf("1.0507009873554804934193349852946")
        * _exponential(z, mpmath.mpf("1.6732632423543772848170429916717"))
    ),
    "silu": lambda z: z * _sigmoid(z),
    "mish": lambda z: z * mpmath.tanh(mpmath.log1p(mpmath.exp(z))),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "hardswish": lambda z: z * min(max(z + 3, mpmath.mpf(0)), mpmath.mpf(6)) / 6,
    "abs": abs,
    "square": lambda z: z * z,
    "exp": mpmath.exp,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "log": mpmath.log,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "reciprocal": lambda z: 1 / z,
}


def kinks_of(activation: Activation) -> list[float]:
    """Return where a piecewise linear function bends."""
    if activation.name == "identity":
        return []
    if activation.name == "clip":
        return [number for number in activation.parameters if np.isfinite(number)]
    if activation.name == "hardsigmoid":
        slope, offset = activation.parameters
        return [-offset / slope, (1 - offset) / slope]
    return [0.0]
