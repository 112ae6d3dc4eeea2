"""Write an entry as the first nodes of an ONNX graph; docs/classes.md lists them, and the checker compares each one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from fairmend.base.errors import FairmendError
from fairmend.models.entry import ELEMENT_TYPES, Code, Cut, Entry, TableLookup

PREFIX = "fairmend_entry/"
COMPARISONS = {">=": "GreaterOrEqual", "==": "Equal"}
_NOTHING: dict[str, Any] = {"string": "", "bool": True}


class NodeWriter:
    """Nodes and constants of a graph, in order. The name of a node is that of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, operator: str, inputs: Iterable[str], output: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        self.nodes.append(helper.make_node(operator, list(inputs), [output], output, **attributes))
        return output

    def constant(self, name: str, values: Any, kind: str = "int64") -> str:
        """Add a constant, and return its name."""
        self.constants.append(as_tensor(np.asarray(values, dtype=ELEMENT_TYPES[kind]), name))
        return name

    def cut(
        self,
        place: str,
        kind: str,
        shape: tuple[int, ...],
        cuts: Sequence[Sequence[Cut]],
        source: str,
        output: str = "where",
    ) -> str:
        """Add the nodes that replace columns of values of a type by constants, and return the name of the result.

        With several lists of cuts, it has an axis of these before those of the shape. ONNX Runtime has no Where for
        truth values: x or true is true, and true and v is v; x or false is x, and x and true is x.
        """
        chosen = [{cut.column: cut.value for cut in each} for each in cuts]
        nothing, columns = _NOTHING.get(kind, 0), range(shape[-1])
        values = np.array([[each.get(column, nothing) for column in columns] for each in chosen], ELEMENT_TYPES[kind])
        mask = np.array([column in chosen[0] for column in columns])
        several = (len(cuts),) if len(cuts) > 1 else ()
        cut = self.constant(f"{place}/mask", mask.reshape(shape), "bool")
        reference = self.constant(f"{place}/reference", values.reshape(*several, *shape), kind)
        if kind == "bool":
            return self.node("And", [self.node("Or", [cut, source], f"{place}/or"), reference], f"{place}/{output}")
        return self.node("Where", [cut, reference, source], f"{place}/{output}")

    def lookup(self, name: str, lookup: TableLookup, matrices: Sequence[str], types: Sequence[str]) -> str:
        """Add the nodes that look columns up in a table, and return the name of what they find (rows, columns)."""
        codes = [
            self.code(f"{name}/code_{k}", code, matrices[code.port], types[code.port])
            for k, code in enumerate(lookup.codes)
        ]
        index = codes[0]
        if len(codes) > 1:
            parts = [
                self.node("Mul", [code, self.constant(f"{name}/code_{k}/stride", stride)], f"{name}/code_{k}/part")
                for k, (code, stride) in enumerate(zip(codes, lookup.strides, strict=True))
            ]
            index = parts[0]
            for k, part in enumerate(parts[1:], 1):
                index = self.node("Add", [index, part], f"{name}/index_{k}")
        table = self.constant(f"{name}/table", lookup.table, types[lookup.port])
        return self.node("Gather", [table, index], f"{name}/found", axis=0)

    def code(self, name: str, code: Code, matrix: str, kind: str) -> str:
        """Add the nodes that read a code off each row, and return its name."""
        read = self.node("Gather", [matrix, self.constant(f"{name}/columns", code.columns)], f"{name}/read", axis=1)
        compared = self.node(
            COMPARISONS[code.compare],
            [read, self.constant(f"{name}/with", [code.constants], kind)],
            f"{name}/compared",
        )
        counted = self.node("Cast", [compared], f"{name}/counted", to=TensorProto.INT64)
        weighted = self.node("Mul", [counted, self.constant(f"{name}/weights", [code.weights])], f"{name}/weighted")
        total = self.node("ReduceSum", [weighted, self.constant(f"{name}/axes", [1])], f"{name}/sum", keepdims=0)
        return self.node("Min", [total, self.constant(f"{name}/most", code.most)], f"{name}/code")

    def assemble(self, name: str, source: str, width: int, lookups: Sequence[tuple[TableLookup, str]]) -> str:
        """Add the nodes that put columns which were looked up into their places, and return the name of the result."""
        replaced = [column for lookup, _ in lookups for column in lookup.columns]
        kept = [column for column in range(width) if column not in set(replaced)]
        parts = [found for _, found in lookups]
        if kept:
            parts.insert(0, self.node("Gather", [source, self.constant(f"{name}/kept", kept)], f"{name}/rest", axis=1))
        joined = self.node("Concat", parts, f"{name}/all", axis=1)
        order = np.argsort([*kept, *replaced], kind="stable")
        return self.node("Gather", [joined, self.constant(f"{name}/order", order)], f"{name}/ordered", axis=1)


