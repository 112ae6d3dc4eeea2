"""Convert an ONNX graph to the steps of a network, node by node, after what exporters write as several operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.axes import ROWS, Dims, Rows, shown, sizes_of
from fairmend.network.formats.build import GraphBuilder, Value, unsupported
from fairmend.network.formats.onnx.arrays import attributes, has_rows
from fairmend.network.formats.onnx.conversion import At, Conversion, Refused, Result
from fairmend.network.formats.onnx.graph import Graph, Node, describe_node
from fairmend.network.formats.onnx.normalisation import find_normalisation
from fairmend.network.formats.onnx.operators import find_operator

if TYPE_CHECKING:
    from fairmend.network.formats.onnx.graph import Graph, Node


# Functions that exporters write as several operators: SiLU as x · sigmoid(x), GELU with Erf, and so on.


_MOST_VALUES = 8
_LINEAR = 20.0  # from here on, the bound of softplus's error covers the identity


def find_function(node: Node, graph: Graph) -> tuple[str, Activation] | None:
    """Return the name of x and f if the node computes f(x) together with the nodes before it; else None."""
    if node.op_type == "Where":
        return _softplus(node, graph)
    if node.op_type == "Div" and (found := _softsign(node, graph)) is not None:
        return found
    if node.op_type not in ("Mul", "Div"):
        return None
    for x in _values_in(node.output[0], graph):
        constant, factors = _factors(node.output[0], graph, x)
        if len(factors) != 2 or x not in factors:
            continue
        other = factors[1] if factors[0] == x else factors[0]
        for find in (_silu, _mish, _hardswish, _gelu):
            activation = find(constant, x, other, graph)
            if activation is not None:
                return x, activation
    return None


def _values_in(name: str, graph: Graph) -> list[str]:
    """Return the first values that are multiplied into a product, from its end on: x may be a product itself."""
    found, waiting = list[str](), [name]
    while waiting and len(found) < _MOST_VALUES:
        node = graph.producer(waiting.pop(0))
        if node is None or node.op_type not in ("Mul", "Div"):
            continue
        new = [each for each in map(str, node.input) if _number(each, graph) is None and each not in found]
        found += dict.fromkeys(new)
        waiting += dict.fromkeys(new)
    return found


def _softplus(node: Node, graph: Graph) -> tuple[str, Activation] | None:
    """Find softplus as PyTorch computes it: x where x is above 20, or above more, and softplus elsewhere."""
    condition, x, other = node.input
    greater = graph.producer(condition)
    if greater is None or greater.op_type != "Greater" or greater.input[0] != x:
        return None
    limit = _number(greater.input[1], graph)
    fits = _input_of(other, "Softplus", graph) == x and limit is not None and limit >= _LINEAR
    return (x, Activation("softplus", 0.0, (1.0,))) if fits else None


def _factors(name: str, graph: Graph, x: str) -> tuple[float, list[str]]:
    """Return a product as a constant and its other factors; a value that is no product, or x, is its only factor.

    Several constants are nan: 2^-149 times 2^148 is 0.5, but rounds x to whole numbers on the way.
    """
    constants, factors = _flat_product(name, graph, x)
    return (constants[0] if constants else 1.0) if len(constants) < 2 else math.nan, factors


def _flat_product(name: str, graph: Graph, x: str) -> tuple[list[float], list[str]]:
    """Return the constants and the other factors of a product."""
    node = graph.producer(name)
    if node is None or node.op_type not in ("Mul", "Div") or name == x:
        return [], [name]
    numbers = [_number(each, graph) for each in node.input]
    if node.op_type == "Div":
        divisor = numbers[1]
        if divisor is None or divisor == 0:
            return [], [name]
        constants, factors = _flat_product(node.input[0], graph, x)
        return [*constants, 1 / divisor], factors
    constants, factors = [number for number in numbers if number is not None], []
    for each, number in zip(node.input, numbers, strict=True):
        if number is None:
            inner, found = _flat_product(each, graph, x)
            constants, factors = [*constants, *inner], [*factors, *found]
    return constants, factors


def _number(name: str, graph: Graph) -> float | None:
    """Return a constant that is one number, and adds no axis to what it is combined with."""
    value = graph.constant(name)
    return float(value.reshape(())) if value is not None and value.shape in ((), (1,)) else None


def _input_of(name: str, kind: str, graph: Graph) -> str | None:
    """Return what the node of this operator reads that gives a value; None if another one gives it."""
    node = graph.producer(name)
    return str(node.input[0]) if node is not None and node.op_type == kind else None


def _close(a: float, b: float, graph: Graph) -> bool:
    """Return whether a is b up to rounding in the dtype of the model, which the error bounds of functions cover."""
    return abs(a - b) <= 2 * float(np.finfo(graph.dtype).eps) * abs(b)


def _silu(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    return Activation("silu") if constant == 1 and _input_of(other, "Sigmoid", graph) == x else None


def _mish(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    inner = _input_of(other, "Tanh", graph)
    found = inner is not None and constant == 1 and _input_of(inner, "Softplus", graph) == x
    return Activation("mish") if found else None


def _hardswish(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    """Find x · HardSigmoid(x), or x · clip(x + 3, 0, 6) / 6."""
    node = graph.producer(other)
    if node is None:
        return None
    if node.op_type == "HardSigmoid" and node.input[0] == x and constant == 1:
        given = {attribute.name: attribute.f for attribute in node.attribute}
        fits = _close(given.get("alpha", 0.2), 1 / 6, graph) and given.get("beta", 0.5) == 0.5
        return Activation("hardswish") if fits else None
    if node.op_type != "Clip" or not _close(constant, 1 / 6, graph) or len(node.input) != 3:
        return None
    limits = [_number(each, graph) for each in node.input[1:]]
    return Activation("hardswish") if limits == [0, 6] and _plus(node.input[0], graph) == (x, 3.0) else None


def _gelu(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    """Find x · (1 + erf(x / √2)) / 2, and x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    plus = _plus(other, graph)
    if plus is None or plus[1] != 1 or not _close(constant, 0.5, graph):
        return None
    inside = _input_of(plus[0], "Erf", graph)
    if inside is not None:
        scale, factors = _factors(inside, graph, x)
        return Activation("gelu") if factors == [x] and _close(scale, math.sqrt(0.5), graph) else None
    inside = _input_of(plus[0], "Tanh", graph)
    if inside is None:
        return None
    scale, factors = _factors(inside, graph, x)
    if len(factors) != 1 or not _close(scale, math.sqrt(2 / math.pi), graph):
        return None
    added = graph.producer(factors[0])
    if added is None or added.op_type != "Add" or x not in added.input:
        return None
    cube = added.input[1] if added.input[0] == x else added.input[0]
    small, powers = _factors(cube, graph, x)
    is_cube = powers == [x, x, x] or (len(powers) == 1 and _is_cube(powers[0], x, graph))
    return Activation("gelu_tanh") if is_cube and _close(small, 0.044715, graph) else None


