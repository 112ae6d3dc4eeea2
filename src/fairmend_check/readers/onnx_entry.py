"""The entry of a model in an .onnx file: the nodes and constants that its data describe, and nothing else.

`nodes_of` generates them, and `find_entry` compares them with the file, message by message. docs/classes.md lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.entry import Code, Entry, Lookup, array_of
from fairmend_check.readers import protobuf
from fairmend_check.readers.protobuf import Message

PREFIX = "fairmend_entry/"
ELEMENTS = {"float32": 1, "int32": 6, "int64": 7, "string": 8, "bool": 9, "float64": 11}
_CUTS, _LOOKUPS, _TEXTS = 9, 13, 19  # the least versions of the operators for entries of these
_INT = 2  # the type of an attribute
_CONVERTED = "If a tool converted the file (int8, float16), convert the original instead, and repair what it gives"


@dataclass
class EntryNodes:
    """The nodes of an entry in their order, its constants by name, and the value that replaces each port behind it."""

    nodes: list[Message] = field(default_factory=list)
    constants: dict[str, Message] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> set[str]:
        """What nothing but the entry may read: ports that it replaces, and its values on the way."""
        inner = {name for node in self.nodes for name in node["output"]}
        return (inner | set(self.constants) | set(self.replaced)) - set(self.replaced.values())

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: int) -> str:
        """Add a node, named as its output, and return that."""
        node: Message = {"input": list(inputs), "output": [output], "name": output, "op_type": kind}
        if attributes:
            node["attribute"] = [{"name": name, "i": i, "type": _INT} for name, i in sorted(attributes.items())]
        self.nodes.append(node)
        return output

    def constant(self, name: str, values: Any, kind: str, shape: Sequence[int]) -> str:
        """Add a constant of a type and shape, and return its name."""
        tensor: Message = {"data_type": ELEMENTS[kind], "name": name}
        if shape:
            tensor["dims"] = list(shape)
        array = array_of(values, kind).reshape(shape)
        if kind == "string":
            tensor["string_data"] = [text.encode() for text in array.reshape(-1).tolist()]
        else:
            tensor["raw_data"] = array.astype(array.dtype.newbyteorder("<")).tobytes()
        self.constants[name] = tensor
        return name


def nodes_of(entry: Entry) -> EntryNodes:
    """Return the nodes and constants that the data of an entry describe."""
    found = EntryNodes()
    matrices = []
    for number, port in enumerate(entry.ports):
        looked_up = any(each.port == number for each in entry.lookups)
        matrix = port.name
        if port.rank == 1 and (looked_up or entry.read_columns(number)):
            column = found.constant(f"{PREFIX}{number}/column", [-1, 1], "int64", [2])
            matrix = found.add("Reshape", [port.name, column], f"{PREFIX}{number}/matrix")
        matrices.append(matrix)
    for number in range(len(entry.ports)):
        _replace_port(found, entry, number, matrices)
    return found


def _replace_port(found: EntryNodes, entry: Entry, number: int, matrices: Sequence[str]) -> None:
    port, here = entry.ports[number], f"{PREFIX}{number}"
    last, cuts = matrices[number], entry.cut_columns(number)
    reshaped = last != port.name
    if cuts:
        shape = [1, port.width] if port.rank == 2 or reshaped else [1]
        nothing: Any = {"string": "", "bool": True}.get(port.type, 0)
        columns = range(port.width)
        mask = found.constant(f"{here}/mask", [column in cuts for column in columns], "bool", shape)
        values = [cuts.get(column, nothing) for column in columns]
        reference = found.constant(f"{here}/reference", values, port.type, shape)
        if port.type == "bool":  # ONNX Runtime has no Where for truth values
            either = found.add("Or", [mask, last], f"{here}/or")
            last = found.add("And", [either, reference], f"{here}/where")
        else:
            last = found.add("Where", [mask, reference, last], f"{here}/where")
    lookups = [(at, each) for at, each in enumerate(entry.lookups) if each.port == number]
    tables = [_look_up(found, entry, at, each, matrices) for at, each in lookups]
    if lookups:
        kept = entry.kept_columns(number) + sorted(cuts)
        kept.sort()
        parts = tables
        if kept:
            chosen = found.constant(f"{here}/kept", kept, "int64", [len(kept)])
            parts = [found.add("Gather", [last, chosen], f"{here}/rest", axis=1), *tables]
        both = found.add("Concat", parts, f"{here}/all", axis=1)
        places = [*kept, *(column for _, each in lookups for column in each.columns)]
        order = found.constant(
            f"{here}/order", [places.index(column) for column in range(port.width)], "int64", [port.width]
        )
        last = found.add("Gather", [both, order], f"{here}/ordered", axis=1)
    if reshaped and (cuts or lookups):
        flat = found.constant(f"{here}/flat", [-1], "int64", [1])
        last = found.add("Reshape", [last, flat], f"{here}/flattened")
    if cuts or lookups:
        found.replaced[port.name] = last


def _look_up(found: EntryNodes, entry: Entry, number: int, lookup: Lookup, matrices: Sequence[str]) -> str:
    """Add the nodes of a look-up, and return the rows that it finds."""
    here = f"{PREFIX}lookup_{number}"
    parts = [
        _code(found, f"{here}/code_{at}", code, matrices[code.port], entry.ports[code.port].type)
        for at, code in enumerate(lookup.codes)
    ]
    if len(parts) > 1:
        for at, stride in enumerate(lookup.strides):
            factor = found.constant(f"{here}/code_{at}/stride", stride, "int64", [])
            parts[at] = found.add("Mul", [parts[at], factor], f"{here}/code_{at}/part")
    index = parts[0]
    for at, part in enumerate(parts[1:], start=1):
        index = found.add("Add", [index, part], f"{here}/index_{at}")
    shape = [len(lookup.table), len(lookup.columns)]
    table = found.constant(f"{here}/table", lookup.table, entry.ports[lookup.port].type, shape)
    return found.add("Gather", [table, index], f"{here}/found", axis=0)


def _code(found: EntryNodes, name: str, code: Code, matrix: str, kind: str) -> str:
    """Add the nodes of a code, and return its name."""
    columns = found.constant(f"{name}/columns", code.columns, "int64", [len(code.columns)])
    read = found.add("Gather", [matrix, columns], f"{name}/read", axis=1)
    shape = [1, len(code.constants)]
    constants = found.constant(f"{name}/with", code.constants, kind, shape)
    comparison = "GreaterOrEqual" if code.compare == ">=" else "Equal"
    compared = found.add(comparison, [read, constants], f"{name}/compared")
    counted = found.add("Cast", [compared], f"{name}/counted", to=ELEMENTS["int64"])
    weights = found.constant(f"{name}/weights", code.weights, "int64", shape)
    weighted = found.add("Mul", [counted, weights], f"{name}/weighted")
    axes = found.constant(f"{name}/axes", [1], "int64", [1])
    total = found.add("ReduceSum", [weighted, axes], f"{name}/sum", keepdims=0)
    return found.add("Min", [total, found.constant(f"{name}/most", code.most, "int64", [])], f"{name}/code")


def find_entry(graph: Message, entry: Entry, opset: int) -> EntryNodes:
    """Return the nodes of an entry, if a graph begins with them and has their constants, and its ports as inputs."""
    expected = nodes_of(entry)
    texts = any(entry.ports[code.port].type == "string" for each in entry.lookups for code in each.codes)
    least = _TEXTS if texts else _LOOKUPS if entry.lookups else _CUTS
    if opset < least:
        raise CheckError(f"the entry needs version {least} of ONNX's operators, and the file imports {opset}")
    nodes = graph.get("node", [])
    for number, node in enumerate(expected.nodes):
        there = nodes[number] if number < len(nodes) else {}
        if there != node:
            raise NotConfirmedError(
                f'node {number} is not the {node["op_type"]} "{node["name"]}" of the entry: '
                f"{_first_difference(node, there)}. {_CONVERTED}"
            )
    tensors: dict[str, list[Message]] = {}
    for tensor in graph.get("initializer", []):
        tensors.setdefault(tensor.get("name", ""), []).append(tensor)
    for name, constant in expected.constants.items():
        if tensors.get(name) != [constant]:
            raise NotConfirmedError(
                f'the constant "{name}" of the entry is missing, or not what its data say. {_CONVERTED}'
            )
    _check_ports(graph, entry)
    return expected


def _first_difference(expected: Message, found: Message) -> str:
    keys = [*expected, *(key for key in found if key not in expected)]
    key = next(key for key in keys if expected.get(key) != found.get(key))
    return f"{key} is {str(found.get(key))[:80]} instead of {str(expected.get(key))[:80]}"


def _check_ports(graph: Message, entry: Entry) -> None:
    """Refuse inputs that are no ports, and ports of another type or shape than the inputs."""
    inputs = {value.get("name", ""): value for value in graph.get("input", [])}
    for name in inputs:
        if name not in {port.name for port in entry.ports}:
            raise NotConfirmedError(f'the model has an input "{name[:40]}", which is no port of the entry')
    for port in entry.ports:
        if port.name not in inputs:
            raise NotConfirmedError(f'the model has no input "{port.name[:40]}", a port of the entry')
        kind = protobuf.read_message("Type", inputs[port.name].get("type", b"")).get("tensor_type", {})
        dimensions = kind.get("shape", {}).get("dim", [])
        fits = len(dimensions) == port.rank and kind.get("elem_type", 0) == ELEMENTS[port.type]
        if not fits or (port.rank == 2 and dimensions[1].get("dim_value", 0) != port.width):
            shape = "[rows]" if port.rank == 1 else f"[rows, {port.width}]"
            raise NotConfirmedError(f'the input "{port.name[:40]}" must be declared as {port.type} of shape {shape}')


def is_false(tensor: Message) -> bool:
    """Return whether a constant is a truth value that is false."""
    stored = [key for key in tensor if key not in ("dims", "data_type", "name", "doc_string")]
    data = bytes(tensor[stored[0]]) if stored in (["raw_data"], ["int32_data"]) else b"\1"
    return bool(tensor.get("data_type") == ELEMENTS["bool"] and np.prod(tensor.get("dims", [])) == 1 and data == b"\0")
