"""Nodes that ONNX Runtime takes for a function that they do not compute: a graph with them is refused.

It makes one operator of several nodes by the order of their kinds, and by numbers that are nearly the right ones.
"""

from __future__ import annotations

import math

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.network.formats.onnx.conversion import At, Conversion, Refused
from fairmend.network.formats.onnx.graph import Graph, Node
from fairmend.network.formats.onnx.patterns import input_of, is_square, mean_of, number_of

_CUBIC = 0.044715  # of GELU by tanh
_GELU = (_CUBIC, math.sqrt(2 / math.pi), 0.5, 1.0)
_NEAR = 1e-4  # ONNX Runtime takes numbers for equal up to a relative 1e-5


def note_means(node: Node, to: Conversion) -> None:
    """Note how what a node gives comes from a mean, also through nodes that ONNX Runtime may leave out.

    Steps on the way to a normalisation are "mean", "sum" with a mean and "root" of that, and "apart" from a mean.
    """
    given = [str(name) for name in node.input if name and to.graph.constant(name) is None and name not in to.sizes]
    steps = {to.means[name] for name in given if name in to.means}
    averaged = bool(steps & {"mean", "sum"})
    if node.op_type == "ReduceMean":
        step = "mean"
    elif node.op_type in ("Add", "Sum") and averaged:
        step = "sum"
    elif node.op_type == "Sub" and averaged and len(given) == 2:
        step = "apart"
    elif node.op_type == "Sqrt" and "sum" in steps:
        step = "root"
    elif len(given) == 1 and steps:
        (step,) = steps
    else:
        return
    to.means.update(dict.fromkeys(map(str, node.output), step))


def refuse_other_normalisation(node: Node, to: Conversion) -> None:
    """Refuse a quotient that ONNX Runtime takes for a normalisation, unless it is one as exporters write it.

    Up to release 1.31 it does not look at which of two values a node reads first, nor at whether epsilon is a constant.
    In float64 it takes 1e-5 for epsilon, whatever the graph says.
    """
    if node.op_type == "Div" and any(to.means.get(name) == "root" for name in node.input) and not _is_plain(node, to):
        for name in node.input:
            if isinstance(to.results.get(name), Refused):
                to.data(name)  # what comes first is to blame
        raise At(node, to).refuse(
            "ends a normalisation in a form that ONNX Runtime takes for another one; export the model again, with its "
            "LayerNormalization as one node (opset 17 or later)"
        )


def _is_plain(node: Node, to: Conversion) -> bool:
    """Return whether a quotient is d / sqrt(mean(d²) + epsilon) in float32, or 1 / that times d."""
    graph = to.graph
    inside = graph.producer(input_of(node.input[1], "Sqrt", graph) or "")
    if graph.dtype != np.float32 or inside is None or inside.op_type != "Add":
        return False
    mean, epsilon = mean_of(inside.input[0], to), number_of(inside.input[1], graph)
    square = None if mean is None else graph.producer(mean[0])
    if mean is None or epsilon is None or square is None or not is_square(mean[0], square.input[0], graph):
        return False
    apart, quotient = square.input[0], node.output[0]
    if number_of(node.input[0], graph) == 1:
        readers = graph.readers(quotient)
        fits = quotient != graph.output and all(
            each.op_type == "Mul" and sorted(each.input) == sorted([quotient, apart]) for each in readers
        )
    else:
        fits = node.input[0] == apart
    if not fits or to.means.get(apart) != "apart":
        return fits
    difference = graph.producer(apart)
    return (
        difference is not None
        and difference.op_type == "Sub"
        and mean_of(difference.input[1], to) == (difference.input[0], mean[1])
    )


def refuse_other_gelu(graph: Graph, nodes: list[Node]) -> None:
    """Refuse numbers that are nearly those of GELU by tanh: ONNX Runtime takes them for these in float32."""
    if graph.dtype != np.float32 or not any(node.op_type == "Tanh" for node in nodes):
        return
    numbers = {float(each.reshape(())) for each in graph.constants() if each.size == 1 and each.dtype.kind == "f"}
    if not any(_is_near(number, _CUBIC) for number in numbers):
        return
    room = 2 * float(np.finfo(np.float32).eps)
    for exact in _GELU:
        wrong = [number for number in numbers if _is_near(number, exact) and abs(number - exact) > room * exact]
        if wrong:
            raise FairmendError(
                f"{graph.source}: the graph computes with {wrong[0]:.9g}, which ONNX Runtime takes for {exact:.9g} in "
                f"GELU; export the model with {exact:.9g}"
            )


def _is_near(number: float, exact: float) -> bool:
    return abs(number - exact) <= _NEAR * exact
