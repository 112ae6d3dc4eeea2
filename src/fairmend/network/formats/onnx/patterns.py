"""What exporters write as several operators: SiLU as x · sigmoid(x), GELU with Erf, normalisation with its mean."""

from __future__ import annotations

import math

import numpy as np

from fairmend.network import Activation
from fairmend.network.formats.onnx.arrays import attributes
from fairmend.network.formats.onnx.conversion import At, Conversion, Result
from fairmend.network.formats.onnx.graph import Graph, Node

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
        new = [each for each in map(str, node.input) if number_of(each, graph) is None and each not in found]
        found += dict.fromkeys(new)
        waiting += dict.fromkeys(new)
    return found


def _softplus(node: Node, graph: Graph) -> tuple[str, Activation] | None:
    """Find softplus as PyTorch computes it: x where x is above 20, or above more, and softplus elsewhere."""
    condition, x, other = node.input
    greater = graph.producer(condition)
    if greater is None or greater.op_type != "Greater" or greater.input[0] != x:
        return None
    limit = number_of(greater.input[1], graph)
    fits = input_of(other, "Softplus", graph) == x and limit is not None and limit >= _LINEAR
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
    numbers = [number_of(each, graph) for each in node.input]
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


def number_of(name: str, graph: Graph) -> float | None:
    """Return a constant that is one number, and adds no axis to what it is combined with."""
    value = graph.constant(name)
    return float(value.reshape(())) if value is not None and value.shape in ((), (1,)) else None


def input_of(name: str, kind: str, graph: Graph) -> str | None:
    """Return what the node of this operator reads that gives a value; None if another one gives it."""
    node = graph.producer(name)
    return str(node.input[0]) if node is not None and node.op_type == kind else None


def _close(a: float, b: float, graph: Graph) -> bool:
    """Return whether a is b up to rounding in the dtype of the model, which the error bounds of functions cover."""
    return abs(a - b) <= 2 * float(np.finfo(graph.dtype).eps) * abs(b)


def _silu(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    return Activation("silu") if constant == 1 and input_of(other, "Sigmoid", graph) == x else None


def _mish(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    inner = input_of(other, "Tanh", graph)
    found = inner is not None and constant == 1 and input_of(inner, "Softplus", graph) == x
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
    limits = [number_of(each, graph) for each in node.input[1:]]
    return Activation("hardswish") if limits == [0, 6] and _plus(node.input[0], graph) == (x, 3.0) else None


def _gelu(constant: float, x: str, other: str, graph: Graph) -> Activation | None:
    """Find x · (1 + erf(x / √2)) / 2, and x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    plus = _plus(other, graph)
    if plus is None or plus[1] != 1 or constant != 0.5:
        return None
    inside = input_of(plus[0], "Erf", graph)
    if inside is not None:
        scale, factors = _factors(inside, graph, x)
        return Activation("gelu") if factors == [x] and _close(scale, math.sqrt(0.5), graph) else None
    inside = input_of(plus[0], "Tanh", graph)
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
    return node is not None and node.op_type == "Pow" and node.input[0] == x and number_of(node.input[1], graph) == 3


def _plus(name: str, graph: Graph) -> tuple[str, float] | None:
    """Return the value and the number that are added up to a value."""
    node = graph.producer(name)
    if node is None or node.op_type != "Add":
        return None
    for value, number in (node.input, list(node.input)[::-1]):
        added = number_of(number, graph)
        if added is not None:
            return str(value), float(np.float64(added))
    return None


def _softsign(node: Node, graph: Graph) -> tuple[str, Activation] | None:
    """Find x / (1 + |x|)."""
    x = node.input[0]
    plus = _plus(node.input[1], graph)
    if plus is None or plus[1] != 1 or input_of(plus[0], "Abs", graph) != x:
        return None
    return x, Activation("softsign")


def find_normalisation(node: Node, to: Conversion) -> tuple[Result, int, float, bool] | None:
    """Return the value, the first axis, epsilon and whether the mean is subtracted, if a node ends a normalisation.

    That is x / sqrt(mean(x²) + epsilon), over the last axes: of a value less its mean, or of any other.
    """
    graph = to.graph
    for above, below in _quotients(node, graph):
        spread = input_of(below, "Sqrt", graph)
        added = None if spread is None else graph.producer(spread)
        if added is None or added.op_type != "Add":
            continue
        for square, number in (added.input, list(added.input)[::-1]):
            epsilon = graph.constant(number)
            if epsilon is None or epsilon.size != 1 or epsilon.ndim > 1 or epsilon.dtype != graph.dtype:
                continue
            mean = mean_of(square, to)
            if mean is None or not is_square(mean[0], above, graph):
                continue
            found = At(node, to).read(list(node.input).index(above)) if above in node.input else to.data(above)
            apart = graph.producer(above)
            centred = (
                apart is not None
                and apart.op_type == "Sub"
                and mean_of(apart.input[1], to) == (apart.input[0], mean[1])
            )
            if centred and apart is not None:
                found = At(apart, to).read()
            if mean[1] == tuple(range(mean[1][0], len(found.dims))):
                return found, mean[1][0], float(epsilon.reshape(())), centred
    return None


def _quotients(node: Node, graph: Graph) -> list[tuple[str, str]]:
    """Return the dividend and divisor of a node: of a quotient, or of a product with the inverse of a value."""
    if node.op_type == "Div":
        return [(node.input[0], node.input[1])]
    pairs = (node.input, list(node.input)[::-1]) if node.op_type == "Mul" else ()
    inverse = ((first, input_of(second, "Reciprocal", graph)) for first, second in pairs)
    return [(first, second) for first, second in inverse if second is not None]


def mean_of(name: str, to: Conversion) -> tuple[str, tuple[int, ...]] | None:
    """Return what a value is the mean of, and over which axes, which it keeps."""
    node = to.graph.producer(name)
    if node is None or node.op_type != "ReduceMean" or not attributes(node).get("keepdims", 1):
        return None
    given = to.graph.constant(node.input[1]) if len(node.input) > 1 else None
    axes = attributes(node).get("axes") if given is None else given.reshape(-1).tolist()
    if not axes:
        return None
    count = _axes(node.input[0], to)
    return str(node.input[0]), tuple(sorted({int(axis) % count for axis in axes}))


def _axes(name: str, to: Conversion) -> int:
    """Return how many axes a value has; a power or a product of it with itself has as many."""
    node = to.graph.producer(name)
    of = node.input[0] if node is not None and node.op_type in ("Pow", "Mul") else name
    return len(to.data(of).dims)


def is_square(name: str, of: str, graph: Graph) -> bool:
    """Return whether a node gives the square of a value."""
    node = graph.producer(name)
    if node is None or node.op_type not in ("Pow", "Mul") or node.input[0] != of:
        return False
    return bool(node.input[1] == of) if node.op_type == "Mul" else number_of(node.input[1], graph) == 2
