"""The elementwise functions that fairmend knows, by family; docs/extending.md shows how to add one."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fairmend.network.functions.base import Function, Lines

__all__ = ["FUNCTIONS", "Function", "Lines", "find_function"]

FUNCTIONS = {
    "relu": "straight.Relu",
    "leaky_relu": "straight.LeakyRelu",
    "tanh": "exponential.Tanh",
    "sigmoid": "exponential.Sigmoid",
    "identity": "straight.Identity",
    "prelu": "straight.Prelu",
    "clip": "straight.Clip",
    "elu": "exponential.Elu",
    "celu": "exponential.Celu",
    "selu": "exponential.Selu",
    "softplus": "exponential.Softplus",
    "softsign": "exponential.Softsign",
    "hardsigmoid": "straight.Hardsigmoid",
    "gelu": "gated.Gelu",
    "gelu_tanh": "gated.GeluTanh",
    "silu": "gated.Silu",
    "mish": "gated.Mish",
    "hardswish": "gated.Hardswish",
    "abs": "straight.Abs",
    "square": "elementary.Square",
    "exp": "elementary.Exp",
    "log": "elementary.Log",
    "reciprocal": "elementary.Reciprocal",
    "sqrt": "elementary.Sqrt",
    "rsqrt": "elementary.Rsqrt",
    "sin": "elementary.Sin",
    "cos": "elementary.Cos",
}
"""Their names in specs, certificates and messages, and the file and class of each."""


@cache
def find_function(name: str) -> type[Function]:
    """Return the class of a function; its file is imported when a network first has it."""
    file, kind = FUNCTIONS[name].split(".")
    found: type[Function] = getattr(import_module(f"{__name__}.{file}"), kind)
    return found