def _is_cube(name: str, x: str, graph: Graph) -> bool:
    node = graph.producer(name)
    return node is not None and node.op_type == "Pow" and node.input[0] == x and _number(node.input[1], graph) == 3


def _plus(name: str, graph: Graph) -> tuple[str, float] | None:
    """Return the value and the number that are added up to a value."""
    node = graph.producer(name)
    if node is None or node.op_type != "Add":
        return None
    for value, number in (node.input, list(node.input)[::-1]):
        added = _number(number, graph)
        if added is not None:
            return str(value), float(np.float64(added))
    return None


def _softsign(node: Node, graph: Graph) -> tuple[str, Activation] | None:
    """Find x / (1 + |x|)."""
    x = node.input[0]
    plus = _plus(node.input[1], graph)
    if plus is None or plus[1] != 1 or _input_of(plus[0], "Abs", graph) != x:
        return None
    return x, Activation("softsign")


def convert_graph(graph: Graph) -> tuple[GraphBuilder, Value]:
    """Return the steps of the graph, operator by operator; `graph.layers` names the nodes of its affine layers."""
    nodes, to = graph.nodes(), Conversion(graph)
    _read_inputs(nodes, to)
    for node in nodes:
        try:
            result: Result | Refused | None = _convert(node, to)
        except FairmendError as error:
            result = Refused(error)
        if result is not None:
            to.results.setdefault(node.output[0], result)
    output = to.data(graph.output)
    _refuse_fixed_rows(to)
    if output.cut:
        raise FairmendError(
            f"{graph.source}: the output is cast to whole numbers, which cuts off what is after the point"
        )
    if output.dims[0] != ROWS or len(output.dims) > 2:
        last = graph.producer(graph.output)
        why = f"gives {shown(output.dims)} at the output, which is not (rows, outputs)"
        raise unsupported(graph.source, "the output" if last is None else describe_node(last), why)
    if graph.ranked and output.width < 2:
        raise FairmendError(
            f"{graph.source}: the graph's label is the largest of 1 number, and so always the first class; "
            "convert the model with one output of scores"
        )
    return to.builder, output.value


