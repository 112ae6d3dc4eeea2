"""Convert an ONNX graph to the steps of a network, node by node; `operators` has a function for each operator."""

from __future__ import annotations

from collections.abc import Sequence

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import GraphBuilder, Value
from fairmend.network.formats.onnx.conversion import Conversion, Refused, Result
from fairmend.network.formats.onnx.graph import Graph, Node, attributes
from fairmend.network.formats.onnx.operators import find_operator
from fairmend.network.formats.onnx.patterns import find_function


def convert_graph(graph: Graph) -> tuple[GraphBuilder, Value]:
    """Return the steps of the graph, operator by operator; `graph.layers` names the nodes of its affine layers."""
    nodes, to = graph.nodes(), Conversion(graph)
    _read_inputs(nodes, to)
    for node in nodes:
        try:
            result: Result | Refused = _convert(node, to)
        except FairmendError as error:
            result = Refused(error)
        to.results.setdefault(node.output[0], result)
    output = to.data(graph.output)
    if output.axes > 2:
        raise FairmendError(f"{graph.source}: the graph's output has {output.axes} axes, not (rows, outputs)")
    if graph.ranked and output.value.width < 2:
        raise FairmendError(
            f"{graph.source}: the graph's label is the largest of 1 number, and so always the first class; "
            "convert the model with one output of scores"
        )
    return to.builder, output.value


def _convert(node: Node, to: Conversion) -> Result:
    found = find_function(node, to.graph)
    if found is not None:
        return to.function(node, *found)
    convert = find_operator(node)
    if convert is None:
        for name in node.input:
            if isinstance(to.results.get(name), Refused):
                to.data(name)  # what comes first is to blame
        raise to.refuse(node, "is not supported")
    return convert(node, to)


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
    row = to.builder.input(sum(widths), names if len(inputs) > 1 else ())
    start = 0
    for given, width in zip(inputs, widths, strict=True):
        part = to.builder.columns(row, f"input {given.name!r}", range(start, start + width))
        to.results[given.name] = Result(part, whole=given.whole)
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
