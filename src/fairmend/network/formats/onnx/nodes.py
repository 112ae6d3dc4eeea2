"""Convert an ONNX graph to the steps of a network, node by node, after what exporters write as several operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from fairmend.base.errors import FairmendError
from fairmend.network.formats.axes import ROWS, Dims, Rows, shown, sizes_of
from fairmend.network.formats.build import GraphBuilder, Value, unsupported
from fairmend.network.formats.onnx.arrays import attributes, has_rows
from fairmend.network.formats.onnx.conversion import At, Conversion, Refused, Result
from fairmend.network.formats.onnx.fusions import note_means, refuse_other_gelu, refuse_other_normalisation
from fairmend.network.formats.onnx.graph import Graph, Node, describe_node
from fairmend.network.formats.onnx.operators import find_operator
from fairmend.network.formats.onnx.patterns import find_function, find_normalisation


def convert_graph(graph: Graph) -> tuple[GraphBuilder, Value]:
    """Return the steps of the graph, operator by operator; `graph.layers` names the nodes of its affine layers."""
    nodes, to = graph.nodes(), Conversion(graph)
    _read_inputs(nodes, to)
    for node in nodes:
        note_means(node, to)
        try:
            result: Result | Refused | None = _convert(node, to)
        except FairmendError as error:
            result = Refused(error)
        if result is not None:
            to.results.setdefault(node.output[0], result)
    output = to.data(graph.output)
    refuse_other_gelu(graph, nodes)
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
    refuse_other_normalisation(node, to)
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
