"""Every elementwise function, written down once more: to 40 digits with mpmath."""

from collections.abc import Callable

import mpmath
import numpy as np

from fairmend.network import Activation

_SCALE = mpmath.mpf("1.0507009873554804934193349852946")
_ALPHA = mpmath.mpf("1.6732632423543772848170429916717")


def _sigmoid(z):
    return 1 / (1 + mpmath.exp(-z))


def _gelu(z):
    # mpmath cannot compute erfc of huge numbers; there it is 0 or 2 to far more digits than are compared.
    return z * mpmath.erfc(-z / mpmath.sqrt(2)) / 2 if abs(z) < 1000 else max(z, mpmath.mpf(0))


def _gelu_tanh(z):
    return z * _sigmoid(2 * mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3))


DEFINITIONS: dict[str, Callable] = {
    "relu": lambda z: max(z, 0),
    "leaky_relu": lambda z, slope: z if z >= 0 else slope * z,
    "prelu": lambda z, slope: z if z >= 0 else slope * z,
    "identity": lambda z: z,
    "clip": lambda z, low, high: min(max(z, low), high),
    "hardsigmoid": lambda z, slope, offset: min(max(slope * z + offset, 0), 1),
    "tanh": mpmath.tanh,
    "sigmoid": _sigmoid,
    "softsign": lambda z: z / (1 + abs(z)),
    "softplus": lambda z, beta: mpmath.log1p(mpmath.exp(beta * z)) / beta,
    "elu": lambda z, alpha: z if z >= 0 else alpha * mpmath.expm1(z),
    "celu": lambda z, alpha: z if z >= 0 else alpha * mpmath.expm1(z / alpha),
    "selu": lambda z: _SCALE * z if z >= 0 else _SCALE * _ALPHA * mpmath.expm1(z),
    "silu": lambda z: z * _sigmoid(z),
    "mish": lambda z: z * mpmath.tanh(mpmath.log1p(mpmath.exp(z))),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "hardswish": lambda z: z * min(max(z + 3, 0), 6) / 6,
    "abs": abs,
    "square": lambda z: z * z,
    "exp": mpmath.exp,
    "log": mpmath.log,
    "reciprocal": lambda z: 1 / z,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}

KINKED = (
    Activation("relu"),
    Activation("identity"),
    Activation("leaky_relu", 0.01),
    Activation("leaky_relu", 1.7),
    Activation("prelu", parameters=(0.25,)),
    Activation("prelu", parameters=(-0.5,)),
    Activation("prelu", parameters=(1.5,)),
    Activation("abs"),
)
CLIPPED = (
    Activation("clip", parameters=(0.0, 6.0)),
    Activation("clip", parameters=(-1.0, 1.0)),
    Activation("clip", parameters=(0.1, np.inf)),
    Activation("clip", parameters=(-np.inf, 0.3)),
    Activation("hardsigmoid", parameters=(1 / 6, 0.5)),
    Activation("hardsigmoid", parameters=(0.2, 0.5)),
    Activation("hardsigmoid", parameters=(3.0, -4.0)),
)
S_SHAPED = (Activation("tanh"), Activation("sigmoid"))
CURVED = (
    Activation("softsign"),
    Activation("softplus", parameters=(1.0,)),
    Activation("softplus", parameters=(5.0,)),
    Activation("elu", parameters=(1.0,)),
    Activation("elu", parameters=(0.3,)),
    Activation("elu", parameters=(2.5,)),
    Activation("celu", parameters=(1.0,)),
    Activation("celu", parameters=(0.3,)),
    Activation("selu"),
    Activation("silu"),
    Activation("mish"),
    Activation("gelu"),
    Activation("gelu_tanh"),
    Activation("hardswish"),
)
FUNCTIONS = (*KINKED, *CLIPPED, *S_SHAPED, *CURVED)
"""Activations of deep networks, with several parameters each; those per unit have one unit."""
WHOLE = tuple(map(Activation, ("square", "exp", "sin", "cos")))
"""Other functions of all numbers."""
PARTIAL = tuple(map(Activation, ("log", "reciprocal", "sqrt", "rsqrt")))
"""Those that have bounds for some numbers only, and among them for all above 0."""


def exact_function(activation: Activation, z: float) -> mpmath.mpf:
    """f(z) to the working precision of mpmath."""
    numbers = (activation.slope,) if activation.name == "leaky_relu" else activation.parameters
    return mpmath.mpf(DEFINITIONS[activation.name](mpmath.mpf(z), *map(mpmath.mpf, numbers)))


INTERVALS = [
    (0, 0),
    (0, 1),
    (-1, 0),
    (3, 3),
    (-3, -3),
    (-1, 1),
    (-1e-12, 1e-12),
    (0, 1e-12),
    (-50, 50),
    (30, 90),
    (-90, -30),
]
"""Ends of intervals on which lines are compared with a function."""
