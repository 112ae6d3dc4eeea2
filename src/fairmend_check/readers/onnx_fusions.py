"""Nodes of ONNX graphs that ONNX Runtime takes for a function that they do not compute: no file with them is read.

It fuses nodes into one operator by the order of their kinds, and by numbers that are nearly those of the function.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairmend_check.errors import CheckError
from fairmend_check.readers.onnx_nodes import ELEMENTS, Node, are_equal, centred_of, read_by, spread_of

if TYPE_CHECKING:
    from fairmend_check.readers.onnx_graph import OnnxGraph

# How a value comes from a mean.
MEAN, MORE, ROOT, LESS = "a mean", "a sum with a mean", "a root of such a sum", "a difference from a mean"
_CUBIC = 0.044715  # of GELU by tanh
_OF_GELU = (_CUBIC, math.sqrt(2 / math.pi), 0.5, 1.0)
_NEAR = 1e-4  # ONNX Runtime takes numbers for equal up to a relative 1e-5


def from_mean(node: Node, graph: OnnxGraph) -> str:
    """Return how a value comes from a mean, also through nodes that runtimes may leave out; "" if it does not."""
    read = [name for name in node.inputs if name and name not in graph.tensors and name not in graph.sizes]
    found = {graph.means.get(name, "") for name in read} - {""}
    if node.kind == "ReduceMean":
        return MEAN
    if node.kind in ("Add", "Sum") and found & {MEAN, MORE}:
        return MORE
    if node.kind == "Sub" and found & {MEAN, MORE} and len(read) > 1:
        return LESS
    if node.kind == "Sqrt" and MORE in found:
        return ROOT
    return found.pop() if len(read) == 1 and found else ""


def refuse_other_normalisation(node: Node, graph: OnnxGraph) -> None:
    """Refuse a quotient with a root of a mean and more, unless it is a normalisation in the one form of exporters.

    ONNX Runtime up to 1.31 makes a normalisation of it whichever its nodes read first: x - m or m - x, x / q or q / x.
    It takes the second number of the sum as ε, or 1e-5 if that is no constant, or is float64.
    """
    if ROOT not in {graph.means.get(name) for name in node.inputs}:
        return
    apart, epsilon = spread_of(node.inputs[1], graph) or ("", 0.0)
    inside = graph.nodes.get(read_by(node.inputs[1], "Sqrt", graph) or "")
    dividends = {node.inputs[0]}
    if graph.number(node.inputs[0]) == 1:  # ONNX Runtime makes y / q of y · (1 / q)
        readers = graph.readers.get(node.output, [])
        dividends = {name for each in readers for name in each.inputs if name != node.output}
        dividends |= {"" for each in readers if each.kind != "Mul"} | ({""} if node.output in graph.outputs else set())
    if (
        graph.element != ELEMENTS["float32"]
        or inside is None
        or graph.number(inside.inputs[-1]) != epsilon
        or dividends != {apart}
        or (graph.means.get(apart) == LESS and centred_of(apart, graph) is None)
    ):
        for name in node.inputs:
            if name not in graph.tensors:
                graph.entry(name)  # what comes first is to blame
        raise CheckError("node Div ends a normalisation in a form that ONNX Runtime takes for another one")


def refuse_other_gelu(graph: OnnxGraph) -> None:
    """Refuse numbers that are nearly those of GELU by tanh, which ONNX Runtime takes for these in float32."""
    if graph.element != ELEMENTS["float32"] or not any(node.kind == "Tanh" for node in graph.nodes.values()):
        return
    single = [float(each.reshape(())) for each in graph.tensors.values() if each.size == 1 and each.dtype.kind == "f"]
    if not any(_is_near(number, _CUBIC) for number in single):
        return
    for exact in _OF_GELU:
        if any(_is_near(number, exact) and not are_equal(number, exact, graph) for number in single):
            raise CheckError(f"a number is nearly {exact:g}, which ONNX Runtime takes it for in GELU")


def _is_near(number: float, exact: float) -> bool:
    return abs(number - exact) <= _NEAR * exact