def _refuse_fixed_rows(to: Conversion) -> None:
    """Refuse values on the way that are declared for a number of rows that the inputs do not have.

    ONNX Runtime takes such a number for what Shape gives, whatever the input is.
    """
    for name, declared in to.graph.declared.items():
        dims = _dims_of(name, to)
        if dims is None or len(dims) != len(declared):
            continue
        for size, number in zip(dims, declared, strict=True):
            if isinstance(size, Rows) and number is not None and to.graph.row_counts != {number // size.entries}:
                raise FairmendError(
                    f"{to.graph.source}: the graph declares {name!r} for {number} rows, and its inputs for any number; "
                    "export the model again, or delete value_info from the graph"
                )


def _dims_of(name: str, to: Conversion) -> Dims | None:
    """Return the axes of a value; inside of a pattern those of what it reads, which patterns keep."""
    found = to.results.get(name)
    if isinstance(found, Result):
        return found.dims
    node = to.graph.producer(name) if found is not None else None
    read = [_dims_of(each, to) for each in (node.input if node is not None else ())]
    return next((dims for dims in read if dims is not None), None)


def _convert(node: Node, to: Conversion) -> Result | None:
    """Return what a node gives; None for sizes and constants."""
    if _computes_sizes(node, to):
        return None
    at, found = At(node, to), find_function(node, to.graph)
    if found is not None:
        return at.function(to.data(found[0]), found[1].name, parameters=found[1].parameters)
    norm = find_normalisation(node, to)
    if norm is not None:
        x, axis, epsilon, centred = norm
        return at.normalised(x, axis, epsilon, centred=centred)
    convert = find_operator(node)
    if convert is None:
        for name in node.input:
            if isinstance(to.results.get(name), Refused):
                to.data(name)  # what comes first is to blame
        raise at.refuse("is not supported")
    return convert(at)


def _computes_sizes(node: Node, to: Conversion) -> bool:
    """Return whether a node computes with sizes of axes and constants alone, and keep what it gives."""
    if node.op_type == "Shape" and node.input[0] not in to.sizes:
        given = attributes(node)
        sizes = sizes_of(to.data(node.input[0]).dims)[slice(given.get("start", 0), given.get("end"))]
        known: list[np.ndarray[Any, Any] | None] = [np.empty(len(sizes), object)]
        known[0][:] = sizes  # type: ignore[index]
        node = helper.make_node("Identity", ["sizes"], [node.output[0]])
    else:
        known = to.known(node)
        absent = [name for name, array in zip(node.input, known, strict=True) if name and array is None]
        if absent or not any(name in to.sizes or to.graph.constant(name) is not None for name in node.input):
            return False
    found = to.graph.fold(node, known)
    for name, array in zip(node.output, found, strict=False):
        if has_rows(array):
            to.sizes[name] = array
    return bool(found)


def _read_inputs(nodes: Sequence[Node], to: Conversion) -> None:
    """Put the inputs side by side in one row, in the order of the graph."""
    inputs = to.graph.inputs
    read = {name for node in nodes for name in node.input}
    for given in inputs:
        if given.name not in read:
            raise FairmendError(
                f"{to.graph.source}: the graph has {len(inputs)} inputs, and its output does not depend on "
                f"{given.name!r}; leave that input out"
            )
    widths = [given.columns or _width_of(given.name, nodes, to.graph) for given in inputs]
    names = [(given.name, width) for given, width in zip(inputs, widths, strict=True)]
    row = to.row = to.builder.input(sum(widths), names if len(inputs) > 1 else ())
    start = 0
    for given, width in zip(inputs, widths, strict=True):
        part = to.builder.columns(row, f"input {given.name!r}", range(start, start + width))
        to.results[given.name] = Result((part,), (ROWS,) if given.single else (ROWS, width), whole=given.whole)
        start += width


def _width_of(name: str, nodes: Sequence[Node], graph: Graph) -> int:
    """Return the columns of an input that does not state them, from the affine layer that reads it."""
    passed = {name}
    for node in nodes:
        if not passed & set(node.input):
            continue
        weight = graph.constant(node.input[1]) if len(node.input) > 1 else None
        if node.op_type in ("Gemm", "MatMul") and weight is not None and weight.ndim == 2:
            return int(weight.shape[1 if attributes(node).get("transB", 0) else 0])
        constants = [graph.constant(each) for each in node.input]
        wide = [constant.size for constant in constants if constant is not None and constant.size > 1]
        if node.op_type in ("Add", "Sub", "Mul", "Div", "BatchNormalization") and wide:
            return int(wide[0])
        passed.update(node.output)
    raise FairmendError(f"{graph.source}: the graph does not state how many columns its input {name!r} has")
