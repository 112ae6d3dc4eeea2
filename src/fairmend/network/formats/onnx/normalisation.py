"""Normalisation that exporters write as several operators: x less its mean, divided by its deviation."""

from __future__ import annotations

from fairmend.network.formats.onnx.arrays import attributes
from fairmend.network.formats.onnx.conversion import At, Conversion, Result
from fairmend.network.formats.onnx.graph import Graph, Node


def find_normalisation(node: Node, to: Conversion) -> tuple[Result, int, float, bool] | None:
    """Return the value, the first axis, epsilon and whether the mean is subtracted, if a node ends a normalisation.

    That is x / sqrt(mean(x²) + epsilon), over the last axes: of a value less its mean, or of any other.
    """
    graph = to.graph
    for above, below in _quotients(node, graph):
        spread = _of(below, "Sqrt", graph)
        added = None if spread is None else graph.producer(spread)
        if added is None or added.op_type != "Add":
            continue
        for square, number in (added.input, list(added.input)[::-1]):
            epsilon = graph.constant(number)
            if epsilon is None or epsilon.size != 1 or epsilon.ndim > 1 or epsilon.dtype != graph.dtype:
                continue
            mean = _mean_of(square, to)
            if mean is None or not _is_square(mean[0], above, graph):
                continue
            found = At(node, to).read(list(node.input).index(above)) if above in node.input else to.data(above)
            apart = graph.producer(above)
            centred = (
                apart is not None
                and apart.op_type == "Sub"
                and _mean_of(apart.input[1], to) == (apart.input[0], mean[1])
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
    inverse = ((first, _of(second, "Reciprocal", graph)) for first, second in pairs)
    return [(first, second) for first, second in inverse if second is not None]


def _of(name: str, kind: str, graph: Graph) -> str | None:
    node = graph.producer(name)
    return str(node.input[0]) if node is not None and node.op_type == kind else None


def _mean_of(name: str, to: Conversion) -> tuple[str, tuple[int, ...]] | None:
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


def _is_square(name: str, of: str, graph: Graph) -> bool:
    node = graph.producer(name)
    if node is None or node.op_type not in ("Pow", "Mul") or node.input[0] != of:
        return False
    exponent = graph.constant(node.input[1])
    if node.op_type == "Mul":
        return bool(node.input[1] == of)
    return exponent is not None and exponent.shape in ((), (1,)) and float(exponent.reshape(())) == 2
