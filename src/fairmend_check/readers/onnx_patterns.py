"""Functions that exporters write as several ONNX nodes: SiLU as x · sigmoid(x), GELU with Erf, and so on.

The constants in them must be the right ones up to rounding in the type of the model: the error bounds of these
functions cover that (docs/certificate.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmend_check.kernel.model import Activation
from fairmend_check.readers.onnx_decision import ELEMENTS

if TYPE_CHECKING:
    from fairmend_check.readers.onnx_graph import OnnxGraph
    from fairmend_check.readers.onnx_nodes import Node

_MAX_FACTORS = 8
_LINEAR = 20.0  # from here on, the bound of softplus's error covers the identity


def find_function(node: Node, graph: OnnxGraph) -> tuple[str, Activation] | None:
    """Return the name of x, and f, if the node computes f(x) together with nodes before it."""
    if node.kind == "Where":
        return _softplus(node, graph)
    if node.kind not in ("Mul", "Div"):
        return None
    plus = _sum_with_number(node.inputs[1], graph) if node.kind == "Div" else None
    if plus is not None and plus[1] == 1 and _read_by(plus[0], "Abs", graph) == node.inputs[0]:
        return node.inputs[0], Activation("softsign")
    for x in _values_in(node.output, graph):
        scale, factors = _product(node.output, graph, x)
        if len(factors) == 2 and x in factors:
            name = _gate(scale, x, factors[1] if factors[0] == x else factors[0], graph)
            if name:
                return x, Activation(name)
    return None


def _values_in(name: str, graph: OnnxGraph) -> list[str]:
    """Return the first values that are multiplied into a product, from its end on: x may be a product itself."""
    found, waiting = list[str](), [name]
    while waiting and len(found) < _MAX_FACTORS:
        node = graph.nodes.get(waiting.pop(0))
        if node is not None and node.kind in ("Mul", "Div"):
            new = dict.fromkeys(each for each in node.inputs if graph.number(each) is None and each not in found)
            found += new
            waiting += new
    return found


def _softplus(node: Node, graph: OnnxGraph) -> tuple[str, Activation] | None:
    """Find softplus as PyTorch computes it: x where x is above 20, or above more, and softplus elsewhere."""
    condition, x, other = node.inputs
    greater = graph.nodes.get(condition)
    if (
        greater is None
        or greater.kind != "Greater"
        or greater.inputs[0] != x
        or _read_by(other, "Softplus", graph) != x
    ):
        return None
    limit = graph.number(greater.inputs[1])
    return (x, Activation("softplus", 0.0, (1.0,))) if limit is not None and limit >= _LINEAR else None


def _gate(scale: float, x: str, other: str, graph: OnnxGraph) -> str:
    """Return the function scale · x · other, where other is computed from x; "" if it is none of those known."""
    if scale == 1 and _read_by(other, "Sigmoid", graph) == x:
        return "silu"
    softplus = _read_by(other, "Tanh", graph)
    if scale == 1 and softplus is not None and _read_by(softplus, "Softplus", graph) == x:
        return "mish"
    if _is_hardswish(scale, x, other, graph):
        return "hardswish"
    plus = _sum_with_number(other, graph)
    if plus is None or plus[1] != 1 or scale != 0.5:
        return ""
    inner = _read_by(plus[0], "Erf", graph)
    if inner is not None:
        factor, rest = _product(inner, graph, x)
        return "gelu" if rest == [x] and _equal(factor, math.sqrt(0.5), graph) else ""
    inner = _read_by(plus[0], "Tanh", graph)
    return "gelu_tanh" if inner is not None and _is_cubic(inner, x, graph) else ""


def _is_hardswish(scale: float, x: str, other: str, graph: OnnxGraph) -> bool:
    node = graph.nodes.get(other)
    if node is None:
        return False
    if node.kind == "HardSigmoid" and scale == 1 and node.inputs[0] == x:
        given = node.attributes["beta"] == 0.5 and node.attributes["alpha"] == float(np.float32(1 / 6))
        return bool(given and graph.element == ELEMENTS["float32"])
    if node.kind != "Clip" or len(node.inputs) != 3 or not _equal(scale, 1 / 6, graph):
        return False
    limits = [graph.number(name) for name in node.inputs[1:]]
    return limits == [0, 6] and _sum_with_number(node.inputs[0], graph) == (x, 3.0)


def _is_cubic(name: str, x: str, graph: OnnxGraph) -> bool:
    """Return whether a value is √(2/π) (x + 0.044715 x³)."""
    factor, rest = _product(name, graph, x)
    node = graph.nodes.get(rest[0]) if len(rest) == 1 else None
    if node is None or node.kind != "Add" or x not in node.inputs or not _equal(factor, math.sqrt(2 / math.pi), graph):
        return False
    small, cube = _product(node.inputs[1] if node.inputs[0] == x else node.inputs[0], graph, x)
    power = graph.nodes.get(cube[0]) if len(cube) == 1 else None
    is_power = power is not None and power.kind == "Pow" and power.inputs[0] == x and graph.number(power.inputs[1]) == 3
    return _equal(small, 0.044715, graph) and (cube == [x, x, x] or is_power)


def _product(name: str, graph: OnnxGraph, x: str) -> tuple[float, list[str]]:
    """Return a value as a number times factors; x, and one that no Mul or Div computes, is its own factor.

    The number is nan if there is more than one: 2^-149 times 2^148 is 0.5, but rounds x to whole numbers on the way.
    """
    number, factors, waiting, seen = 1.0, list[str](), [name], 0
    while waiting:
        value = waiting.pop(0)
        node = graph.nodes.get(value)
        many = len(factors) + len(waiting) > _MAX_FACTORS
        if node is None or node.kind not in ("Mul", "Div") or many or value == x:
            factors.append(value)
            continue
        numbers = [graph.number(each) for each in node.inputs]
        if node.kind == "Div":
            if numbers[1] is None or numbers[1] == 0 or numbers[0] is not None:
                factors.append(value)
                continue
            number, seen = number / numbers[1], seen + 1
            waiting.insert(0, node.inputs[0])
            continue
        for constant in numbers:
            if constant is not None:
                number, seen = number * constant, seen + 1
        waiting[:0] = [each for each, constant in zip(node.inputs, numbers, strict=True) if constant is None]
    return number if seen < 2 else math.nan, factors


def _sum_with_number(name: str, graph: OnnxGraph) -> tuple[str, float] | None:
    """Return a value and a number that a node adds up."""
    node = graph.nodes.get(name)
    if node is None or node.kind != "Add":
        return None
    for value, number in (node.inputs, node.inputs[::-1]):
        constant = graph.number(number)
        if constant is not None:
            return value, constant
    return None


def _read_by(name: str, kind: str, graph: OnnxGraph) -> str | None:
    """Return what the node of this kind reads that computes a value."""
    node = graph.nodes.get(name)
    return node.inputs[0] if node is not None and node.kind == kind else None


def _equal(number: float, exact: float, graph: OnnxGraph) -> bool:
    """Return whether two numbers are equal up to rounding in the type of the model."""
    unit = 2.0**-24 if graph.element == ELEMENTS["float32"] else 2.0**-53
    return abs(number - exact) <= 4 * unit * exact