def as_tensor(values: NDArray[Any], name: str) -> onnx.TensorProto:
    """Return a constant of a graph."""
    if values.dtype == object:
        return helper.make_tensor(name, TensorProto.STRING, values.shape, [str(each).encode() for each in values.flat])
    return numpy_helper.from_array(np.array(values, order="C"), name)  # keeps a number without dimensions


def write_entry(to: NodeWriter, entry: Entry, sources: Sequence[str] | None = None, prefix: str = PREFIX) -> list[str]:
    """Add the nodes of an entry, and return the names of what it gives for each port.

    It reads the inputs of the model, or values of other names (``sources``).
    """
    types = [port.type for port in entry.ports]
    names = [port.name for port in entry.ports] if sources is None else list(sources)
    used = {code.port for lookup in entry.lookups for code in lookup.codes} | {each.port for each in entry.lookups}
    shaped = {i for i, port in enumerate(entry.ports) if port.rank == 1 and i in used}
    matrices = [
        to.node("Reshape", [name, to.constant(f"{prefix}{i}/column", [-1, 1])], f"{prefix}{i}/matrix")
        if i in shaped
        else name
        for i, name in enumerate(names)
    ]
    results = []
    for i, port in enumerate(entry.ports):
        place, found, width = f"{prefix}{i}", matrices[i], entry.widths[i]
        cuts = [cut for cut in entry.cuts if cut.port == i]
        if cuts:
            shape = (1,) if port.rank == 1 and i not in shaped else (1, width)
            found = to.cut(place, port.type, shape, [cuts], found)
        own = [
            (lookup, to.lookup(f"{prefix}lookup_{number}", lookup, matrices, types))
            for number, lookup in enumerate(entry.lookups)
            if lookup.port == i
        ]
        if own:
            found = to.assemble(place, found, width, own)
        if i in shaped and found != matrices[i]:
            found = to.node("Reshape", [found, to.constant(f"{place}/flat", [-1])], f"{place}/flattened")
        results.append(names[i] if found == matrices[i] else found)
    return results


def add_entry(model: onnx.ModelProto, entry: Entry) -> onnx.ModelProto:
    """Return a copy of a model that reads its inputs through an entry, and is otherwise the same."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    require_room_for(changed, entry)
    to = NodeWriter()
    results = write_entry(to, entry)
    ports = [port.name for port in entry.ports]
    rename_uses(changed.graph, {name: found for name, found in zip(ports, results, strict=True) if name != found})
    prepend(changed.graph, to)
    return changed


def prepend(graph: onnx.GraphProto, written: NodeWriter) -> None:
    """Put nodes before those of a graph, and add their constants."""
    nodes = [*written.nodes, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(written.constants)


def require_room_for(model: onnx.ModelProto, entry: Entry) -> None:
    """Raise an error if a graph has no place for an entry: it has one, or its operators are too old."""
    graph = model.graph
    if any(name.startswith(PREFIX) for node in graph.node for name in (*node.output, node.name)):
        raise FairmendError("the model has an entry of fairmend already. Repair the original model instead.")
    if {each.name for each in graph.initializer} & {port.name for port in entry.ports}:
        raise FairmendError("an input of the model has a default value, which a caller can leave in place. Remove it.")


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the default operators of a model; 0 if it uses none of them."""
    return next((int(each.version) for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)


def needed_opset(entry: Entry) -> int:
    """Return the version of the default operators from which on an entry can be written."""
    texts = any(entry.ports[code.port].type == "string" for lookup in entry.lookups for code in lookup.codes)
    return 9 if not entry.lookups else 19 if texts else 13


def rename_uses(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Let all nodes of a graph, and of the graphs inside, read other values in place of some; graph outputs as well."""
    passed = [output.name for output in graph.output if output.name in names]
    for node in graph.node:
        _rename_inputs(node, names)
    for name in passed:  # an output that is an input: what the entry gives, under its old name
        graph.node.append(helper.make_node("Identity", [names[name]], [f"{name}/output"], f"{name}/output"))
        next(output for output in graph.output if output.name == name).name = f"{name}/output"


def _rename_inputs(node: onnx.NodeProto, names: dict[str, str]) -> None:
    for place, name in enumerate(node.input):
        if name in names:
            node.input[place] = names[name]
    for attribute in node.attribute:
        for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            own = {each.name for each in (*inner.input, *inner.initializer)}
            own |= {name for each in inner.node for name in each.output}
            outer = {name: found for name, found in names.items() if name not in own}
            for each in inner.node:
                _rename_inputs(each, outer)
            for output in inner.output:
                output.name = outer.get(output.name, output.name)
