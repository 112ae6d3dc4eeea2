"""The elementwise functions that fairmend knows, one file each; docs/extending.md shows how to add one."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fairmend.network.functions.base import Function, Lines

__all__ = ["FUNCTIONS", "Function", "Lines", "find_function"]

FUNCTIONS = {
    "relu": "Relu",
    "leaky_relu": "LeakyRelu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "identity": "Identity",
    "prelu": "Prelu",
    "clip": "Clip",
    "elu": "Elu",
    "celu": "Celu",
    "selu": "Selu",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "hardsigmoid": "Hardsigmoid",
    "gelu": "Gelu",
    "gelu_tanh": "GeluTanh",
    "silu": "Silu",
    "mish": "Mish",
    "hardswish": "Hardswish",
}
"""Their names in specs, certificates and messages, which are those of their files, and the class in each."""


@cache
def find_function(name: str) -> type[Function]:
    """Return the class of a function; its file is imported when a network first has it."""
    found: type[Function] = getattr(import_module(f"{__name__}.{name}"), FUNCTIONS[name])
    return found
